# SPDX-License-Identifier: Apache-2.0
"""TopicWatcher on a topic of a real broker, and without a broker."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest

from sparkmirror.devcluster.cluster import LocalCluster
from sparkmirror.kafka import topic_watcher
from sparkmirror.kafka.topic_watcher import TopicWatcher
from sparkmirror.wire.settings import ConnectionSettings
from support.clients.librdkafka import Record, create_topics, delete_topic, produce, topics
from support.peers.tcp_proxy import HOST
from support.waiting import PATIENCE_SECONDS, eventually

A_WHILE_SECONDS = 0.5
# A fetch without new records takes this long; stopping must not wait for it.
FETCH_WAIT_SECONDS = 100.0


class CallCounter:
    """Counts the calls of the callback."""

    def __init__(self) -> None:
        self.count = 0
        self._called = threading.Event()

    def callback(self) -> None:
        self.count += 1
        self._called.set()

    def wait(self, seconds: float) -> bool:
        """Whether there was a call since the last `wait`."""
        was_called = self._called.wait(seconds)
        self._called.clear()
        return was_called


@pytest.fixture(autouse=True)
def long_fetches(monkeypatch: pytest.MonkeyPatch) -> None:
    """The leader responds only to new records, not after its usual wait."""
    monkeypatch.setattr(topic_watcher, "_WAIT_SECONDS", FETCH_WAIT_SECONDS)


@pytest.fixture
def no_periodic_calls(monkeypatch: pytest.MonkeyPatch) -> None:
    """Only responses of the leader cause calls."""
    monkeypatch.setattr(topic_watcher, "_POLL_SECONDS", PATIENCE_SECONDS)


@contextmanager
def watching(
    server: str, topic: str, offset: int = 0, *, connect_seconds: float = 30.0
) -> Iterator[CallCounter]:
    """Run a watcher; check that it stops without waiting for a response and leaves no thread."""
    calls = CallCounter()
    settings = ConnectionSettings(
        "target", (server,), "watcher-test", connect_timeout_seconds=connect_seconds
    )
    watcher = TopicWatcher(settings, topic, calls.callback)
    watcher.start(offset)
    yield calls
    began = time.monotonic()
    watcher.stop()
    count = calls.count

    def has_ended() -> bool:
        return not [one for one in threading.enumerate() if one.name.startswith(f"{topic}/")]

    eventually(has_ended, PATIENCE_SECONDS, "no thread is left")
    assert time.monotonic() - began < FETCH_WAIT_SECONDS / 2
    assert calls.count <= count + 1  # one call may have been under way


@pytest.mark.usefixtures("no_periodic_calls")
def test_new_records_cause_a_call(
    target_cluster: LocalCluster, unique_topic: Callable[..., str]
) -> None:
    """Records before the start do not; records of a recreated topic do."""
    topic = unique_topic("watched")
    create_topics(target_cluster, {topic: 1})
    record = (0, Record(b"k", b"v"))
    produce(target_cluster, topic, [record] * 3)
    with watching(target_cluster.bootstrap_servers, topic, 3) as calls:
        assert not calls.wait(A_WHILE_SECONDS)
        for _ in range(3):
            produce(target_cluster, topic, [record], linger_ms=0)
            assert calls.wait(PATIENCE_SECONDS)
        produce(target_cluster, topic, [record] * 200)
        assert calls.wait(PATIENCE_SECONDS)
        delete_topic(target_cluster, topic)
        eventually(lambda: topic not in topics(target_cluster), PATIENCE_SECONDS, "it is gone")
        create_topics(target_cluster, {topic: 1})
        assert calls.wait(PATIENCE_SECONDS)
        for _ in range(3):  # some calls may still be for the new topic
            produce(target_cluster, topic, [record], linger_ms=0)
            assert calls.wait(PATIENCE_SECONDS)
        assert calls.count < 50


@pytest.mark.usefixtures("no_periodic_calls")
def test_records_before_the_start_cause_one_call(
    target_cluster: LocalCluster, unique_topic: Callable[..., str]
) -> None:
    """The start offset is before the end of the topic, or beyond it."""
    topic = unique_topic("watched")
    create_topics(target_cluster, {topic: 1})
    produce(target_cluster, topic, [(0, Record(b"k", b"v"))] * 3)
    for offset in (2, 7):
        with watching(target_cluster.bootstrap_servers, topic, offset) as calls:
            assert calls.wait(PATIENCE_SECONDS)
            assert not calls.wait(A_WHILE_SECONDS)


@pytest.mark.parametrize("is_open", [False, pytest.param(True, marks=pytest.mark.thorough)])
def test_calls_are_periodic_when_the_broker_does_not_respond(
    is_open: bool, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The port is closed, or open and silent; one warning is logged."""
    monkeypatch.setattr(topic_watcher, "_POLL_SECONDS", 0.2)
    warning = "Cannot long-poll"
    with socket.socket() as listener:
        listener.bind((HOST, 0))
        if is_open:
            listener.listen()
        server = f"{HOST}:{listener.getsockname()[1]}"
        with watching(server, "silent", connect_seconds=1.0) as calls:
            eventually(lambda: warning in caplog.text, PATIENCE_SECONDS, "it says so")
            for _ in range(3):
                assert calls.wait(PATIENCE_SECONDS)
            listener.close()
    assert caplog.text.count(warning) == 1
