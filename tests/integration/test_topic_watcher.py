# SPDX-License-Identifier: Apache-2.0
"""The bell on Connect's config topic, with a real broker and without one."""

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
# Whoever stops and waits for an answer waits for this long, and whoever does not, not for half.
ANSWER_SECONDS = 100.0


class Rings:
    """Counts them."""

    def __init__(self) -> None:
        self.count = 0
        self._news = threading.Event()

    def ring(self) -> None:
        """What the bell calls."""
        self.count += 1
        self._news.set()

    def wait(self, seconds: float) -> bool:
        """Whether there was one since the last time."""
        has_rung = self._news.wait(seconds)
        self._news.clear()
        return has_rung


@pytest.fixture(autouse=True)
def slow_answers(monkeypatch: pytest.MonkeyPatch) -> None:
    """The leader keeps a question for long, so that nothing but news ends the wait for it."""
    monkeypatch.setattr(topic_watcher, "_WAIT_SECONDS", ANSWER_SECONDS)


@pytest.fixture
def never_suspicious(monkeypatch: pytest.MonkeyPatch) -> None:
    """It rings for what it has heard only."""
    monkeypatch.setattr(topic_watcher, "_SUSPECT_SECONDS", PATIENCE_SECONDS)


@contextmanager
def listening(
    server: str, topic: str, offset: int = 0, *, connect_seconds: float = 30.0
) -> Iterator[Rings]:
    """A bell; that it waits for no answer when it stops, and leaves no thread, is part of it."""
    rings = Rings()
    settings = ConnectionSettings(
        "target", (server,), "bell-test", connect_timeout_seconds=connect_seconds
    )
    bell = TopicWatcher(settings, topic, rings.ring)
    bell.start(offset)
    yield rings
    began = time.monotonic()
    bell.stop()
    count = rings.count

    def has_ended() -> bool:
        return not [one for one in threading.enumerate() if one.name.startswith(f"{topic}/")]

    eventually(has_ended, PATIENCE_SECONDS, "no thread is left")
    assert time.monotonic() - began < ANSWER_SECONDS / 2
    assert rings.count <= count + 1  # one call may have been under way


@pytest.mark.usefixtures("never_suspicious")
def test_it_rings_for_what_is_new(
    target_cluster: LocalCluster, unique_topic: Callable[..., str]
) -> None:
    """At once, and not for what was there; in a topic created anew as well."""
    topic = unique_topic("bell")
    create_topics(target_cluster, {topic: 1})
    record = (0, Record(b"k", b"v"))
    produce(target_cluster, topic, [record] * 3)
    with listening(target_cluster.bootstrap_servers, topic, 3) as rings:
        assert not rings.wait(A_WHILE_SECONDS)
        for _ in range(3):
            produce(target_cluster, topic, [record], linger_ms=0)
            assert rings.wait(PATIENCE_SECONDS)
        produce(target_cluster, topic, [record] * 200)
        assert rings.wait(PATIENCE_SECONDS)
        delete_topic(target_cluster, topic)
        eventually(lambda: topic not in topics(target_cluster), PATIENCE_SECONDS, "it is gone")
        create_topics(target_cluster, {topic: 1})
        assert rings.wait(PATIENCE_SECONDS)
        for _ in range(3):  # some rings may still be about the new topic
            produce(target_cluster, topic, [record], linger_ms=0)
            assert rings.wait(PATIENCE_SECONDS)
        assert rings.count < 50


@pytest.mark.usefixtures("never_suspicious")
def test_it_rings_for_what_was_missed(
    target_cluster: LocalCluster, unique_topic: Callable[..., str]
) -> None:
    """Whether it is after the offset to begin with, or that is beyond the end of the topic."""
    topic = unique_topic("bell")
    create_topics(target_cluster, {topic: 1})
    produce(target_cluster, topic, [(0, Record(b"k", b"v"))] * 3)
    for offset in (2, 7):
        with listening(target_cluster.bootstrap_servers, topic, offset) as rings:
            assert rings.wait(PATIENCE_SECONDS)
            assert not rings.wait(A_WHILE_SECONDS)


@pytest.mark.parametrize("is_open", [False, pytest.param(True, marks=pytest.mark.thorough)])
def test_it_rings_on_suspicion_while_it_hears_nothing(
    is_open: bool, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nobody listens at the address, or somebody who never answers; that is said once."""
    monkeypatch.setattr(topic_watcher, "_SUSPECT_SECONDS", 0.2)
    complaint = "Cannot long-poll"
    with socket.socket() as nobody:
        nobody.bind((HOST, 0))
        if is_open:
            nobody.listen()
        server = f"{HOST}:{nobody.getsockname()[1]}"
        with listening(server, "silent", connect_seconds=1.0) as rings:
            eventually(lambda: complaint in caplog.text, PATIENCE_SECONDS, "it says so")
            for _ in range(3):
                assert rings.wait(PATIENCE_SECONDS)
            nobody.close()
    assert caplog.text.count(complaint) == 1
