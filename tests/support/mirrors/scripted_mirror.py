# SPDX-License-Identifier: Apache-2.0
"""Runs copy tasks between two scripted clusters, in virtual time.

A run starts from the offsets topic, as a restarted mirror does. It ends cleanly when everything is
copied, or crashes where the test says. Time advances only when nothing else is to do, so minutes of
pauses take milliseconds.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Any

import pytest

from sparkmirror.config.settings import IncidentPolicies
from sparkmirror.formats.map_chunk import ChunkKey, MapChunk, read_header
from sparkmirror.formats.producer_registry import RegisteredProducer
from sparkmirror.formats.source_offsets import StoredPosition
from sparkmirror.model import NO_PRODUCER, ProducerState, TopicPartition
from sparkmirror.offsets.offset_map import OffsetMap, Translation
from sparkmirror.state.incidents import Incident
from sparkmirror.state.ledger import LedgerEntry, parse_entry
from sparkmirror.state.position_records import parse_positions, position_record
from sparkmirror.task.copy_task import CopyTask
from sparkmirror.task.messages import PartitionStart, Progress, Split, TaskSettings
from sparkmirror.task.task_parts import TaskParts
from sparkmirror.wire import connection
from sparkmirror.wire.event_loop import EventLoop
from sparkmirror.wire.settings import ConnectionSettings, FetchSettings, ProduceSettings
from support.data.record_batches import Record, encode
from support.manual_clock import ManualClock
from support.peers.scripted_cluster import PRODUCE, ScriptedCluster
from support.peers.scripted_log import ScriptedLog

TOPIC, REMOTE = "t", "a.t"
OFFSETS, MAP, LEDGER, LETTERS = "offsets", "offset-map", "ledger", "dead-letters"
REGISTRY = "mm2-producers.internal"
CONNECTOR = "MirrorSourceConnector"
LONGEST_LIFE = 300.0  # virtual seconds; whatever takes longer is stuck
FLUSH_SECONDS = 5.0


class Killed(BaseException):
    """Simulates the death of a task process; must not be caught."""


class VirtualTime(ManualClock):
    """The `time` module as the package sees it."""

    def time(self) -> float:
        return 1_700_000_000.0 + self._now

    def time_ns(self) -> int:
        return int(self.time() * 1e9)

    def clock_gettime(self, _clock: int) -> float:
        """Any clock of the system."""
        return self._now

    def __getattr__(self, name: str) -> Any:
        return getattr(time, name)


class VirtualLoop(EventLoop):
    """A loop that moves the clock when no socket is ready."""

    def __init__(self, clock: VirtualTime) -> None:
        super().__init__()
        self._clock = clock
        self.on_quiet: Callable[[], None] = lambda: None

    def run_once(self, longest: float) -> None:
        """Handle what is ready; if nothing is, let time pass up to the next timer."""
        if not self._calls and not self._selector.select(0):
            self.on_quiet()
            now = self._clock.monotonic()
            due = min((timer[0] for timer in self._timers if not timer[2].cancelled), default=now)
            wait = max(0.0, min(longest, due - now if self._timers else longest))
            self._clock.advance(wait)
        super().run_once(0.0)


@dataclass(frozen=True, slots=True)
class Crash:
    """When a task dies: at its n-th produce request to the remote topic, or after a time."""

    produces: int | None = None
    is_answered: bool = False  # the task has seen the answer to that request
    landing: int = 0  # requests sent before the death that the target serves after it
    seconds: float | None = None


@dataclass(slots=True)
class TaskRun:
    """The results of one task."""

    is_stuck: bool = False
    was_killed: bool = False
    seconds: float = 0.0
    reports: list[Progress] = field(default_factory=list)

    @property
    def incidents(self) -> list[Incident]:
        """All reported incidents."""
        return [one for report in self.reports for one in report.incidents]

    @property
    def notices(self) -> list[str]:
        """All reported notices."""
        return [one for report in self.reports for one in report.notices]

    @property
    def troubles(self) -> list[str]:
        """All problems of partitions in order, without repetitions."""
        found = [part.error for report in self.reports for part in report.partitions if part.error]
        return [*dict.fromkeys(found)]


class FakeControlChannel:
    """The driver side of a task."""

    silence_seconds = 0.0

    def __init__(self, life: TaskRun) -> None:
        self.end_requested = False
        self._life = life

    def report(self, progress: Progress) -> None:
        self._life.reports.append(progress)


class ScriptedMirror:
    """One flow a->b of one partition between scripted clusters; use `mirror()` to make one."""

    def __init__(self, clock: VirtualTime) -> None:
        self.clock = clock
        self.source = ScriptedCluster("a", [TOPIC])
        self.target = ScriptedCluster("b", [REMOTE, OFFSETS, MAP, LEDGER, LETTERS, REGISTRY])
        self.policies = IncidentPolicies()
        self.fetch = FetchSettings()
        self.skip_origins: tuple[str, ...] = ()  # cluster ids; a scripted cluster's id is its alias
        self.first_offset = 0  # where the first life began on the source
        self.task: CopyTask | None = None  # of the life that is under way, or was last

    @property
    def source_log(self) -> ScriptedLog:
        return self.source.log(TOPIC)

    @property
    def target_log(self) -> ScriptedLog:
        return self.target.log(REMOTE)

    @property
    def parts(self) -> TaskParts:
        """The parts of the last task."""
        assert self.task is not None
        return self.task.parts

    # --- what is stored

    def stored(self) -> StoredPosition | None:
        """The position that the offsets topic holds."""
        records = [_Keyed(one.key, one.value) for one in self.target.log(OFFSETS).records]
        return parse_positions(records, CONNECTOR, "a", 1).get(TopicPartition(TOPIC, 0))

    def store(self, stored: StoredPosition) -> None:
        """Write a position, as the driver does before a task may begin."""
        record = position_record(CONNECTOR, "a", TopicPartition(TOPIC, 0), stored, 1)
        self._append(OFFSETS, record.key, record.value)

    def _append(self, topic: str, key: bytes, value: bytes | None) -> None:
        raw = encode([Record(0, 1, key, value)])
        code, _base = self.target.log(topic).produce(bytes(raw))
        assert not code

    def ledger(self, *, is_whole: bool = False) -> list[LedgerEntry]:
        """The latest entry of every key, or all that were ever written."""
        records = self.target.log(LEDGER).records
        if not is_whole:
            records = [*{one.key: one for one in records}.values()]
        return [parse_entry(one.key, one.value) for one in records if one.key and one.value]

    def translate(self, offset: int) -> Translation | None:
        """Where a source offset lies on the target, as a reader of the offset map finds it."""
        known = OffsetMap()
        values: dict[int, bytes] = {}
        for one in self.target.log(MAP).records:
            key = ChunkKey.unpack(one.key or b"")
            if one.value is None:
                known.remove_chunk(key.first)
                continue
            target_first, first = read_header(key.first, one.value)
            known.add_chunk(key.first, target_first, one.offset, first)
            values[one.offset] = one.value
        return known.to_target(
            offset, lambda first, place: MapChunk.from_value(first, values[place])
        )

    # --- lives

    def start(self) -> PartitionStart:
        """The start of the next task, from what is stored; the first one begins with a new pair."""
        stored = self.stored()
        if stored is None:
            self.first_offset = self.source_log.start
            stored = StoredPosition(
                self.source_log.start - 1,
                self.target_log.end - 1,
                ProducerState(self.target.new_producer_id(), 0, 0),
                -1,
                str(self.source.topic_ids[TOPIC]),
                str(self.target.topic_ids[REMOTE]),
            )
            self.store(stored)
        return PartitionStart(
            topic=TOPIC,
            partition=0,
            remote_topic=REMOTE,
            position=stored.offset + 1,
            downstream=-1 if stored.downstream is None else stored.downstream,
            topic_id=stored.source_topic,
            target_topic_id=stored.target_topic,
            producer=stored.producer or NO_PRODUCER,
            leader_epoch=stored.leader_epoch,
            skip_origins=self.skip_origins,
        )

    def register(self, producer_id: int, origin: str = "b", cluster: str = "a") -> None:
        """Register a producer on the source, for a flow from `origin`."""
        entry = RegisteredProducer(producer_id, cluster, f"{origin}->a", origin)
        self.write_registry(entry.key(), entry.value())

    def write_registry(self, key: bytes, value: bytes) -> None:
        if TopicPartition(REGISTRY, 0) not in self.source.logs:
            self.source.create(REGISTRY)
        code, _base = self.source.log(REGISTRY).produce(bytes(encode([Record(0, 1, key, value)])))
        assert not code

    def run(
        self,
        crash: Crash | None = None,
        *,
        at: dict[float, Callable[[], None]] | None = None,
        start: PartitionStart | None = None,
    ) -> TaskRun:
        """Run one task until everything is copied and stored, or until it crashes or is stuck.

        `at` has actions by time in seconds; the task runs at least until the last of them.
        """
        life = TaskRun()
        driver = FakeControlChannel(life)
        loop = VirtualLoop(self.clock)
        began = self.clock.monotonic()
        split = Split(0, (start or self.start(),))
        for cluster in (self.source, self.target):
            cluster.attach(loop)
        self._plan(loop, crash, at or {})
        self.task = CopyTask(split, self.settings, driver, loop)

        def quiet() -> None:
            life.seconds = self.clock.monotonic() - began
            if life.seconds > LONGEST_LIFE:
                life.is_stuck = True
                raise Killed
            if life.seconds > max(at or {}, default=0.0) and self._is_done():
                if crash is not None:
                    raise Killed
                driver.end_requested = True

        loop.on_quiet = quiet
        try:
            self.task.run()
        except Killed:
            life.was_killed = not life.is_stuck
            self.target.land(crash.landing if crash is not None else 0)
        finally:
            for cluster in (self.source, self.target):
                cluster.drop_connections()
                cluster.after_request = lambda _key, _request: None
            loop.close()
        return life

    def _plan(
        self, loop: VirtualLoop, crash: Crash | None, at: dict[float, Callable[[], None]]
    ) -> None:
        def happen(action: Callable[[], None]) -> None:
            action()
            for cluster in (self.source, self.target):
                cluster.wake()

        for seconds, action in at.items():
            loop.call_later(seconds, lambda action=action: happen(action))  # type: ignore[misc]
        if crash is not None:
            if crash.seconds is not None:
                loop.call_later(crash.seconds, _die)
            self.target.after_request = _killer(loop, crash)

    def _is_done(self) -> bool:
        """Everything that can be read is copied, and the position is stored."""
        parts = self.parts.partitions
        stored = self.stored()
        end = self.source_log.high_watermark
        return (
            all(part.is_taken_over and part.target.is_idle for part in parts)
            and all(part.position == end and not part.is_dirty for part in parts)
            and self.parts.is_drained
            and stored is not None
            and stored.offset + 1 == end
        )

    @property
    def settings(self) -> TaskSettings:
        """As a driver gives them."""
        return TaskSettings(
            flow="a->b",
            connector=CONNECTOR,
            source_alias="a",
            consumer=self._connection(self.source),
            producer=self._connection(self.target),
            fetch=self.fetch,
            produce=ProduceSettings(),
            offsets_topic=OFFSETS,
            offsets_partitions=1,
            flush_seconds=FLUSH_SECONDS,
            buffer_bytes=64 << 20,
            epoch_seconds=10 * LONGEST_LIFE,
            lease_seconds=60.0,
            policies=self.policies,
            ledger_topic=LEDGER,
            map_topic=MAP,
            dead_letters_topic=LETTERS,
            source_cluster_id=self.source.alias,
            target_cluster_id=self.target.alias,
            registry_topic=REGISTRY,
        )

    @staticmethod
    def _connection(cluster: ScriptedCluster) -> ConnectionSettings:
        host, port = cluster.address
        return ConnectionSettings(cluster.alias, (f"{host}:{port}",), "test")

    def small_batches(self) -> None:
        """Read one record batch of the source at a time, so that few are joined."""
        self.fetch = replace(self.fetch, max_partition_fetch_bytes=1)


@dataclass(frozen=True, slots=True)
class _Keyed:
    key: bytes | None
    value: bytes | None
    partition: int = 0


def _die() -> None:
    raise Killed


def _killer(loop: EventLoop, crash: Crash) -> Callable[[int, Any], None]:
    """Count produce requests to the remote topic, and kill with the last one."""
    left = crash.produces

    def served(api_key: int, request: Any) -> None:
        nonlocal left
        if api_key != PRODUCE or left is None:
            return
        left -= any(topic.name == REMOTE for topic in request.topic_data)
        if left == 0:
            left = None
            if not crash.is_answered:
                raise Killed
            loop.call_later(0.001, _die)

    return served


@contextmanager
def mirror() -> Iterator[ScriptedMirror]:
    """A flow in virtual time, between scripted clusters."""
    modules = [
        name
        for name, module in [*sys.modules.items()]
        if name.startswith("sparkmirror.") and getattr(module, "time", None) is time
    ]
    with pytest.MonkeyPatch.context() as patch:
        made = ScriptedMirror(VirtualTime(patch, *modules))
        clusters = {one.address: one for one in (made.source, made.target)}

        def open_socket(_settings: ConnectionSettings, places: list[Any]) -> Any:
            return clusters[places.pop(0)[4]].connect()

        patch.setattr(connection, "open_socket", open_socket)
        yield made
