# SPDX-License-Identifier: Apache-2.0
"""What a worker is to run, from its assignment and the config topic."""

from __future__ import annotations

import logging
from typing import Any

import pytest

from sparkmirror.config.worker_config import WorkerConfig
from sparkmirror.connect.config_cache import ConnectorConfigCache
from sparkmirror.connect.log_levels import LogLevels
from sparkmirror.connect.reconciler import Reconciler
from sparkmirror.connectors.desired_state import DesiredState, Restart
from sparkmirror.formats.connect_config_records import LoggerLevel, RestartRequest, TargetState
from sparkmirror.state.connect_configs import ClusterConfigState, ConfigEvent

WORKER = WorkerConfig.parse(
    "bootstrap.servers=127.0.0.1:1\n"
    "group.id=g\n"
    "config.storage.topic=c\n"
    "offset.storage.topic=o\n"
    "status.storage.topic=s\n"
)


def heartbeat(name: str, **changes: str) -> dict[str, str]:
    """A connector that needs no Spark."""
    config = {
        "name": name,
        "connector.class": "MirrorHeartbeatConnector",
        "source.cluster.alias": "a",
        "target.cluster.alias": "b",
        "target.cluster.bootstrap.servers": "127.0.0.1:1",
    }
    return config | {key.replace("_", "."): text for key, text in changes.items()}


class Bench:
    """A reconciler with a group and topics in memory."""

    def __init__(self) -> None:
        self.configs = ClusterConfigState()
        self.events: list[ConfigEvent] = []
        self.is_member = True
        self.rejoins = 0
        self.announced: list[str] = []
        self.cache = ConnectorConfigCache(WORKER)
        self.levels = LogLevels(logging.Manager(logging.RootLogger(logging.WARNING)))
        state: Any = self
        self.reconciler = Reconciler(
            state,
            self.cache,
            state,
            self.levels,
            announce=self.announced.extend,
        )
        for name in "xyz":
            self.configs.configs[name] = heartbeat(name)

    def rejoin(self) -> None:
        """As Membership."""
        self.rejoins += 1

    def drain_events(self) -> list[ConfigEvent]:
        """As GroupState."""
        events, self.events = self.events, []
        return events


@pytest.fixture
def bench() -> Bench:
    """Three connectors, two of them assigned."""
    made = Bench()
    made.reconciler.assign(("x", "y"))
    return made


def test_targets_are_those_that_are_assigned_and_known(bench: Bench) -> None:
    """A name that is assigned and was deleted meanwhile has none."""
    bench.configs.target_states |= {"x": TargetState.PAUSED, "y": TargetState.STOPPED}
    bench.reconciler.assign(("x", "y", "gone"))
    wanted = bench.reconciler.poll()
    assert {name: one.desired for name, one in wanted.connectors.items()} == {
        "x": DesiredState.PAUSED,
        "y": DesiredState.STOPPED,
    }
    bench.configs.target_states.clear()
    assert bench.reconciler.poll().connectors["x"].desired is DesiredState.RUNNING


def test_a_worker_without_a_place_runs_nothing(bench: Bench) -> None:
    """Its connectors are on standby, so that their lag is still shown."""
    bench.is_member = False
    bench.reconciler.revoke(("x", "y"))
    wanted = bench.reconciler.poll().connectors
    assert {name: one.desired for name, one in wanted.items()} == {
        "x": DesiredState.STANDBY,
        "y": DesiredState.STANDBY,
    }
    bench.is_member = True
    bench.reconciler.assign(("x", "y"))
    bench.reconciler.revoke(("x",))
    assert not bench.reconciler.owns("x")
    assert [*bench.reconciler.poll().connectors] == ["y"]


def test_a_config_that_cannot_be_run_is_a_target_with_a_failure(bench: Bench) -> None:
    """The same config gives an equal spec, another one does not."""
    before = bench.reconciler.poll().connectors["x"].spec
    assert bench.reconciler.poll().connectors["x"].spec == before
    bench.configs.configs["x"] = heartbeat("x", emit_heartbeats_interval_seconds="7")
    assert bench.reconciler.poll().connectors["x"].spec != before
    bench.configs.configs["x"] = heartbeat("x", emit_heartbeats_interval_seconds="often")
    target = bench.reconciler.poll().connectors["x"]
    assert target.spec is None
    assert "emit.heartbeats.interval.seconds" in target.failure


def test_the_group_shares_again_when_connectors_come_or_go(bench: Bench) -> None:
    """Not for those that were there at the start."""
    bench.reconciler.poll()
    assert bench.rejoins == 0
    bench.configs.configs["new"] = heartbeat("new")
    bench.reconciler.poll()
    bench.reconciler.poll()
    assert bench.rejoins == 1
    del bench.configs.configs["x"]
    bench.reconciler.poll()
    assert bench.rejoins == 2


def test_restarts_are_polled_once_and_read_references_again(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Those of other workers' connectors are not ours."""
    invalid: list[str] = []
    monkeypatch.setattr(bench.cache, "invalidate", invalid.append)
    bench.reconciler.poll()
    bench.events = [
        RestartRequest("y", include_tasks=True, only_failed=True),
        RestartRequest("z", include_tasks=True, only_failed=False),
        LoggerLevel("some.logger", "DEBUG"),
        LoggerLevel("some.logger", "NONSENSE"),
    ]
    assert bench.reconciler.poll().restarts == (Restart("y", include_tasks=True, only_failed=True),)
    assert invalid == ["y"]
    assert bench.reconciler.poll().restarts == ()
    assert bench.levels.get("some.logger").level == "DEBUG"
