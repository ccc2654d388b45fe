# SPDX-License-Identifier: Apache-2.0
"""The config topic for many threads, over a log in memory; with real brokers: integration."""

from __future__ import annotations

import threading
from typing import Any

import pytest

from sparkmirror.connect import group_state
from sparkmirror.connect.group_state import ConfigTopic
from sparkmirror.errors import UnreachableError
from sparkmirror.formats.connect_config_records import RestartRequest
from sparkmirror.state.connect_configs import ClusterConfigState, ConfigEvent, ConfigLog
from sparkmirror.wire.settings import ConnectionSettings

RESTART = RestartRequest("x", include_tasks=True, only_failed=False)
NOWHERE = ConnectionSettings("b", ("127.0.0.1:1",), "test")


class MemoryLog:
    """What ConfigLog does, without a broker."""

    def __init__(self, *_: Any) -> None:
        self.state = ClusterConfigState()
        self.events: list[ConfigEvent] = []
        self.reads = 0
        self.gate = threading.Event()
        self.gate.set()
        self.started = threading.Event()

    def read_new(self, _seconds: float = 0.0) -> None:
        """Read one more record."""
        self.started.set()
        assert self.gate.wait(10)
        self.reads += 1
        self.state.offset += 1

    def put_restart_request(self, request: RestartRequest) -> None:
        """Write it, and read it back."""
        self.state.offset += 1
        self.events.append(request)

    def drain_events(self) -> list[ConfigEvent]:
        """As ConfigLog."""
        events, self.events = self.events, []
        return events


@pytest.fixture
def log(monkeypatch: pytest.MonkeyPatch) -> MemoryLog:
    """The log of the next topic."""
    made = MemoryLog()
    monkeypatch.setattr(group_state, "ConfigLog", lambda *_: made)
    return made


def test_a_write_is_published_with_its_events(log: MemoryLog) -> None:
    """The snapshot stays as it is; events are reported once, after their state."""
    seen: list[int] = []
    topic = ConfigTopic(NOWHERE, "c", lambda: seen.append(topic.state.offset))
    before = topic.state
    with topic.writing() as writing:
        writing.put_restart_request(RESTART)
    assert (seen, before.offset, topic.state.offset) == ([0], -1, 0)
    assert topic.drain_events() == [RESTART]
    assert topic.drain_events() == []
    with topic.writing():
        pass
    assert seen == [0]  # nothing has changed
    assert log.reads == 0


def fail_after_a_write(log: ConfigLog) -> None:
    """As a commit that is refused."""
    log.put_restart_request(RESTART)
    raise UnreachableError("gone", cluster="b")


def test_what_was_read_before_a_failure_is_published(log: MemoryLog) -> None:
    """And the topic can be used again."""
    topic = ConfigTopic(NOWHERE, "c", lambda: None)
    with pytest.raises(UnreachableError), topic.writing() as writing:
        fail_after_a_write(writing)
    assert topic.state.offset == 0
    topic.refresh()
    assert (topic.state.offset, log.reads) == (1, 1)


def test_a_writer_waits_no_longer_than_it_wants(log: MemoryLog) -> None:
    """Neither for a reader nor for another writer."""
    topic = ConfigTopic(NOWHERE, "c", lambda: None)
    with topic.writing(), pytest.raises(TimeoutError), topic.writing(0.01):
        pytest.fail("two at once")
    log.gate.clear()
    reader = threading.Thread(target=topic.refresh)
    reader.start()
    assert log.started.wait(10)
    with pytest.raises(TimeoutError), topic.writing(0.01):
        pytest.fail("two at once")
    assert topic.drain_events() == []  # does not wait at all
    log.gate.set()
    reader.join()


def test_readers_that_wait_for_a_later_read_do_not_read(log: MemoryLog) -> None:
    """Many requests at once read the topic about twice."""
    topic = ConfigTopic(NOWHERE, "c", lambda: None)
    log.gate.clear()
    readers = [threading.Thread(target=topic.refresh) for _ in range(8)]
    for one in readers:
        one.start()
    assert log.started.wait(10)
    log.gate.set()
    for one in readers:
        one.join()
    assert 1 <= log.reads <= len(readers)
    assert topic.state.offset == log.reads - 1
