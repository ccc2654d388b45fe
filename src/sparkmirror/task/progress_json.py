# SPDX-License-Identifier: Apache-2.0
"""A task's `Progress` as JSON, and back with nothing taken on trust.

The driver calculates with what a task reports, shows it and begins the next epoch from it. A value
of another type would do harm much later and far away, so it is refused here, with its field.
Thousands of rows may come in a second: a row is looked at as a whole.
"""

from __future__ import annotations

import dataclasses
import math
from typing import Any

from sparkmirror.errors import WireError
from sparkmirror.state.incidents import Incident, IncidentKind
from sparkmirror.task.messages import OtherWriter, PartitionProgress, Progress

_LONGS = (-(2**63), 2**63 - 1)
_BUCKETS = (0, 1023)  # a latency of 2**255 ms: more than any two timestamps are apart
_FIELDS = frozenset(one.name for one in dataclasses.fields(Progress))
_INCIDENT_FIELDS = frozenset(one.name for one in dataclasses.fields(Incident))
_ROW = tuple(str if name in {"topic", "error"} else int for name in PartitionProgress._fields)
_ERROR_AT = PartitionProgress._fields.index("error")
_WRITER = (str, int, int)
_BUCKET = (int, int)


def progress_to_json(progress: Progress) -> dict[str, Any]:
    """Progress as JSON-ready lists and dicts; named tuples become lists by themselves."""
    fields = {one.name: getattr(progress, one.name) for one in dataclasses.fields(progress)}
    return fields | {"incidents": [dataclasses.asdict(one) for one in progress.incidents]}


def progress_from_json(raw: object) -> Progress:
    """The progress that `progress_to_json` wrote; WireError names the field that is none of it."""
    if not isinstance(raw, dict) or raw.keys() != _FIELDS:
        raise WireError("its fields are not those of a report")
    return Progress(
        split=_number("split", raw["split"]),
        attempt=_number("attempt", raw["attempt"]),
        partitions=tuple(_partition(one) for one in _list("partitions", raw)),
        latency=tuple(_latency(one) for one in _list("latency", raw)),
        held_bytes=_number("held_bytes", raw["held_bytes"]),
        oldest_unacked_seconds=_seconds("oldest_unacked_seconds", raw),
        cpu_seconds=_seconds("cpu_seconds", raw),
        notices=_words("notices", raw),
        error=_text("error", raw["error"]),
        other_writers=tuple(
            OtherWriter(*_row("other_writers", one, _WRITER)) for one in _list("other_writers", raw)
        ),
        incidents=tuple(_incident(one) for one in _list("incidents", raw)),
        missing_topics=_words("missing_topics", raw),
    )


def _partition(raw: Any) -> PartitionProgress:
    row = _row("partitions", raw, _ROW)
    if row[_ERROR_AT]:
        row[_ERROR_AT] = _text("error", row[_ERROR_AT])
    return PartitionProgress(*row)


def _latency(raw: Any) -> tuple[int, int]:
    bucket, count = _row("latency", raw, _BUCKET)
    if not _BUCKETS[0] <= bucket <= _BUCKETS[1]:
        raise WireError("its latency is none")
    return bucket, count


def _incident(raw: Any) -> Incident:
    if not isinstance(raw, dict) or raw.keys() != _INCIDENT_FIELDS:
        raise WireError("its incidents are not as they should be")
    try:
        kind = IncidentKind(raw["kind"])
    except ValueError as error:
        raise WireError("it tells of an incident of a kind that there is not") from error
    texts = {name: _text("incidents", raw[name]) for name in ("topic", "cause", "policy")}
    numbers = {
        name: _number("incidents", raw[name])
        for name in ("partition", "first_offset", "last_offset", "records", "time_ms")
    }
    return Incident(kind=kind, **texts, **numbers)  # type: ignore[arg-type] # mypy mixes both


def _row(name: str, raw: Any, types: tuple[type, ...]) -> list[Any]:
    """A list with values of these types; numbers fit into 64 bits."""
    if type(raw) is not list or tuple(map(type, raw)) != types:
        raise WireError(f"its {name} are not as they should be")
    numbers = [one for one in raw if type(one) is int]
    if min(numbers) < _LONGS[0] or max(numbers) > _LONGS[1]:
        raise WireError(f"its {name} hold a number that is none")
    row: list[Any] = raw
    return row


def _list(name: str, raw: dict[str, Any]) -> list[Any]:
    found = raw[name]
    if not isinstance(found, list):
        raise WireError(f"its {name} are no list")
    return found


def _words(name: str, raw: dict[str, Any]) -> tuple[str, ...]:
    return tuple(_text(name, one) for one in _list(name, raw))


def _text(name: str, value: object) -> str:
    """What can be written to a log: JSON may hold halves of characters."""
    if not isinstance(value, str):
        raise WireError(f"its {name} is no text")
    return value if value.isascii() else value.encode(errors="replace").decode()


def _number(name: str, value: object) -> int:
    if type(value) is not int or not _LONGS[0] <= value <= _LONGS[1]:
        raise WireError(f"its {name} is no number")
    return value


def _seconds(name: str, raw: dict[str, Any]) -> float:
    value = raw[name]
    if type(value) not in {int, float} or not math.isfinite(value):
        raise WireError(f"its {name} is no number")
    return float(value)
