# SPDX-License-Identifier: Apache-2.0
"""What the recovery parts of a task ask of each other."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from sparkmirror.task.copy_partition import CopyPartition

Compare = Callable[[CopyPartition, float], None]
Resume = Callable[[Sequence[CopyPartition]], None]
AtOffset = Callable[[CopyPartition, int], None]
Unreadable = Callable[[Sequence[CopyPartition]], None]


class PartitionEvents:
    """Table of five events with one handler each; the builder connects it once."""

    __slots__ = ("compare", "resume", "source_truncated", "target_ends_at", "target_unreadable")

    compare: Compare  # what the target holds is unknown: compare both sides after a pause
    resume: Resume  # the resume points are exact: copy on
    source_truncated: AtOffset  # while comparing: the source ends there, or differs from there on
    target_ends_at: AtOffset  # while comparing: the target's log ends before the resume point
    target_unreadable: Unreadable  # no READ on the target, or no version of Fetch in common

    def connect(
        self,
        *,
        compare: Compare,
        resume: Resume,
        source_truncated: AtOffset,
        target_ends_at: AtOffset,
        target_unreadable: Unreadable,
    ) -> None:
        """Set the handlers."""
        self.compare = compare
        self.resume = resume
        self.source_truncated = source_truncated
        self.target_ends_at = target_ends_at
        self.target_unreadable = target_unreadable
