# SPDX-License-Identifier: Apache-2.0
"""Counts, sizes, rates, durations and times as text; every output uses these functions.

A count has thousands separators and its noun in the right form; sizes are in steps of 1,000;
times are ISO 8601 with a time zone.
"""

from __future__ import annotations

from datetime import UTC, datetime

_UNITS = ("B", "KB", "MB", "GB", "TB", "PB")
_KILO = 1000
_MINUTE, _HOUR, _DAY = 60, 3600, 86400
_FINE_BELOW = 10  # milliseconds or seconds below this have one decimal
_ES = ("s", "x", "z", "ch", "sh")


def counted(number: float, noun: str, plural: str = "") -> str:
    """Return the number with its noun: `1 record`, `2,050 records`, `3 entries`."""
    return f"{format_count(number)} {number_form(number, noun, plural or pluralize(noun))}"


def number_form(number: float, singular: str, plural: str) -> str:
    """Return the word that agrees with the number: `1 is`, `2 are`."""
    return singular if number == 1 else plural


def pluralize(noun: str) -> str:
    """Return the regular plural of a noun or of a phrase that ends in one."""
    if noun.endswith("y") and noun[-2:-1] not in "aeiou":
        return f"{noun[:-1]}ies"
    return f"{noun}es" if noun.endswith(_ES) else f"{noun}s"


def and_more(hidden: int, noun: str = "") -> str:
    """Return ` and 3 more`, for the end of a shortened list; nothing if it is complete."""
    if hidden <= 0:
        return ""
    return f" and {format_count(hidden)} more" + (
        f" {number_form(hidden, noun, pluralize(noun))}" if noun else ""
    )


def format_count(count: float) -> str:
    return f"{count:,.0f}"


def format_bytes(size: float) -> str:
    """Format as B, KB, MB, GB, TB or PB; 1 KB is 1,000 bytes."""
    amount, unit = float(size), 0
    # Compare the printed value: 999.96 KB would be printed as 1000.0 KB.
    while round(amount, 1 if unit else 0) >= _KILO and unit < len(_UNITS) - 1:
        amount /= _KILO
        unit += 1
    return f"{amount:.{1 if unit else 0}f}".removesuffix(".0") + f" {_UNITS[unit]}"


def format_byte_rate(bytes_per_second: float) -> str:
    return f"{format_bytes(bytes_per_second)}/s"


def format_record_rate(records_per_second: float) -> str:
    return f"{format_count(records_per_second)} records/s"


def format_duration(seconds: float) -> str:
    """Format a duration in at most two units."""
    whole = round(seconds)
    if whole < 1:
        return "less than 1 s"
    if whole < _MINUTE:
        return f"{whole} s"
    for length, unit, part, smaller in (
        (_HOUR, _MINUTE, 1, ("min", "s")),
        (_DAY, _HOUR, _MINUTE, ("h", "min")),
    ):
        if whole < length:
            return _two_units(whole // unit, smaller[0], whole % unit // part, smaller[1])
    return _two_units(whole // _DAY, "d", whole % _DAY // _HOUR, "h")


def _two_units(large: int, unit: str, small: int, smaller: str) -> str:
    return f"{large} {unit} {small} {smaller}" if small else f"{large} {unit}"


def format_latency(milliseconds: float | None) -> str:
    """Format a latency: `2.1 ms`, `64 ms`, `3.4 s`, `2 min 5 s`; `-` if it is unknown."""
    if milliseconds is None:
        return "-"
    if milliseconds < _KILO:
        return f"{milliseconds:.{1 if milliseconds < _FINE_BELOW else 0}f} ms"
    seconds = milliseconds / _KILO
    return f"{seconds:.1f} s" if seconds < _FINE_BELOW else format_duration(seconds)


def format_lag(lag: int | None, known: int | None) -> str:
    """Format records to copy; `unknown`, or `>=` if only the lag of some partitions is known."""
    if lag is not None:
        return format_count(lag)
    return f">={format_count(known)}" if known else "unknown"


def format_percentiles(p50_ms: float, p99_ms: float) -> str:
    """Format as `p50 2.1 ms p99 64 ms`."""
    return f"p50 {format_latency(p50_ms)} p99 {format_latency(p99_ms)}"


def format_time(milliseconds: int | None) -> str:
    """Format milliseconds since 1970 as ISO 8601 in UTC; `-` if unknown."""
    if milliseconds is None:
        return "-"
    try:
        return datetime.fromtimestamp(milliseconds / _KILO, UTC).isoformat(timespec="seconds")
    except (OverflowError, ValueError, OSError):
        return str(milliseconds)  # a date beyond year 9999


def shorten_middle(name: str, width: int) -> str:
    """Shorten a name to `width` characters; the middle becomes `...`, both ends stay."""
    if len(name) <= width:
        return name
    if width <= len(_GAP):
        return name[:width]
    kept = width - len(_GAP)
    head = (kept + 1) // 2
    return f"{name[:head]}{_GAP}{name[len(name) - (kept - head) :]}"


_GAP = "..."
