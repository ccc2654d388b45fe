# SPDX-License-Identifier: Apache-2.0
"""Counts the lookups of internal topics."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import Future
from typing import cast

import pytest

from sparkmirror.config.mirror_config import MirrorConfig
from sparkmirror.config.settings import FlowSettings
from sparkmirror.connectors import internal_topic_setup as topic_setup
from sparkmirror.connectors.internal_topic_setup import InternalTopicSetup
from sparkmirror.errors import AuthenticationError, UnreachableError
from sparkmirror.model import Flow
from sparkmirror.policy.loading import load_policy
from sparkmirror.spark.flow_status import FlowStatus
from sparkmirror.topology.internal_topics import EnsuredTopic, EnsureOutcome, internal_topics
from sparkmirror.topology.replication_factors import ReplicationFactorChooser
from support.waiting import PATIENCE_SECONDS


class Pauses(threading.Event):
    """Set after the first pause, which it remembers."""

    seconds = 0.0

    def wait(self, timeout: float | None = None) -> bool:
        """Take no time."""
        self.seconds = timeout or 0.0
        self.set()
        return True


@pytest.mark.parametrize(("retriable", "least", "most"), [(False, 4.0, 6.0), (True, 0.0, 0.2)])
def test_a_refused_login_is_not_repeated_soon(
    monkeypatch: pytest.MonkeyPatch, *, retriable: bool, least: float, most: float
) -> None:
    """Brokers may lock a user out who is refused often."""

    def refuse(*_: object) -> None:
        raise AuthenticationError("no", cluster="a", retriable=retriable)

    monkeypatch.setattr(InternalTopicSetup, "_ensure", refuse)
    pauses = Pauses()
    work = InternalTopicSetup(
        cast("ReplicationFactorChooser", None), cast("FlowStatus", None), pauses
    )

    assert not work.ensure(cast("FlowSettings", None), [], lambda _error: None)
    assert least <= pauses.seconds <= most


class Admin:
    """A cluster that answers when the test says so."""

    def __init__(self, answer: Callable[[], None]) -> None:
        self._answer = answer
        self.calls = 0

    def __call__(self, *_: object, **_more: object) -> list[EnsuredTopic]:
        self.calls += 1
        self._answer()
        error = UnreachableError("topic heartbeats is missing", cluster="b")
        topic = internal_topics(SETTINGS, POLICY)[3]
        return [EnsuredTopic(topic, EnsureOutcome.FAILED, error)]


SETTINGS = MirrorConfig.parse(
    "clusters = a, b\na.bootstrap.servers = 127.0.0.1:1\nb.bootstrap.servers = 127.0.0.1:1\n"
).flow_settings(Flow("a", "b"))
POLICY = load_policy(SETTINGS.policy, SETTINGS.flow).replication


def ensure_in_threads(
    count: int, monkeypatch: pytest.MonkeyPatch, admin: Admin
) -> list[FlowStatus]:
    """Several connectors of a pair at once; returns when all of them are ready."""
    monkeypatch.setattr(topic_setup, "ensure_internal_topics", admin)
    statuses = [FlowStatus("a->b") for _ in range(count)]

    def ensure(status: FlowStatus) -> None:
        setup = InternalTopicSetup(ReplicationFactorChooser(), status, threading.Event())
        assert setup.ensure(SETTINGS, internal_topics(SETTINGS, POLICY), lambda _: None)

    threads = [threading.Thread(target=ensure, args=(one,)) for one in statuses]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(PATIENCE_SECONDS)
    return statuses


def test_connectors_of_a_flow_share_one_attempt_and_one_warning(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Each of them shows the problem in its own status."""
    monkeypatch.setattr(topic_setup, "_warnings", topic_setup._Warnings())
    waiting = threading.Semaphore(0)
    future_result = Future.result

    def result(future: Future[object], timeout: float | None = None) -> object:
        waiting.release()
        return future_result(future, timeout)

    monkeypatch.setattr(topic_setup.Future, "result", result)

    def answer() -> None:
        for _ in range(2):  # the other two wait for this attempt
            assert waiting.acquire(timeout=PATIENCE_SECONDS)

    admin = Admin(answer)
    statuses = ensure_in_threads(3, monkeypatch, admin)
    assert admin.calls == 1
    assert {one.snapshot().problems for one in statuses} == {("topic heartbeats is missing",)}
    assert caplog.text.count("a->b: topic heartbeats is missing") == 1
