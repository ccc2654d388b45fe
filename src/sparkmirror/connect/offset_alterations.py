# SPDX-License-Identifier: Apache-2.0
"""Validates and encodes offsets that a client of the REST API sets, as MM2's connectors do.

    {"partition": {"cluster": "a", "topic": "t", "partition": 0}, "offset": {"offset": 41}}
    {"partition": {...}, "offset": null}                           start from the beginning

The messages are MM2's. Stored positions have more fields than MM2's `offset`. They are valid only
for the stored offset, so an offset that a client sets does not have them.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from sparkmirror.config.keys.connector_classes import ConnectorClass
from sparkmirror.errors import ArgumentError
from sparkmirror.formats.connect_json import Json, encode

NOTHING_TO_ALTER = "Partitions / offsets need to be provided for an alter offsets request"

Fields = Mapping[str, Json]

_OFFSET = "offset"
_PARTITION = "partition"
_INT_32 = 1 << 31
_INT_64 = 1 << 63


@dataclass(frozen=True, slots=True)
class OffsetEntry:
    """One entry of a request: a partition and its offset; None deletes the stored offset."""

    partition: Fields | None
    offset: Fields | None


@dataclass(frozen=True, slots=True)
class OffsetRecord:
    """A record for the offsets topic; a value of None is a tombstone."""

    key: bytes
    value: bytes | None


@dataclass(frozen=True, slots=True)
class _PartitionRule:
    """Fields of a class's partitions, as MM2 checks them and as Java's map orders them."""

    asked: tuple[str, ...]
    ordered: tuple[str, ...]
    only_zero: bool


_RULES = {
    ConnectorClass.SOURCE: _PartitionRule(
        ("cluster", "topic", _PARTITION), ("cluster", _PARTITION, "topic"), only_zero=False
    ),
    ConnectorClass.CHECKPOINT: _PartitionRule(
        ("group", "topic", _PARTITION), (_PARTITION, "topic", "group"), only_zero=True
    ),
    ConnectorClass.HEARTBEAT: _PartitionRule(
        ("sourceClusterAlias", "targetClusterAlias"),
        ("sourceClusterAlias", "targetClusterAlias"),
        only_zero=True,
    ),
}


def offset_records(
    kind: ConnectorClass, connector: str, entries: Iterable[OffsetEntry]
) -> tuple[OffsetRecord, ...]:
    """Return the records to write; ArgumentError if an entry is invalid.

    The last entry of a partition wins.
    """
    rule = _RULES[kind]
    found = [_ordered(entry, rule.ordered) for entry in entries]
    for entry in found:
        for fields in (entry.partition, entry.offset):
            _check_primitive(fields or {})
    changes: dict[bytes, OffsetRecord] = {}
    for entry in found:
        value = None if entry.offset is None else _checked(entry.partition, entry.offset, rule)
        partition = None if entry.partition is None else dict(entry.partition)
        key = encode([connector, partition])
        changes[key] = OffsetRecord(key, value)
    return tuple(changes.values())


def _checked(partition: Fields | None, offset: Fields, rule: _PartitionRule) -> bytes:
    """Return the value to store; ArgumentError with MM2's message."""
    if partition is None:
        raise ArgumentError("Source partitions may not be null")
    for name in rule.asked:
        if name not in partition:
            raise ArgumentError(
                f"Source partition {_map(partition)} is missing the '{name}' key, which is required"
            )
        problem = (
            _wrong_number(partition[name]) if name == _PARTITION else _wrong_text(partition[name])
        )
        if problem:
            raise ArgumentError(
                f"Source partition {_map(partition)} has an invalid value "
                f"{_text(partition[name])} for the '{name}' key, {problem}"
            )
    whole = f"Source offset {_map(offset)} for source partition {_map(partition)}"
    if _OFFSET not in offset:
        raise ArgumentError(f"{whole} is missing the '{_OFFSET}' key, which is required")
    number = offset[_OFFSET]
    invalid = f"{whole} has an invalid value {_text(number)} for the '{_OFFSET}' key"
    if not isinstance(number, int) or isinstance(number, bool):
        raise ArgumentError(f"{invalid}, which must be an integer")
    if rule.only_zero and number != 0:
        raise ArgumentError(f"{invalid}; the only accepted value is 0")
    if number < 0:
        raise ArgumentError(f"{invalid}, which cannot be negative")
    return encode({_OFFSET: number})


def _wrong_text(value: Json) -> str:
    return "" if isinstance(value, str) else "which must be a string"


def _wrong_number(value: Json) -> str:
    if not isinstance(value, int) or isinstance(value, bool) or value >= _INT_32:
        return "which must be an integer"
    return "which cannot be negative" if value < 0 else ""


def _check_primitive(fields: Fields) -> None:
    for name, value in fields.items():
        found = ""
        if isinstance(value, dict):
            found = "MAP"
        elif isinstance(value, list):
            found = "ARRAY"
        elif isinstance(value, int) and not -_INT_64 <= value < _INT_64:
            found = "class java.math.BigInteger"
        if found:
            raise ArgumentError(
                f"Offsets may only contain primitive types as values, but field {name} contains "
                f"{found}"
            )


def _ordered(entry: OffsetEntry, order: Sequence[str]) -> OffsetEntry:
    """The partition with its fields in the order of Java's keys."""
    if entry.partition is None:
        return entry
    known = {name: entry.partition[name] for name in order if name in entry.partition}
    return OffsetEntry({**known, **entry.partition}, entry.offset)


def _map(fields: Fields) -> str:
    """Format fields as Java prints a map."""
    return f"{{{', '.join(f'{name}={_text(value)}' for name, value in fields.items())}}}"


def _text(value: Json) -> str:
    if value is None:
        return "null"
    return str(value).lower() if isinstance(value, bool) else str(value)
