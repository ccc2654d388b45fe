# SPDX-License-Identifier: Apache-2.0
"""What the recovery parts of a task ask of each other."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from sparkmirror.task.copy_partition import CopyPartition

_AfterPause = Callable[[CopyPartition, float], None]
_AtOffset = Callable[[CopyPartition, int], None]
_Together = Callable[[Sequence[CopyPartition]], None]


class PartitionEvents:
    """Table of five events with one handler each; the builder connects it once."""

    __slots__ = ("compare", "resume", "source_truncated", "target_ends_at", "target_unreadable")

    compare: _AfterPause  # what the target holds is unknown: compare both sides after a pause
    resume: _Together  # the resume points are exact: copy on
    source_truncated: _AtOffset  # while comparing: the source ends there, or differs from there on
    target_ends_at: _AtOffset  # while comparing: the target's log ends before the resume point
    target_unreadable: _Together  # no READ on the target, or no version of Fetch in common

    def connect(
        self,
        *,
        compare: _AfterPause,
        resume: _Together,
        source_truncated: _AtOffset,
        target_ends_at: _AtOffset,
        target_unreadable: _Together,
    ) -> None:
        """Set the handlers."""
        self.compare = compare
        self.resume = resume
        self.source_truncated = source_truncated
        self.target_ends_at = target_ends_at
        self.target_unreadable = target_unreadable
