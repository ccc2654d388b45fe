# SPDX-License-Identifier: Apache-2.0
"""The bell on Connect's config topic, with a real broker and without one."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest

from sparkmirror.config.settings import ConnectionSettings
from sparkmirror.kafka.topic_bell import TopicBell
from sparkmirror.local.cluster import LocalCluster
from support.tcp_proxy import HOST
from support.waiting import eventually
from support.witness import Record, create_topics, delete_topic, produce

PATIENCE_SECONDS = 20.0
SOON_SECONDS = 0.5
STOP_SECONDS = 5.0  # 0.8 and what a busy machine adds


class Rings:
    """Counts them, and when the last one was."""

    def __init__(self) -> None:
        self.count = 0
        self.last_at = 0.0
        self._news = threading.Event()

    def ring(self) -> None:
        """What the bell calls."""
        self.count += 1
        self.last_at = time.monotonic()
        self._news.set()

    def wait(self, seconds: float) -> bool:
        """Whether there was one since the last time."""
        has_rung = self._news.wait(seconds)
        self._news.clear()
        return has_rung


@contextmanager
def listening(server: str, topic: str, offset: int = 0) -> Iterator[Rings]:
    """A bell; that it stops quickly and leaves no thread is part of every test."""
    rings = Rings()
    settings = ConnectionSettings("target", (server,), "bell-test", connect_timeout_seconds=5.0)
    bell = TopicBell(settings, topic, rings.ring)
    bell.start(offset)
    yield rings
    began = time.monotonic()
    bell.stop()
    assert time.monotonic() - began < STOP_SECONDS
    count = rings.count

    def has_ended() -> bool:
        return not [one for one in threading.enumerate() if one.name.startswith(f"{topic}/")]

    eventually(has_ended, PATIENCE_SECONDS, "no thread is left")
    assert rings.count == count


def test_it_rings_for_what_is_new(
    target_cluster: LocalCluster, unique_topic: Callable[..., str]
) -> None:
    """At once, and not for what was there; in a topic created anew as well."""
    topic = unique_topic("bell")
    create_topics(target_cluster, {topic: 1})
    record = (0, Record(b"k", b"v"))
    produce(target_cluster, topic, [record] * 3)
    with listening(target_cluster.bootstrap_servers, topic, 3) as rings:
        assert not rings.wait(1.0)
        for _ in range(3):
            produce(target_cluster, topic, [record], linger_ms=0)
            assert rings.wait(PATIENCE_SECONDS)
        produce(target_cluster, topic, [record] * 200)
        assert rings.wait(PATIENCE_SECONDS)
        delete_topic(target_cluster, topic)
        create_topics(target_cluster, {topic: 1})
        assert rings.wait(PATIENCE_SECONDS)
        time.sleep(SOON_SECONDS)
        rings.wait(0)
        produce(target_cluster, topic, [record], linger_ms=0)
        assert rings.wait(PATIENCE_SECONDS)
        assert rings.count < 20


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
            assert not rings.wait(SOON_SECONDS)


@pytest.mark.parametrize("is_open", [False, pytest.param(True, marks=pytest.mark.thorough)])
def test_it_rings_on_suspicion_while_it_hears_nothing(
    is_open: bool, caplog: pytest.LogCaptureFixture
) -> None:
    """Nobody listens at the address, or somebody who never answers; said once at most."""
    with socket.socket() as nobody:
        nobody.bind((HOST, 0))
        if is_open:
            nobody.listen()
        with listening(f"{HOST}:{nobody.getsockname()[1]}", "silent") as rings:
            assert rings.wait(PATIENCE_SECONDS)
            assert rings.wait(PATIENCE_SECONDS)
            nobody.close()
    assert caplog.text.count("is not heard of") == 1 or is_open
