# SPDX-License-Identifier: Apache-2.0
"""From the records of a checkpoints topic to the offsets at which groups may go on.

Of each group and partition the last checkpoint counts. A record without a value deletes; one that
cannot be read is passed over and counted; one of a newer version ends the reading, because what
it says would be missing from the answer.
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
    """What a group commits: the offset of the next record it wants, and a text of its own."""

    offset: int
    metadata: str = ""


GroupOffsets = dict[str, dict[TopicPartition, OffsetAndMetadata]]


@dataclass(slots=True)
class LatestCheckpoints:
    """The offsets of the wanted groups, taken record by record; counts what it could not read."""

    wanted: str | re.Pattern[str]  # one group, or all whose whole name matches
    offsets: GroupOffsets = field(default_factory=dict)
    malformed: int = 0
    first_malformed: str = ""  # where, and what was wrong with it

    def add(self, record: LogRecord) -> None:
        """Take the next record of the topic."""
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
        if self._is_wanted(group):
            self.offsets.setdefault(group, {})[topic_partition] = OffsetAndMetadata(
                checkpoint.downstream_offset, checkpoint.metadata
            )

    def _remove(self, group: str, topic_partition: TopicPartition) -> None:
        known = self.offsets.get(group, {})
        known.pop(topic_partition, None)
        if not known:
            self.offsets.pop(group, None)

    def _is_wanted(self, group: str) -> bool:
        if isinstance(self.wanted, str):
            return group == self.wanted
        return self.wanted.fullmatch(group) is not None


def parse_group_argument(group_or_pattern: object) -> str | re.Pattern[str]:
    """The argument by which a program names groups; ArgumentError if it names none."""
    if isinstance(group_or_pattern, str):
        return group_or_pattern
    if isinstance(group_or_pattern, re.Pattern) and isinstance(group_or_pattern.pattern, str):
        return group_or_pattern
    raise ArgumentError(
        f"group_or_pattern must be a group's name or a pattern made by re.compile, "
        f"not {group_or_pattern!r}."
    )
