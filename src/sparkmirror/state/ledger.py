# SPDX-License-Identifier: Apache-2.0
"""The ledger: a compacted topic on the target that lists every record that is not as it was.

    key    {"flow":"A->B","topic":"t","partition":0,"firstOffset":10,"kind":"gap"}
    value  {"lastOffset":19,"records":10,"cause":"...","policy":"continue","time":"<ISO 8601>"}

Tasks write an entry before the position that covers it. Written again after a crash it replaces
itself, because the key says which thing it was. Everything here is in partition 0.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, datetime

from sparkmirror.errors import BrokerError, WireError
from sparkmirror.formats.connect_json import Json, decode, encode
from sparkmirror.kafka.topic_log import TopicLog
from sparkmirror.state.incidents import Incident
from sparkmirror.wire.settings import ConnectionSettings

PARTITION = 0
_UNKNOWN_TOPIC = 3


@dataclass(frozen=True, slots=True)
class LedgerEntry:
    """One line of the ledger; the kind is a text, because a newer version may know more."""

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
        """The record's key."""
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
        """The record's value."""
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
    """The ledger's line about an incident."""
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
    """The entry that a record holds; WireError if it is none."""
    named = _object(key, "The key of a ledger entry")
    told = _object(value, "A ledger entry")
    return LedgerEntry(
        flow=_text(named, "flow"),
        kind=_text(named, "kind"),
        topic=_text(named, "topic"),
        partition=_number(named, "partition"),
        first_offset=_number(named, "firstOffset"),
        last_offset=_number(told, "lastOffset"),
        records=_number(told, "records"),
        cause=_text(told, "cause"),
        policy=_text(told, "policy"),
        time=_text(told, "time"),
    )


@dataclass(frozen=True, slots=True)
class Ledger:
    """All entries, oldest first, and how many records could not be read as one."""

    entries: tuple[LedgerEntry, ...]
    unreadable: int = 0


def read_ledger(
    connection: ConnectionSettings, topic: str, timeout_seconds: float = 60.0
) -> Ledger:
    """What the topic holds; nothing if it does not exist, for then nothing has happened yet."""
    latest: dict[bytes, bytes] = {}
    try:
        with TopicLog(connection, topic) as log:
            for record in log.read_to_end(timeout_seconds):
                if record.key is None:
                    continue
                latest.pop(record.key, None)
                if record.value is not None:
                    latest[record.key] = record.value
    except BrokerError as error:
        if error.code != _UNKNOWN_TOPIC:
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
    """Write entries; returns when every replica has them."""
    with TopicLog(connection, topic) as log:
        log.append({PARTITION: [(entry.key(), entry.value()) for entry in entries]})


def _object(data: bytes, what: str) -> dict[str, Json]:
    found = decode(data, what)
    if not isinstance(found, dict):
        raise WireError(f"{what} is no JSON object.")
    return found


def _text(fields: dict[str, Json], name: str) -> str:
    found = fields.get(name)
    if not isinstance(found, str):
        raise WireError(f"A ledger entry has no text '{name}'.")
    return found


def _number(fields: dict[str, Json], name: str) -> int:
    found = fields.get(name)
    if not isinstance(found, int) or isinstance(found, bool):
        raise WireError(f"A ledger entry has no whole number '{name}'.")
    return found
