# SPDX-License-Identifier: Apache-2.0
"""Commands for a pair, written and read; with real brokers: integration."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator

import pytest

from sparkmirror.config.keys.connector_classes import ConnectorClass
from sparkmirror.config.mirror_config import MirrorConfig
from sparkmirror.config.settings import FlowSettings
from sparkmirror.connect import group_state
from sparkmirror.formats.connect_config_records import RestartRequest, TargetState
from sparkmirror.model import Flow
from sparkmirror.runtime import commands
from sparkmirror.runtime.commands import FlowCommands, RestartCommand
from sparkmirror.state.connect_configs import ClusterConfigState, ConfigEvent, ConfigLog
from sparkmirror.wire import backoff
from support.peers.secure_broker import AUTHENTICATE, SecureBroker
from support.waiting import PATIENCE_SECONDS, eventually

LOOK_SECONDS = 0.02  # with a password that is right
LONG_SECONDS = 3600.0


@pytest.fixture
def peer() -> Iterator[SecureBroker]:
    """A broker that knows another password."""
    with SecureBroker(login=b"\0me\0right") as made:
        yield made


def settings(peer: SecureBroker, password: str) -> FlowSettings:
    """A pair whose target is that broker."""
    module = "org.apache.kafka.common.security.plain.PlainLoginModule"
    lines = (
        "clusters = a, b",
        "a.bootstrap.servers = 127.0.0.1:1",
        f"b.bootstrap.servers = {peer.address}",
        "b.security.protocol = SASL_PLAINTEXT",
        "b.sasl.mechanism = PLAIN",
        f'b.sasl.jaas.config = {module} required username="me" password="{password}";',
        "a->b.enabled = true",
    )
    return MirrorConfig.parse("\n".join(lines)).flow_settings(Flow("a", "b"))


def is_over() -> bool:
    """Nobody is left who reads orders."""
    return not [one for one in threading.enumerate() if one.name == "a->b/commands"]


def test_who_is_refused_looks_less_often_and_at_once_when_the_file_changes(
    peer: SecureBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Twice a second would lock accounts and fill the brokers' logs."""
    monkeypatch.setattr(commands, "_POLL_SECONDS", LOOK_SECONDS)
    monkeypatch.setattr(backoff, "_FIRST_SLOW", LONG_SECONDS)
    monkeypatch.setattr(backoff, "_LONGEST_SLOW", LONG_SECONDS)
    reads: list[ConfigLog] = []
    read_new = ConfigLog.read_new

    def counted(log: ConfigLog, seconds: float) -> None:
        reads.append(log)
        read_new(log, seconds)

    monkeypatch.setattr(ConfigLog, "read_new", counted)
    orders = FlowCommands(settings(peer, "wrong"), lambda: None)
    orders.start()
    try:
        eventually(lambda: orders.problem, PATIENCE_SECONDS, "it is told")
        assert "refused the login" in orders.problem
        time.sleep(20 * LOOK_SECONDS)
        assert (len(reads), peer.seen.count(AUTHENTICATE)) == (1, 1)

        orders.update_settings(settings(peer, "another"))
        eventually(
            lambda: peer.seen.count(AUTHENTICATE) == 2, PATIENCE_SECONDS, "another one is tried"
        )
    finally:
        orders.stop()
    eventually(is_over, PATIENCE_SECONDS, "its thread ends")


class Log:
    """The config topic of a pair, in memory."""

    def __init__(self) -> None:
        self.state = ClusterConfigState()
        self.events: list[ConfigEvent] = []
        self.writers: list[str] = []

    def read_new(self, _seconds: float) -> None:
        """There is nothing that was not read."""

    def put_target_state(self, name: str, state: TargetState) -> None:
        """Write it, and read it back."""
        self.writers.append(threading.current_thread().name)
        self.state.offset += 1
        self.state.target_states[name] = state

    def put_restart_request(self, request: RestartRequest) -> None:
        """Write it, and read it back."""
        self.state.offset += 1
        self.events.append(request)

    def drain_events(self) -> list[ConfigEvent]:
        """As ConfigLog."""
        events, self.events = self.events, []
        return events


def test_a_command_is_written_and_seen_on_the_thread_of_the_request(
    peer: SecureBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The process that takes a command need not read it again."""
    log, changes = Log(), threading.Semaphore(0)
    monkeypatch.setattr(group_state, "ConfigLog", lambda *_: log)
    made = FlowCommands(settings(peer, "right"), changes.release)
    made.start()
    try:
        assert changes.acquire(timeout=PATIENCE_SECONDS)
        assert made.target_states == {}
        made.set_target_state(ConnectorClass.SOURCE, TargetState.PAUSED, 1.0)
        assert made.target_states == {ConnectorClass.SOURCE: TargetState.PAUSED}
        made.request_restart(ConnectorClass.CHECKPOINT, 1.0, only_failed=True)
        log.put_restart_request(RestartRequest("not ours", include_tasks=True, only_failed=True))
        assert made.take_restarts() == [RestartCommand(ConnectorClass.CHECKPOINT, True)]
        assert made.take_restarts() == []
        made.set_target_state(ConnectorClass.SOURCE, TargetState.STARTED, 1.0)
        assert made.target_states == {}
        assert set(log.writers) == {threading.current_thread().name}
    finally:
        made.stop()
    eventually(is_over, PATIENCE_SECONDS, "its thread ends")
    assert sum(changes.acquire(blocking=False) for _ in range(9)) == 3
