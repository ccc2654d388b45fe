# SPDX-License-Identifier: Apache-2.0
"""`make bench-scale`: time to the first report and to resume after a crash, with many partitions.

One task, over a real control channel, against scripted brokers in another process. The driver side
of the channel is a thread of the same process, which makes the results a little worse.
"""

from __future__ import annotations

import argparse
import resource
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, field

from benchmarks.scale_broker import PARTITIONS, PRODUCER_ID, Side, brokers
from sparkmirror.model import ProducerState
from sparkmirror.spark.control_server import ControlServer, EpochTasks
from sparkmirror.task.control_client import ControlClient
from sparkmirror.task.copy_task import CopyTask
from sparkmirror.task.messages import PartitionStart, Progress, Split, TaskSettings
from sparkmirror.wire.event_loop import EventLoop
from sparkmirror.wire.settings import ConnectionSettings, FetchSettings, ProduceSettings

FIRST_REPORT_SECONDS = 3.0  # with 50,000 partitions
RESUME_SECONDS = 30.0  # with 10,000 partitions that were active
_HOST = "127.0.0.1"
_INTERNAL = ("mm2-offsets.a.internal", "mm2-offset-map.a.internal", "mm2-ledger.a.internal")
_COPIED, _ALL = 5, 10  # records of an active partition on the target, and on the source


@dataclass(slots=True)
class Figures:
    """One task's results, in seconds since its start."""

    first_report: float = 0.0
    taken_over: float = 0.0
    end: float = 0.0
    longest_turn: float = 0.0
    first_report_cpu: float = 0.0
    cpu: float = 0.0  # of the task and the driver's thread
    brokers_cpu: float = 0.0
    records: int = 0


@dataclass(slots=True)
class _Watch:
    """Measures a task from inside its loop."""

    began: float = field(default_factory=time.monotonic)
    figures: Figures = field(default_factory=Figures)

    began_cpu: float = field(default_factory=time.process_time)

    def elapsed(self) -> float:
        return time.monotonic() - self.began

    def cpu(self) -> float:
        return time.process_time() - self.began_cpu


class _TimedLoop(EventLoop):
    def __init__(self, after_turn: Callable[[float], None]) -> None:
        super().__init__()
        self._after_turn = after_turn

    def run_once(self, longest: float) -> None:
        """Also measures the time in callbacks, without waiting."""
        began = time.process_time()
        super().run_once(longest)
        self._after_turn(time.process_time() - began)


def measure(partitions: int, *, is_active: bool) -> Figures:
    """Start a task after a crash, and run it until it has taken over all partitions."""
    topics = tuple(f"t{index:05}" for index in range(partitions // PARTITIONS))
    source = Side("a", topics, records=_ALL if is_active else _COPIED)
    remote = tuple(f"a.{topic}" for topic in topics)
    target = Side("b", remote, _INTERNAL, records=_COPIED, is_ours=True)
    before = _children_cpu()
    with brokers(source, target) as served:
        split = _split(topics, is_active=is_active)
        figures = _run(split, _settings(*served.addresses))
    figures.brokers_cpu = _children_cpu() - before - served.preparing_cpu
    return figures


def _children_cpu() -> float:
    """CPU seconds of processes that have ended."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def _split(topics: tuple[str, ...], *, is_active: bool) -> Split:
    stored = 0 if is_active else _COPIED  # what is behind it has to be compared
    return Split(
        0,
        tuple(
            PartitionStart(
                topic,
                partition,
                f"a.{topic}",
                position=stored,
                downstream=stored - 1,
                stop_at=_ALL if is_active else _COPIED,
                producer=ProducerState(PRODUCER_ID, 0, stored),
            )
            for topic in topics
            for partition in range(PARTITIONS)
        ),
    )


def _settings(from_address: str, to_address: str) -> TaskSettings:
    return TaskSettings(
        flow="a->b",
        connector="MirrorSourceConnector",
        source_alias="a",
        consumer=ConnectionSettings("a", (from_address,), "reader"),
        producer=ConnectionSettings("b", (to_address,), "writer"),
        fetch=FetchSettings(),
        produce=ProduceSettings(),
        offsets_topic=_INTERNAL[0],
        offsets_partitions=1,
        flush_seconds=5.0,
        buffer_bytes=64 << 20,
        epoch_seconds=600.0,
        lease_seconds=5.0,
        map_topic=_INTERNAL[1],
        ledger_topic=_INTERNAL[2],
    )


def _run(split: Split, settings: TaskSettings) -> Figures:
    watch = _Watch()  # of which the clocks begin below
    figures = watch.figures

    def reported(_progress: Progress) -> None:
        figures.first_report = figures.first_report or watch.elapsed()
        figures.first_report_cpu = figures.first_report_cpu or watch.cpu()

    server = ControlServer()
    server.start(_HOST, _HOST)
    control = None
    try:
        line = EpochTasks({0: split}, settings, reported)
        invitation = server.open_epoch(line)
        watch.began, watch.began_cpu = time.monotonic(), time.process_time()
        control = ControlClient(invitation, 0)
        waiting: list[object] = []

        def after_turn(seconds: float) -> None:
            figures.longest_turn = max(figures.longest_turn, seconds)
            while waiting and waiting[-1].is_taken_over:  # type: ignore[attr-defined]
                waiting.pop()
            if not waiting and not figures.taken_over:
                figures.taken_over = watch.elapsed()

        loop = _TimedLoop(after_turn)
        control.start(loop.wake)
        task = CopyTask(control.split, control.settings, control, loop)
        waiting += task.parts.partitions
        receipts = task.run()
        figures.end = watch.elapsed()
        figures.cpu = watch.cpu()
        figures.records = sum(one.records for one in receipts)
    finally:
        if control is not None:
            control.close()
        server.stop()
    return figures


def main() -> int:
    """Print the results. Returns 0 if the limits hold."""
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--idle", type=int, default=50_000, help="partitions with nothing new")
    options.add_argument("--active", type=int, default=10_000, help="partitions to compare")
    asked = options.parse_args()
    is_kept = True
    for partitions, is_active in ((asked.idle, False), (asked.active, True)):
        if not partitions:
            continue
        found = measure(partitions, is_active=is_active)
        print(
            f"{partitions} {'active' if is_active else 'idle'} partitions: "
            f"first report after {found.first_report:.1f} s "
            f"({found.first_report_cpu:.1f} s of CPU), "
            f"all taken over after {found.taken_over:.1f} s, the end after {found.end:.1f} s; "
            f"CPU {found.cpu:.1f} s (longest turn {found.longest_turn:.1f} s), "
            f"the scripted brokers {found.brokers_cpu:.1f} s; {found.records} records"
        )
        is_kept &= found.first_report <= FIRST_REPORT_SECONDS
        is_kept &= not is_active or found.taken_over <= RESUME_SECONDS
        is_kept &= found.records == (partitions * (_ALL - _COPIED) if is_active else 0)
    return 0 if is_kept else 1


if __name__ == "__main__":
    sys.exit(main())
