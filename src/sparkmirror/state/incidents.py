# SPDX-License-Identifier: Apache-2.0
"""Incidents as values: what happened, where, and what was done.

A task or the driver creates an `Incident`; log line, status, counter and ledger entry derive from
it. `INCIDENT_RULES` is the only table of kinds.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from types import MappingProxyType
from typing import NamedTuple

from sparkmirror.model import TopicPartition
from sparkmirror.quantities import counted

STOP = "stop"  # the policy under which a partition waits for manual action


class IncidentKind(StrEnum):
    """What happened to a topic partition."""

    GAP = "gap"
    SOURCE_TRUNCATED = "source-truncated"
    SOURCE_RECREATED = "source-recreated"
    TARGET_TRUNCATED = "target-truncated"
    TARGET_RECREATED = "target-recreated"
    CORRUPT_BATCH = "corrupt-batch"
    DEAD_LETTER = "dead-letter"
    SKIPPED_RECORD = "skipped-record"
    OPEN_TRANSACTION = "open-transaction"
    FOREIGN_WRITER = "foreign-writer"
    RESUME_MISMATCH = "resume-mismatch"
    REFUSED = "refused"
    NO_READ = "no-read"
    OFFSETS_RESET = "offsets-reset"


class IncidentRule(NamedTuple):
    """The properties of a kind."""

    policy_key: str  # the key of its policy; empty if there is none
    meaning: str
    in_ledger: bool = True  # afterwards source and target differ


INCIDENT_RULES: Mapping[IncidentKind, IncidentRule] = MappingProxyType(
    {
        IncidentKind.GAP: IncidentRule(
            "gap.policy", "the source deleted records before they were copied"
        ),
        IncidentKind.SOURCE_TRUNCATED: IncidentRule(
            "source.truncated.policy", "the source lost records that were already copied"
        ),
        IncidentKind.SOURCE_RECREATED: IncidentRule(
            "source.recreated.policy", "the source topic was deleted and created again"
        ),
        IncidentKind.TARGET_TRUNCATED: IncidentRule(
            "target.truncated.policy", "the target lost acknowledged records"
        ),
        IncidentKind.TARGET_RECREATED: IncidentRule(
            "target.recreated.policy", "the target topic was deleted and created again"
        ),
        IncidentKind.CORRUPT_BATCH: IncidentRule(
            "corrupt.batch.policy", "a record batch on the source does not match its checksum"
        ),
        IncidentKind.DEAD_LETTER: IncidentRule(
            "refused.record.policy", "the target refused records; they are in the dead-letter topic"
        ),
        IncidentKind.SKIPPED_RECORD: IncidentRule(
            "refused.record.policy", "the target refused records; they were skipped"
        ),
        IncidentKind.OPEN_TRANSACTION: IncidentRule(
            "open.transaction.warning.ms",
            "an open transaction on the source blocks the records after it",
            in_ledger=False,
        ),
        IncidentKind.FOREIGN_WRITER: IncidentRule(
            "", "another producer writes to the target partition", in_ledger=False
        ),
        IncidentKind.RESUME_MISMATCH: IncidentRule(
            "", "the end of the target partition does not match the source"
        ),
        IncidentKind.REFUSED: IncidentRule(
            "refused.record.policy",
            "the target refuses records; the partition waits",
            in_ledger=False,
        ),
        IncidentKind.NO_READ: IncidentRule(
            "", "the target cannot be read; a crash may repeat records", in_ledger=False
        ),
        IncidentKind.OFFSETS_RESET: IncidentRule("", "a user reset the offsets"),
    }
)


_MAX_REMEMBERED = 10_000


@dataclass(frozen=True, slots=True)
class Incident:
    """One event on one source partition."""

    kind: IncidentKind
    topic: str
    partition: int
    first_offset: int  # on the source; -1 if none applies
    last_offset: int
    records: int  # -1 if unknown
    cause: str
    time_ms: int
    policy: str = ""  # the applied value of the policy key

    @property
    def tp(self) -> TopicPartition:
        return TopicPartition(self.topic, self.partition)

    @property
    def identity(self) -> tuple[str, ...]:
        """Equal for the same event seen again, by the next attempt or after a restart."""
        return (self.kind, self.topic, str(self.partition), str(self.first_offset), self.policy)

    @property
    def belongs_in_ledger(self) -> bool:
        """Whether records were left out, added or changed; a waiting partition lost nothing."""
        return INCIDENT_RULES[self.kind].in_ledger and self.policy != STOP

    def __str__(self) -> str:
        rule = INCIDENT_RULES[self.kind]
        where = f"{self.kind}: {self.tp}"
        if self.first_offset >= 0:
            last = max(self.first_offset, self.last_offset)
            where += (
                f": offset {last}"
                if last == self.first_offset
                else (f": offsets {self.first_offset} to {last}")
            )
        if self.records >= 0:
            where += f" ({counted(self.records, 'record')})"
        done = f" [{rule.policy_key}={self.policy}]" if rule.policy_key and self.policy else ""
        return f"{where}: {rule.meaning}: {self.cause}{done}"


class SeenIncidents:
    """Remembers the latest incidents."""

    def __init__(self) -> None:
        self._known: dict[tuple[str, ...], None] = {}  # in the order of the last occurrence

    def is_new(self, incident: Incident) -> bool:
        """Return whether the incident is new, and remember it."""
        identity = incident.identity
        is_new = identity not in self._known
        self._known.pop(identity, None)
        self._known[identity] = None
        if len(self._known) > _MAX_REMEMBERED:
            del self._known[next(iter(self._known))]
        return is_new
