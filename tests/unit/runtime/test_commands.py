# SPDX-License-Identifier: Apache-2.0
"""Orders cannot be read while a broker does not let us in; with real brokers: integration."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from typing import Any

import pytest

from sparkmirror.config.mirror_config import MirrorConfig
from sparkmirror.config.settings import FlowSettings
from sparkmirror.model import Flow
from sparkmirror.runtime import commands
from sparkmirror.runtime.commands import FlowCommands
from sparkmirror.state.connect_configs import ConfigLog
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
    monkeypatch.setattr(commands, "_LOOK_SECONDS", LOOK_SECONDS)
    monkeypatch.setattr(backoff, "_FIRST_SLOW", LONG_SECONDS)
    monkeypatch.setattr(backoff, "_LONGEST_SLOW", LONG_SECONDS)
    reads: list[ConfigLog] = []
    refresh = ConfigLog.refresh

    def counted(log: ConfigLog, seconds: float) -> Any:
        reads.append(log)
        return refresh(log, seconds)

    monkeypatch.setattr(ConfigLog, "refresh", counted)
    orders = FlowCommands(settings(peer, "wrong"), lambda: None)
    orders.start()
    try:
        eventually(lambda: orders.problem, PATIENCE_SECONDS, "it is told")
        assert "does not let us in" in orders.problem
        time.sleep(20 * LOOK_SECONDS)
        assert (len(reads), peer.seen.count(AUTHENTICATE)) == (1, 1)

        orders.update_settings(settings(peer, "another"))
        eventually(
            lambda: peer.seen.count(AUTHENTICATE) == 2, PATIENCE_SECONDS, "another one is tried"
        )
    finally:
        orders.stop()
    eventually(is_over, PATIENCE_SECONDS, "its thread ends")
