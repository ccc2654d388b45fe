# SPDX-License-Identifier: Apache-2.0
"""Turns the records of a checkpoints topic into offsets of consumer groups.

The last checkpoint of each group and partition counts. A record without a value is a deletion. A
malformed record is skipped and counted. A record of a newer version raises an error, because the
result would be incomplete.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import NamedTuple

from sparkmirror.errors import ArgumentError, UnknownVersionError, WireError
from sparkmirror.formats.mm2_records import Checkpoint
from sparkmirror.kafka.log_records import LogRecord
from sparkmirror.model import TopicPartition


class OffsetAndMetadata(NamedTuple):
    """A committed offset: the next record to read, and the group's metadata."""

    offset: int
    metadata: str = ""


GroupOffsets = dict[str, dict[TopicPartition, OffsetAndMetadata]]


@dataclass(slots=True)
class LatestCheckpoints:
    """The offsets of the selected groups; counts malformed records."""

    groups: str | re.Pattern[str]  # one group, or all whose whole name matches
    offsets: GroupOffsets = field(default_factory=dict)
    malformed: int = 0
    first_malformed: str = ""  # where, and what was wrong with it

    def add(self, record: LogRecord) -> None:
        try:
            self._apply(record)
        except UnknownVersionError:
            raise
        except WireError as error:
            self.malformed += 1
            self.first_malformed = self.first_malformed or f"at offset {record.offset}: {error}"

    def _apply(self, record: LogRecord) -> None:
        if record.key is None:
            raise WireError("A checkpoint has no key.")
        group, topic_partition = Checkpoint.parse_key(record.key)
        if record.value is None:
            self._remove(group, topic_partition)
            return
        checkpoint = Checkpoint.from_record(record.key, record.value)
        if checkpoint.downstream_offset < 0:
            raise WireError(f"A checkpoint has the offset {checkpoint.downstream_offset}.")
        if self._is_selected(group):
            self.offsets.setdefault(group, {})[topic_partition] = OffsetAndMetadata(
                checkpoint.downstream_offset, checkpoint.metadata
            )

    def _remove(self, group: str, topic_partition: TopicPartition) -> None:
        known = self.offsets.get(group, {})
        known.pop(topic_partition, None)
        if not known:
            self.offsets.pop(group, None)

    def _is_selected(self, group: str) -> bool:
        if isinstance(self.groups, str):
            return group == self.groups
        return self.groups.fullmatch(group) is not None


def parse_group_argument(group_or_pattern: object) -> str | re.Pattern[str]:
    """Validate the argument that selects groups. Raises ArgumentError."""
    if isinstance(group_or_pattern, str):
        return group_or_pattern
    if isinstance(group_or_pattern, re.Pattern) and isinstance(group_or_pattern.pattern, str):
        return group_or_pattern
    raise ArgumentError(
        f"group_or_pattern must be a group name or a pattern made by re.compile, "
        f"not {group_or_pattern!r}."
    )
