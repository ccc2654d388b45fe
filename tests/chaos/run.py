# SPDX-License-Identifier: Apache-2.0
"""One run: inject faults while records flow, wait until they flow again, compare both sides."""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path

from chaos.arena import AbandonedError, Environment
from chaos.evidence import write_evidence, write_ledger
from chaos.inflict import inflict, is_possible
from chaos.ledger import read_entries
from chaos.observer import Observer
from chaos.plan import ANYWHERE, Fault, Kind, Place, draw_plan
from chaos.reading import Streams, read_streams
from chaos.scenario import KEYS, TOPIC, Scenario
from chaos.translation import UNKNOWN, WRONG, translations
from chaos.verdict import Stream, StreamVerdict, compare
from support.clients.librdkafka import Cluster, topic_partitions
from support.clients.load_generator import Load
from support.waiting import eventually

# Much more than it takes: the machine may be busy with other things.
_START_SECONDS = 600.0
_RECOVERY_SECONDS = 600.0
_LOOK_SECONDS = 0.25
_AFTERMATH_SECONDS = 3.0  # a worker whose executor was killed writes on until it notices
_LINGER_MS = 20  # a few records to a record batch
_TARGET_MOVED = (Kind.TARGET_TRUNCATE, Kind.TARGET_RECREATE)


@dataclass(slots=True)
class Struck:
    """A fault as it happened; times are seconds since the start of the run."""

    fault: Fault
    began: float
    ended: float | None = None
    error: BaseException | None = None


@dataclass(slots=True)
class Report:
    """The results of a run."""

    scenario: Scenario
    directory: Path
    began: float  # time.monotonic
    struck: list[Struck] = field(default_factory=list)
    skipped: list[Fault] = field(default_factory=list)
    pauses: list[tuple[float, float]] = field(default_factory=list)  # when it began, seconds
    streams: list[StreamVerdict] = field(default_factory=list)
    times: dict[tuple[Stream, int], float] = field(default_factory=dict)  # of anomalies
    translated: Counter[str] = field(default_factory=Counter)  # offsets, by how exactly
    complaints: list[str] = field(default_factory=list)

    @property
    def is_good(self) -> bool:
        """Nothing lost, duplicated or reordered, and copying always resumed without help."""
        return bool(self.streams) and not self.complaints and all(s.is_right for s in self.streams)


