# SPDX-License-Identifier: Apache-2.0
"""The copy loop without Spark, driver and status: the upper bound for sparkmirror.

`python -m benchmarks.ceiling FILE` copies the topics of the only flow in the file.
"""

from __future__ import annotations

import os
import signal
import sys
from dataclasses import replace
from pathlib import Path
from types import FrameType

from benchmarks.sampler import Sampler
from sparkmirror.config.files.properties import read_properties
from sparkmirror.config.mirror_config import MirrorConfig
from sparkmirror.kafka.admin import ClusterAdmin
from sparkmirror.kafka.descriptions import NewTopic
from sparkmirror.spark.split_planner import task_settings
from sparkmirror.task.copy_task import CopyTask
from sparkmirror.task.messages import PartitionStart, Progress, Split
from sparkmirror.wire.event_loop import EventLoop

_HOURS = 3 * 3600.0
_PATIENCE_SECONDS = 60.0


class Alone:
    """A control channel without a driver; ends at SIGTERM."""

    silence_seconds = 0.0

    def __init__(self, loop: EventLoop) -> None:
        self._loop = loop
        self.end_requested = False

    def end(self, _number: int, _frame: FrameType | None) -> None:
        self.end_requested = True
        self._loop.wake()

    def report(self, progress: Progress) -> None:
        for text in (*progress.notices, progress.error):
            if text:
                print(text, flush=True)


def main() -> None:
    """Copy until SIGTERM."""
    file = Path(sys.argv[1])
    config = MirrorConfig.load(file)
    [settings] = [
        one for one in (config.flow_settings(flow) for flow in config.flows()) if one.enabled
    ]
    alias = settings.flow.source
    named = read_properties(file).entries[f"{settings.flow}.topics"].text.split(",")
    with ClusterAdmin(settings.source_admin) as admin:
        there = {one.name: one.partitions for one in admin.topics(named).found.values()}
    made = {f"{alias}.{name}": count for name, count in there.items()}
    made[settings.internal_topics.offsets] = 1
    with ClusterAdmin(settings.target_admin) as admin:
        answers = admin.create_topics([NewTopic(name, count, 1) for name, count in made.items()])
        for error in filter(None, answers.values()):
            raise error
        admin.await_topics(list(made), _PATIENCE_SECONDS)
        producer = admin.init_producer_id()
    split = Split(
        0,
        tuple(
            PartitionStart(
                name, index, f"{alias}.{name}", 0, producer=producer, is_handed_over=True
            )
            for name, count in there.items()
            for index in range(count)
        ),
    )
    loop = EventLoop()
    driver = Alone(loop)
    signal.signal(signal.SIGTERM, driver.end)
    how = task_settings(
        settings,
        1,
        ledger_topic="ledger",
        dead_letters_topic="dead-letters",
        map_topic="",
        syncs_topic="",
    )
    endless = replace(how, epoch_seconds=_HOURS, lease_seconds=_HOURS)
    samples = os.environ.get("SPARKMIRROR_SAMPLES")
    sampler = Sampler()
    if samples:
        sampler.start()
    CopyTask(split, endless, driver, loop).run()
    if samples:
        sampler.save(Path(samples))


if __name__ == "__main__":
    main()
