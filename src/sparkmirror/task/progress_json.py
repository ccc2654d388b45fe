# SPDX-License-Identifier: Apache-2.0
"""Encodes a task's `Progress` as JSON, and decodes it with full validation.

The driver computes with reported values, displays them, and starts the next epoch from them. So an
invalid value is rejected here, with the name of its field. There may be thousands of rows per
second, so the types of a row are checked together.
"""

from __future__ import annotations

import dataclasses
import math
from typing import Any

from sparkmirror.errors import WireError
from sparkmirror.state.incidents import Incident, IncidentKind
from sparkmirror.task.messages import (
    OtherWriter,
    PartitionProgress,
    PartitionTimes,
    Progress,
    RequestErrors,
    TaskFigures,
)

_LONGS = (-(2**63), 2**63 - 1)
_BUCKETS = (0, 1023)  # up to 2**255 ms, more than the distance of any two timestamps
_FIELDS = frozenset(one.name for one in dataclasses.fields(Progress))
_INCIDENT_FIELDS = frozenset(one.name for one in dataclasses.fields(Incident))
_ROW = tuple(str if name in {"topic", "error"} else int for name in PartitionProgress._fields)
_ERROR_AT = PartitionProgress._fields.index("error")
_WRITER = (str, int, int)
_BUCKET = (int, int)
_FIGURES = (int,) * len(TaskFigures._fields)
_TIMES = (int,) * len(PartitionTimes._fields)
_ERRORS = (str, int, int)
_SIDES = ("source", "target")


def progress_to_json(progress: Progress) -> dict[str, Any]:
    """Return JSON-ready lists and dicts; the encoder writes named tuples as lists."""
    fields = {one.name: getattr(progress, one.name) for one in dataclasses.fields(progress)}
    return fields | {"incidents": [dataclasses.asdict(one) for one in progress.incidents]}


def progress_from_json(raw: object) -> Progress:
    """Decode the result of `progress_to_json`. Raises WireError with the invalid field."""
    if not isinstance(raw, dict) or raw.keys() != _FIELDS:
        raise WireError("wrong fields")
    return Progress(
        split=_number("split", raw["split"]),
        attempt=_number("attempt", raw["attempt"]),
        partitions=tuple(_partition(one) for one in _list("partitions", raw)),
        replication_latency=_latencies("replication_latency", raw),
        copy_latency=_latencies("copy_latency", raw),
        held_bytes=_number("held_bytes", raw["held_bytes"]),
        oldest_unacked_seconds=_seconds("oldest_unacked_seconds", raw),
        cpu_seconds=_seconds("cpu_seconds", raw),
        notices=_texts("notices", raw),
        error=_text("error", raw["error"]),
        other_writers=tuple(
            OtherWriter(*_row("other_writers", one, _WRITER)) for one in _list("other_writers", raw)
        ),
        incidents=tuple(_incident(one) for one in _list("incidents", raw)),
        missing_topics=_texts("missing_topics", raw),
        latency_sums=_pair("latency_sums", raw),
        figures=TaskFigures(*_row("figures", raw["figures"], _FIGURES)),
        times=tuple(_times(one, len(raw["partitions"])) for one in _list("times", raw)),
        request_errors=tuple(_request_errors(one) for one in _list("request_errors", raw)),
    )


def _pair(name: str, raw: dict[str, Any]) -> tuple[int, int]:
    first, second = _row(name, raw[name], _BUCKET)
    return first, second


def _times(raw: Any, rows: int) -> PartitionTimes:
    times = PartitionTimes(*_row("times", raw, _TIMES))
    if not 0 <= times.row < rows:
        raise WireError(f"times are of row {times.row}, which does not exist")
    return times


def _request_errors(raw: Any) -> RequestErrors:
    errors = RequestErrors(*_row("request_errors", raw, _ERRORS))
    if errors.side not in _SIDES:
        raise WireError("request_errors have an unknown side")
    return errors


def _partition(raw: Any) -> PartitionProgress:
    row = _row("partitions", raw, _ROW)
    if row[_ERROR_AT]:
        row[_ERROR_AT] = _text("error", row[_ERROR_AT])
    return PartitionProgress(*row)


def _latencies(name: str, raw: dict[str, Any]) -> tuple[tuple[int, int], ...]:
    return tuple(_latency(name, one) for one in _list(name, raw))


def _latency(name: str, raw: Any) -> tuple[int, int]:
    bucket, count = _row(name, raw, _BUCKET)
    if not _BUCKETS[0] <= bucket <= _BUCKETS[1]:
        raise WireError(f"{name} has bucket {bucket}, which is out of range")
    return bucket, count


def _incident(raw: Any) -> Incident:
    if not isinstance(raw, dict) or raw.keys() != _INCIDENT_FIELDS:
        raise WireError("incidents have wrong fields")
    try:
        kind = IncidentKind(raw["kind"])
    except ValueError as error:
        raise WireError("unknown kind of incident") from error
    texts = {name: _text("incidents", raw[name]) for name in ("topic", "cause", "policy")}
    numbers = {
        name: _number("incidents", raw[name])
        for name in ("partition", "first_offset", "last_offset", "records", "time_ms")
    }
    return Incident(kind=kind, **texts, **numbers)  # type: ignore[arg-type] # mypy mixes both


def _row(name: str, raw: Any, types: tuple[type, ...]) -> list[Any]:
    """Return a list after checking the types of its values; numbers must fit into 64 bits."""
    if type(raw) is not list or tuple(map(type, raw)) != types:
        raise WireError(f"wrong types in {name}")
    numbers = [one for one in raw if type(one) is int]
    if min(numbers) < _LONGS[0] or max(numbers) > _LONGS[1]:
        raise WireError(f"{name} has a number out of range")
    row: list[Any] = raw
    return row


def _list(name: str, raw: dict[str, Any]) -> list[Any]:
    found = raw[name]
    if not isinstance(found, list):
        raise WireError(f"{name} is not a list")
    return found


def _texts(name: str, raw: dict[str, Any]) -> tuple[str, ...]:
    return tuple(_text(name, one) for one in _list(name, raw))


def _text(name: str, value: object) -> str:
    """Return a string without lone surrogates, which JSON allows and logs cannot contain."""
    if not isinstance(value, str):
        raise WireError(f"{name} is not a string")
    return value if value.isascii() else value.encode(errors="replace").decode()


def _number(name: str, value: object) -> int:
    if type(value) is not int or not _LONGS[0] <= value <= _LONGS[1]:
        raise WireError(f"{name} is not a valid number")
    return value


def _seconds(name: str, raw: dict[str, Any]) -> float:
    value = raw[name]
    if type(value) not in {int, float} or not math.isfinite(value):
        raise WireError(f"{name} is not a valid number")
    return float(value)
