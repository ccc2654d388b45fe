# SPDX-License-Identifier: Apache-2.0
"""The ledger: a compacted topic on the target that lists records that differ from the source.

    key    {"flow":"A->B","topic":"t","partition":0,"firstOffset":10,"kind":"gap"}
    value  {"lastOffset":19,"records":10,"cause":"...","policy":"continue","time":"<ISO 8601>"}

Tasks write an entry before the position that covers it. An entry that is written again after a
crash replaces itself, because its key identifies the incident. All records are in partition 0.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, datetime

from sparkmirror.errors import BrokerError, WireError
from sparkmirror.formats.connect_json import Json, decode, encode
from sparkmirror.kafka.topic_log import TopicLog
from sparkmirror.state.incidents import Incident
from sparkmirror.wire import error_codes
from sparkmirror.wire.settings import ConnectionSettings

PARTITION = 0


@dataclass(frozen=True, slots=True)
class LedgerEntry:
    """One entry; the kind is a string, because a newer version may know more kinds."""

    flow: str
    kind: str
    topic: str
    partition: int
    first_offset: int
    last_offset: int
    records: int
    cause: str
    policy: str
    time: str

    def key(self) -> bytes:
        return encode(
            {
                "flow": self.flow,
                "topic": self.topic,
                "partition": self.partition,
                "firstOffset": self.first_offset,
                "kind": self.kind,
            }
        )

    def value(self) -> bytes:
        return encode(
            {
                "lastOffset": self.last_offset,
                "records": self.records,
                "cause": self.cause,
                "policy": self.policy,
                "time": self.time,
            }
        )


def entry_for_incident(flow: str, incident: Incident) -> LedgerEntry:
    moment = datetime.fromtimestamp(incident.time_ms / 1000, UTC)
    return LedgerEntry(
        flow=flow,
        kind=str(incident.kind),
        topic=incident.topic,
        partition=incident.partition,
        first_offset=incident.first_offset,
        last_offset=incident.last_offset,
        records=incident.records,
        cause=incident.cause,
        policy=incident.policy,
        time=moment.isoformat(timespec="milliseconds").replace("+00:00", "Z"),
    )


def parse_entry(key: bytes, value: bytes) -> LedgerEntry:
    """Decode a record. Raises WireError if it is not an entry."""
    key_fields = _object(key, "The key of a ledger entry")
    fields = _object(value, "A ledger entry")
    return LedgerEntry(
        flow=_text(key_fields, "flow"),
        kind=_text(key_fields, "kind"),
        topic=_text(key_fields, "topic"),
        partition=_number(key_fields, "partition"),
        first_offset=_number(key_fields, "firstOffset"),
        last_offset=_number(fields, "lastOffset"),
        records=_number(fields, "records"),
        cause=_text(fields, "cause"),
        policy=_text(fields, "policy"),
        time=_text(fields, "time"),
    )


@dataclass(frozen=True, slots=True)
class Ledger:
    """All entries, oldest first, and the number of invalid records."""

    entries: tuple[LedgerEntry, ...]
    unreadable: int = 0


def read_ledger(connection: ConnectionSettings, topic: str) -> Ledger:
    """Read the topic; a missing topic is an empty ledger."""
    latest: dict[bytes, bytes] = {}
    try:
        with TopicLog(connection, topic) as log:
            for record in log.read_to_end():
                if record.key is None:
                    continue
                latest.pop(record.key, None)
                if record.value is not None:
                    latest[record.key] = record.value
    except BrokerError as error:
        if error.code != error_codes.UNKNOWN_TOPIC_OR_PARTITION:
            raise
    entries: list[LedgerEntry] = []
    unreadable = 0
    for key, value in latest.items():
        try:
            entries.append(parse_entry(key, value))
        except WireError:
            unreadable += 1
    return Ledger(tuple(entries), unreadable)


def append_entries(
    connection: ConnectionSettings, topic: str, entries: Iterable[LedgerEntry]
) -> None:
    """Append entries. Blocks until all replicas have them."""
    with TopicLog(connection, topic) as log:
        log.append({PARTITION: [(entry.key(), entry.value()) for entry in entries]})


def _object(data: bytes, what: str) -> dict[str, Json]:
    found = decode(data, what)
    if not isinstance(found, dict):
        raise WireError(f"{what} is not a JSON object.")
    return found


def _text(fields: dict[str, Json], name: str) -> str:
    found = fields.get(name)
    if not isinstance(found, str):
        raise WireError(f"A ledger entry has no string '{name}'.")
    return found


def _number(fields: dict[str, Json], name: str) -> int:
    found = fields.get(name)
    if not isinstance(found, int) or isinstance(found, bool):
        raise WireError(f"A ledger entry has no integer '{name}'.")
    return found
