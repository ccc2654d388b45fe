# SPDX-License-Identifier: Apache-2.0
"""Events between the recovery parts of a task."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from sparkmirror.task.copy_partition import CopyPartition

_AfterPause = Callable[[CopyPartition, float], None]
_AtOffset = Callable[[CopyPartition, int], None]
_Together = Callable[[Sequence[CopyPartition]], None]


class PartitionEvents:
    """Table of five events with one handler each; the builder connects it once."""

    __slots__ = ("compare", "resume", "source_truncated", "target_ends_at", "target_unreadable")

    compare: _AfterPause  # the target's state is unknown: compare after a pause
    resume: _Together  # the resume points are exact: continue copying
    source_truncated: _AtOffset  # during a comparison: the source was truncated at this offset
    target_ends_at: _AtOffset  # during a comparison: the target log ends before the resume point
    target_unreadable: _Together  # no READ on the target, or no common Fetch version

    def connect(
        self,
        *,
        compare: _AfterPause,
        resume: _Together,
        source_truncated: _AtOffset,
        target_ends_at: _AtOffset,
        target_unreadable: _Together,
    ) -> None:
        self.compare = compare
        self.resume = resume
        self.source_truncated = source_truncated
        self.target_ends_at = target_ends_at
        self.target_unreadable = target_unreadable