class Run:
    """Runs a scenario."""

    def __init__(
        self,
        directory: Path,
        scenario: Scenario,
        *,
        version: str,
        say: Callable[[str], None],
        small_disks: bool = False,
        kinds: Sequence[Kind] = ANYWHERE,
    ) -> None:
        self._scenario = scenario
        self._say_line = say
        self._plan = draw_plan(scenario.seed, scenario.faults, kinds)
        self._report = Report(scenario, directory, time.monotonic())
        self._arena = Environment(
            directory, scenario, version=version, say=self._say, small_disks=small_disks
        )
        self._threads: list[threading.Thread] = []

    def play(self) -> Report:
        """Start everything, inject faults, stop everything. Returns the report."""
        with self._arena as arena:
            try:
                self._play(arena)
            finally:
                arena.abandon()
                self._end_faults(arena)
        return self._report

    def _end_faults(self, arena: Environment) -> None:
        """Stop faults in progress; also brokers that a fault has just started."""
        while any(thread.is_alive() for thread in self._threads):
            for thread in self._threads:
                thread.join(1.0)
            if any(thread.is_alive() for thread in self._threads):
                for cluster in (*arena.sources, arena.target):
                    cluster.kill()

    def _play(self, arena: Environment) -> None:
        streams = [
            (name, partition)
            for name in self._scenario.sources
            for partition in range(self._scenario.partitions)
        ]
        self._say("clusters are up, the mirror starts")
        self._await_topic(arena)
        with ExitStack() as loads:
            for cluster in arena.sources:
                arena.loads.append(loads.enter_context(self._load(cluster, cluster.name)))
            with Observer(arena.target, self._scenario.remote_topic, streams) as observer:
                if self._await_flow(observer, "records flow", _START_SECONDS):
                    self._hurt(arena, observer)
                loads.close()
                self._conclude(arena, observer, streams)

    def _load(self, cluster: Cluster, name: str) -> Load:
        return Load(
            cluster,
            TOPIC,
            name=f"{name}-",
            per_second=self._scenario.per_second // self._scenario.flows,
            partitions=self._scenario.partitions,
            linger_ms=_LINGER_MS,
            keys=KEYS,
        )

    def _await_topic(self, arena: Environment) -> None:
        topic, wanted = self._scenario.remote_topic, self._scenario.partitions
        eventually(
            lambda: topic_partitions(arena.target, topic) == wanted,
            _START_SECONDS,
            f"the mirror makes {topic}",
        )

    # --- faults

    def _hurt(self, arena: Environment, observer: Observer) -> None:
        for group in _groups(self._plan):
            possible = [fault for fault in group if is_possible(fault, arena)]
            self._report.skipped += [fault for fault in group if fault not in possible]
            if not possible:
                continue
            arena.wait(possible[0].after_seconds)
            struck = [
                self._strike(fault, arena, later=place > 0) for place, fault in enumerate(possible)
            ]
            for thread in self._threads:
                thread.join()
            self._threads.clear()
            if possible[0].kind in _TARGET_MOVED:
                observer.begin_again(is_another=possible[0].kind is Kind.TARGET_RECREATE)
            arena.wait(_AFTERMATH_SECONDS)
            over = time.time()
            failed = [one for one in struck if one.error is not None]
            for one in failed:
                self._complain(f"fault {one.fault.number}, {one.fault}: {one.error!r}")
            what = "records flow again"
            if failed or not self._await_flow(observer, what, _RECOVERY_SECONDS, since=over):
                return

    def _strike(self, fault: Fault, arena: Environment, *, later: bool) -> Struck:
        if later:
            arena.wait(fault.after_seconds)
        struck = Struck(fault, self._now())
        self._report.struck.append(struck)
        joins = " (meanwhile)" if later else ""
        self._say(f"fault {fault.number}/{len(self._plan)}{joins}: {fault}")
        thread = threading.Thread(
            target=self._inflict, args=(struck, arena), name=f"fault/{fault.number}", daemon=True
        )
        self._threads.append(thread)
        thread.start()
        return struck

    def _inflict(self, struck: Struck, arena: Environment) -> None:
        try:
            inflict(struck.fault, arena)
        except AbandonedError:
            return
        except Exception as error:  # noqa: BLE001 - a thread's root: the report tells it
            struck.error = error
        finally:
            struck.ended = self._now()

    def _await_flow(
        self, observer: Observer, what: str, seconds: float, *, since: float | None = None
    ) -> bool:
        """Wait until every stream receives records written from now on."""
        since = since or time.time()
        began = time.monotonic()
        while not observer.flows_since(since):
            if time.monotonic() - began > seconds:
                self._complain(f"stuck: not within {seconds:g} s: {what}")
                return False
            time.sleep(_LOOK_SECONDS)
        took = time.monotonic() - began
        self._say(f"    {what} after {took:.1f} s; {observer.records:,} records so far")
        return True

    # --- the end

    def _conclude(self, arena: Environment, observer: Observer, streams: Sequence[Stream]) -> None:
        self._say("the load has ended; waiting for the last records")
        originals = self._read_sources(arena)
        last = {stream: seen[-1].number for stream, seen in originals.items() if seen}
        deadline = time.monotonic() + _RECOVERY_SECONDS
        while any(observer.last_number(stream) < number for stream, number in last.items()):
            if time.monotonic() > deadline:
                self._complain(f"the last records did not arrive within {_RECOVERY_SECONDS:g} s")
                break
            time.sleep(_LOOK_SECONDS)
        self._report.complaints += arena.keeper.unexplained
        code, seconds = arena.keeper.stop()
        self._say(f"the mirror ended with {code} after {seconds:.1f} s; comparing")
        if code != 0:
            self._complain(f"the mirror ended with {code} when asked to stop")
        copies = read_streams(arena.target, self._scenario.remote_topic, streams)
        self._report.streams = [
            compare(stream, originals[stream], copies[stream], arena.history.gone(stream))
            for stream in streams
        ]
        translated = translations(arena.target, TOPIC, originals, copies)
        self._report.translated = translated
        if translated[WRONG]:
            self._complain(f"{translated[WRONG]} offsets were translated wrongly")
        has_moved = any(one.fault.nature.place is Place.LOGS for one in self._report.struck)
        if translated[UNKNOWN] and not has_moved:
            self._complain(f"{translated[UNKNOWN]} offsets were not translated")
        entries = read_entries(arena.file, arena.environment)
        write_ledger(arena, entries)
        for text in arena.history.untruths(entries):
            self._complain(text)
        self._report.pauses = [
            (pause.began - self._report.began, pause.seconds) for pause in observer.pauses
        ]
        for one in self._report.streams:
            for anomaly in one.anomalies:
                seen_at = observer.when(one.stream[1], anomaly.at)
                if seen_at is not None:
                    self._report.times[one.stream, anomaly.at] = seen_at - self._report.began
        write_evidence(arena, self._report.streams)

    def _read_sources(self, arena: Environment) -> Streams:
        found: Streams = {}
        for cluster in arena.sources:
            streams = [(cluster.name, index) for index in range(self._scenario.partitions)]
            found |= read_streams(cluster, TOPIC, streams)
        return found

    # --- words

    def _now(self) -> float:
        return time.monotonic() - self._report.began

    def _say(self, text: str) -> None:
        self._say_line(f"{self._now():7.1f} s  {text}")

    def _complain(self, text: str) -> None:
        self._report.complaints.append(text)
        self._say(text)


def _groups(plan: Sequence[Fault]) -> list[list[Fault]]:
    """Group faults that are in effect at the same time."""
    groups: list[list[Fault]] = []
    for fault in plan:
        if fault.joins:
            groups[-1].append(fault)
        else:
            groups.append([fault])
    return groups
