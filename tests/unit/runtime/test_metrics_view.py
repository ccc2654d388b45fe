# SPDX-License-Identifier: Apache-2.0
"""What a scrape sees of a process: its flows, their groups and heartbeats, certificates."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from types import SimpleNamespace

import pytest

from sparkmirror.config.config_changes import parse_run
from sparkmirror.config.keys.connector_classes import ConnectorClass
from sparkmirror.config.mirror_config import MirrorConfig
from sparkmirror.config.settings import FlowSettings
from sparkmirror.connectors.connector_states import ConnectorState, ReportedState
from sparkmirror.connectors.desired_state import DesiredState, InstanceView
from sparkmirror.formats.connect_status_records import RunState
from sparkmirror.metrics.process_view import FlowView, ReloadMetrics, WorkerMetrics
from sparkmirror.model import TopicPartition
from sparkmirror.runtime.metrics_view import MirroredFlow, ProcessMetrics
from sparkmirror.security.settings import TlsSettings
from sparkmirror.spark.flow_status import FlowState, FlowStatus
from support.data.certificates import Authority

FILE = """\
clusters = a, b
a.bootstrap.servers = 127.0.0.1:1
b.bootstrap.servers = 127.0.0.1:2
a->b.enabled = true
b->a.enabled = true
"""
SPARK = SimpleNamespace(slot_count=4, capacity_slots=lambda _flow: 2, jvm_figures=lambda: None)


class Process:
    """Two flows with three partitions each."""

    def __init__(self, *lines: str) -> None:
        parsed = parse_run(MirrorConfig.parse("\n".join((FILE, *lines))))
        self.settings = [one.settings for one in parsed.flows.values() if one.settings.enabled]
        self.max_partitions = parsed.metrics.max_partitions
        self.listener_tls: TlsSettings | None = None
        self.state = FlowState.RUNNING

    def instances(self) -> Mapping[str, InstanceView]:
        return {
            f"{one.flow}.{kind.value}": self.view(one, kind)
            for one in self.settings
            for kind in ConnectorClass
        }

    def view(self, settings: FlowSettings, kind: ConnectorClass) -> InstanceView:
        status = FlowStatus(str(settings.flow))
        status.set_state(self.state)
        if kind is ConnectorClass.SOURCE:
            status.begin_epoch(1, [(TopicPartition("t", number), 0, None) for number in range(3)])
        return InstanceView(
            f"{settings.flow}.{kind.value}",
            kind,
            DesiredState.RUNNING,
            ConnectorState(ReportedState(RunState.RUNNING)),
            replace(status.snapshot(), seconds_since_success=7.0),
            group_positions={"synced": 5} if kind is ConnectorClass.CHECKPOINT else {},
            figures=status.figures,
            settings=settings,
        )

    def mirrored_flows(self) -> list[MirroredFlow]:
        views = self.instances()
        found = []
        for one in self.settings:
            view = views[f"{one.flow}.{ConnectorClass.SOURCE.value}"]
            found.append(MirroredFlow(view.snapshot, one, view.name, view))
        return found

    def worker_metrics(self) -> WorkerMetrics:
        return WorkerMetrics()

    def flows(self) -> list[FlowView]:
        """The flows of a scrape."""
        return [*ProcessMetrics(self, SPARK, ReloadMetrics()).view().flows]  # type: ignore[arg-type]


def test_partitions_share_the_limit_of_the_process() -> None:
    """In the order of the file; what is beyond it is summed by flow."""
    flows = Process("metrics.max.partitions = 4").flows()
    shown = [
        ([one.topic for one in flow.figures.partitions], flow.figures.summed_partitions)
        for flow in flows
    ]
    assert shown == [(["t"] * 3, 0), (["t", "(other)"], 2)]


def test_nothing_is_shown_one_by_one_without_room() -> None:
    flows = Process("metrics.max.partitions = 0").flows()
    assert [[one.topic for one in flow.figures.partitions] for flow in flows] == [["(other)"]] * 2


def test_a_flow_has_its_groups_and_ages() -> None:
    first, second = Process().flows()
    assert (first.source, second.source) == ("a", "b")
    assert first.remote_topic("t") == "a.t"
    assert first.group_positions == {"synced": 5}
    assert (first.checkpoint_age_seconds, first.heartbeat_age_seconds) == (7.0, 7.0)
    assert first.slots == 2


@pytest.mark.parametrize(
    ("line", "ages"),
    [
        ("a->b.emit.checkpoints.enabled = false", (None, 7.0)),
        ("a->b.emit.checkpoints.interval.seconds = -1", (None, 7.0)),
        ("a->b.emit.heartbeats.enabled = false", (7.0, None)),
    ],
)
def test_what_is_disabled_has_no_age(line: str, ages: tuple[float | None, float | None]) -> None:
    """It would grow for ever, and alerts would fire."""
    first = Process(line).flows()[0]
    assert (first.checkpoint_age_seconds, first.heartbeat_age_seconds) == ages


def test_a_flow_on_standby_has_no_ages() -> None:
    """Another process writes its heartbeats."""
    process = Process()
    process.state = FlowState.STANDBY
    first = process.flows()[0]
    assert (first.checkpoint_age_seconds, first.heartbeat_age_seconds) == (None, None)


def test_certificates_are_shown_with_their_expiry() -> None:
    """The chain that the REST API presents."""
    process = Process()
    identity = Authority().identity("mirror")
    process.listener_tls = TlsSettings(chain=identity.chain)
    metrics = ProcessMetrics(process, SPARK, ReloadMetrics())  # type: ignore[arg-type]
    found = {one.subject: (one.owner, one.expires_at) for one in metrics.view().certificates}
    expiry = identity.certificate.not_valid_after_utc.timestamp()
    assert found["CN=mirror"] == ("listeners", expiry)
