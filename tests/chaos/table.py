# SPDX-License-Identifier: Apache-2.0
"""Formats the verdict of a run: a table by kind of fault, and all anomalies."""

from __future__ import annotations

from collections import Counter, defaultdict

from chaos.run import Report, Struck
from chaos.verdict import ALTERED, DISORDERED, FOREIGN, LOST, TROUBLES, TWICE, Anomaly

_COLUMNS = (LOST, TWICE, DISORDERED)
_MOST_ANOMALIES = 40
_LAST_GASP_SECONDS = 1.0  # records still arrive when a fault has begun, and before it


def verdict_lines(report: Report) -> list[str]:
    counts = Counter(one.fault.kind.value for one in report.struck)
    pauses: defaultdict[str, float] = defaultdict(float)
    for began, seconds in report.pauses:
        kind = _blame(report, began + _LAST_GASP_SECONDS)
        pauses[kind] = max(pauses[kind], seconds)
    harm: defaultdict[str, Counter[str]] = defaultdict(Counter)
    for stream in report.streams:
        for anomaly in stream.anomalies:
            harm[_blame(report, _time(report, anomaly))][anomaly.what] += anomaly.records
    header = f"{'fault':<20}{'count':>7}{'longest pause':>15}"
    lines = [header + "".join(f"{column:>14}" for column in _COLUMNS)]
    kinds = sorted({*counts, *harm, *pauses})
    lines += [_row(kind, counts[kind], pauses[kind], harm[kind]) for kind in kinds]
    total: Counter[str] = sum((one.counts for one in report.streams), Counter())
    longest = max((seconds for _, seconds in report.pauses), default=0.0)
    lines.append(_row("all", len(report.struck), longest, total))
    records = sum(one.records for one in report.streams)
    lines.append("")
    lines.append(f"{records:,} records in {len(report.streams)} streams; " + _summary(total))
    translated = (f"{how} {count:,}" for how, count in sorted(report.translated.items()))
    lines.append("offsets translated: " + ", ".join(translated))
    lines += [f"left out, not possible on this machine: {fault}" for fault in report.skipped]
    lines += [f"complaint: {text}" for text in report.complaints]
    lines += _anomaly_lines(report)
    return lines


def _row(name: str, count: int, pause: float, harm: Counter[str]) -> str:
    cells = "".join(f"{harm[column]:>14}" for column in _COLUMNS)
    return f"{name:<20}{count:>7}{pause:>13.1f} s{cells}"


def _summary(total: Counter[str]) -> str:
    shown = [what for what in TROUBLES if what not in (ALTERED, FOREIGN) or total[what]]
    return ", ".join(f"{what} {total[what]}" for what in shown)


def _anomaly_lines(report: Report) -> list[str]:
    anomalies = [one for stream in report.streams for one in stream.anomalies]
    lines = []
    for one in anomalies[:_MOST_ANOMALIES]:
        source, partition = one.stream
        when = _time(report, one)
        seen = (
            f"at {when:.1f} s, last fault {_blame(report, when)}" if when >= 0 else "when unknown"
        )
        lines.append(
            f"{one.what}: {one.records} records of {source}, partition {partition}: numbers "
            f"{one.first.number} to {one.last.number}, offsets {one.first.offset} to "
            f"{one.last.offset}; {seen}"
        )
    if len(anomalies) > _MOST_ANOMALIES:
        lines.append(f"... and {len(anomalies) - _MOST_ANOMALIES} more")
    return lines


def _time(report: Report, anomaly: Anomaly) -> float:
    return report.times.get((anomaly.stream, anomaly.at), -1.0)


def _blame(report: Report, when: float) -> str:
    """Return the kind of the last fault that had started by then."""
    before: list[Struck] = [one for one in report.struck if one.began <= when]
    return before[-1].fault.kind.value if before else "(no fault yet)"
