# SPDX-License-Identifier: Apache-2.0
"""What must never happen silently, as values: what it was, where, and what was done about it.

A task or the driver makes an `Incident`; the log line, the status, the counter and the ledger
entry are all made from it. `RULES` is the only table of kinds.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from types import MappingProxyType
from typing import NamedTuple

from sparkmirror.model import TopicPartition

STOP = "stop"  # the policy under which nothing moves until a person has decided


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


class IncidentRule(NamedTuple):
    """What is known of a kind."""

    policy_key: str  # the key that says what to do about it; empty: there is nothing to choose
    meaning: str
    in_ledger: bool  # afterwards source and target are not record by record the same


INCIDENT_RULES: Mapping[IncidentKind, IncidentRule] = MappingProxyType(
    {
        IncidentKind.GAP: IncidentRule(
            "gap.policy", "the source deleted records before they were copied", in_ledger=True
        ),
        IncidentKind.SOURCE_TRUNCATED: IncidentRule(
            "source.truncated.policy",
            "the source lost records that had been copied already",
            in_ledger=True,
        ),
        IncidentKind.SOURCE_RECREATED: IncidentRule(
            "source.recreated.policy",
            "the source topic was deleted and created again",
            in_ledger=True,
        ),
        IncidentKind.TARGET_TRUNCATED: IncidentRule(
            "target.truncated.policy", "the target lost records of ours", in_ledger=True
        ),
        IncidentKind.TARGET_RECREATED: IncidentRule(
            "target.recreated.policy",
            "the target topic was deleted and created again",
            in_ledger=True,
        ),
        IncidentKind.CORRUPT_BATCH: IncidentRule(
            "corrupt.batch.policy",
            "a record batch on the source does not match its checksum",
            in_ledger=True,
        ),
        IncidentKind.DEAD_LETTER: IncidentRule(
            "refused.record.policy",
            "the target refused records; they are in the dead-letter topic",
            in_ledger=True,
        ),
        IncidentKind.SKIPPED_RECORD: IncidentRule(
            "refused.record.policy",
            "the target refused records; they were left out",
            in_ledger=True,
        ),
        IncidentKind.OPEN_TRANSACTION: IncidentRule(
            "open.transaction.warning.ms",
            "a transaction on the source is open and holds back everything behind it",
            in_ledger=False,
        ),
        IncidentKind.FOREIGN_WRITER: IncidentRule(
            "", "somebody else writes to the target partition", in_ledger=False
        ),
        IncidentKind.RESUME_MISMATCH: IncidentRule(
            "", "the target's tail does not match the source where it should", in_ledger=True
        ),
        IncidentKind.REFUSED: IncidentRule(
            "refused.record.policy",
            "the target refuses records, and the partition waits",
            in_ledger=False,
        ),
        IncidentKind.NO_READ: IncidentRule(
            "", "the target may not be read, so that a crash may repeat records", in_ledger=False
        ),
    }
)


_REMEMBERED = 10_000


@dataclass(frozen=True, slots=True)
class Incident:
    """One thing that happened to one source partition."""

    kind: IncidentKind
    topic: str
    partition: int
    first_offset: int  # on the source; -1: no offset is meant
    last_offset: int
    records: int  # as far as known, else -1
    cause: str
    time_ms: int
    policy: str = ""  # the value of the policy key that was applied

    @property
    def tp(self) -> TopicPartition:
        """The source partition."""
        return TopicPartition(self.topic, self.partition)

    @property
    def identity(self) -> tuple[str, ...]:
        """The same for the same thing seen again: by the next attempt, or after a restart."""
        return (self.kind, self.topic, str(self.partition), str(self.first_offset), self.policy)

    @property
    def belongs_in_ledger(self) -> bool:
        """Whether something was left out, added or changed; a partition that waits lost nothing."""
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
            where += f" ({self.records} record{'' if self.records == 1 else 's'})"
        done = f" [{rule.policy_key}={self.policy}]" if rule.policy_key and self.policy else ""
        return f"{where}: {rule.meaning}: {self.cause}{done}"


class SeenIncidents:
    """Remembers which incidents were seen, the latest ones at least."""

    def __init__(self) -> None:
        self._known: dict[tuple[str, ...], None] = {}  # in the order in which they were last seen

    def is_new(self, incident: Incident) -> bool:
        """Whether it has not been seen before; from now on it has."""
        identity = incident.identity
        is_new = identity not in self._known
        self._known.pop(identity, None)
        self._known[identity] = None
        if len(self._known) > _REMEMBERED:
            del self._known[next(iter(self._known))]
        return is_new
