# SPDX-License-Identifier: Apache-2.0
"""What a run shows: a live table on a terminal, plain lines elsewhere, a bar for a bounded run."""

from __future__ import annotations

import logging
import re
import time
from collections import Counter
from collections.abc import Sequence
from typing import Protocol, Self

from rich.console import Console, Group
from rich.live import Live
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    TaskID,
    TextColumn,
    TimeRemainingColumn,
)
from rich.table import Table
from rich.text import Text

from sparkmirror.spark.flow_status import FlowSnapshot, FlowState

_LINE_SECONDS = 10.0
_MAX_SHOWN_PROBLEMS = 8
_COLOURS = {
    FlowState.STARTING: "yellow",
    FlowState.STANDBY: "cyan",
    FlowState.RUNNING: "green",
    FlowState.RETRYING: "red",
    FlowState.FAILED: "bold red",
    FlowState.DONE: "blue",
    FlowState.PAUSED: "cyan",
    FlowState.STOPPED: "dim",
}
_WAITING = (FlowState.RETRYING, FlowState.FAILED)  # their reason is a trouble
_NUMBER = re.compile(r"(?<=\s)\d[\d,.]*")  # a trouble whose figures change is not logged again
_log = logging.getLogger("sparkmirror.run")


class View(Protocol):
    """Where a run shows how it goes."""

    def __enter__(self) -> Self:
        """Begin to show."""

    def __exit__(self, *_: object) -> None:
        """Stop showing."""

    def update(self, flows: Sequence[FlowSnapshot], remarks: Sequence[str] = ()) -> None:
        """The figures now, and what is wrong with the file; called about twice a second."""

    def print_line(self, sentence: str) -> None:
        """One sentence, at once."""

    def print_summary(self, flows: Sequence[FlowSnapshot]) -> None:
        """The last word."""


def choose_view(console: Console, *, once: bool = False) -> View:
    """A live view for a person at a terminal, lines for a log file."""
    return LiveView(console, once=once) if console.is_terminal else LineView(console)


def format_count(count: float) -> str:
    """A figure with thousands separators."""
    return f"{count:,.0f}"


def format_bytes(count: float) -> str:
    """Bytes in the unit that fits."""
    for unit in ("B", "KB", "MB", "GB"):
        if count < 1000:  # noqa: PLR2004 - steps of a thousand
            return f"{count:.0f} {unit}" if unit == "B" else f"{count:.1f} {unit}"
        count /= 1000
    return f"{count:.1f} TB"


def format_milliseconds(value: float | None) -> str:
    """A latency, or a dash."""
    return "-" if value is None else f"{value:.0f} ms" if value >= 10 else f"{value:.1f} ms"  # noqa: PLR2004


class LiveView:
    """A table that is drawn over itself."""

    def __init__(self, console: Console, *, once: bool) -> None:
        self._console = console
        self._live = Live(console=console, refresh_per_second=4, transient=False)
        self._bar = (
            Progress(
                TextColumn("{task.description}"),
                BarColumn(),
                MofNCompleteColumn(),
                TimeRemainingColumn(),
                console=console,
            )
            if once
            else None
        )
        self._bars: dict[str, TaskID] = {}

    def __enter__(self) -> Self:
        self._live.__enter__()
        return self

    def __exit__(self, *_: object) -> None:
        self._live.__exit__(None, None, None)

    def update(self, flows: Sequence[FlowSnapshot], remarks: Sequence[str] = ()) -> None:
        """Draw the table, the troubles and the bars."""
        parts: list[Table | Text | Progress] = [flow_table(flows)]
        parts += [Text(remark, style="red") for remark in remarks[:_MAX_SHOWN_PROBLEMS]]
        troubles = [f"{one.flow}: {text}" for one in flows for text in one.problems]
        troubles += [f"{one.flow}: {one.reason}" for one in flows if one.state in _WAITING]
        parts += [Text(line, style="yellow") for line in map(incident_line, flows) if line]
        parts += [Text(line, style="yellow") for line in troubles[:_MAX_SHOWN_PROBLEMS]]
        if len(troubles) > _MAX_SHOWN_PROBLEMS:
            parts.append(
                Text(f"... and {len(troubles) - _MAX_SHOWN_PROBLEMS} more", style="yellow")
            )
        if self._bar is not None:
            self._advance(self._bar, flows)
            parts.append(self._bar)
        self._live.update(Group(*parts))

    def _advance(self, bar: Progress, flows: Sequence[FlowSnapshot]) -> None:
        for one in flows:
            if one.bounded_total is None or one.remaining is None:
                continue
            if one.flow not in self._bars:
                self._bars[one.flow] = bar.add_task(one.flow, total=one.bounded_total)
            bar.update(
                self._bars[one.flow],
                completed=one.bounded_total - one.remaining,
                total=one.bounded_total,
            )

    def print_line(self, sentence: str) -> None:
        """Above the table."""
        self._console.print(sentence, highlight=False, soft_wrap=True)

    def print_summary(self, flows: Sequence[FlowSnapshot]) -> None:
        """One line per flow that copied something."""
        for one in flows:
            if one.records:
                self.print_line(
                    f"{one.flow}: {format_count(one.records)} records, {format_bytes(one.bytes)} "
                    f"copied"
                )
            if one.incidents:
                self.print_line(incident_line(one))


def flow_table(flows: Sequence[FlowSnapshot]) -> Table:
    """The flows and their figures."""
    table = Table(box=None, pad_edge=False)
    table.add_column("flow")
    table.add_column("state")
    for name in ("topics", "partitions", "records", "records/s", "MB/s", "lag", "p50", "p99"):
        table.add_column(name, justify="right")
    for one in flows:
        table.add_row(
            one.flow,
            _state(one),
            format_count(one.topics),
            format_count(one.partitions),
            format_count(one.records),
            format_count(one.records_per_second),
            f"{one.bytes_per_second / 1e6:.1f}",
            "-" if one.lag is None else format_count(one.lag),
            format_milliseconds(one.latency_p50_ms),
            format_milliseconds(one.latency_p99_ms),
        )
    return table


def _state(one: FlowSnapshot) -> Text:
    text = Text(one.state.value, style=_COLOURS[one.state])
    if one.reason and one.state not in _WAITING:
        text.append(f" ({one.reason})", style="dim")
    return text


class LineView:
    """Log lines: states when they change, figures every ten seconds while records flow."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._states: dict[str, tuple[FlowState, str]] = {}
        self._troubles: dict[str, set[str]] = {}
        self._counted: dict[str, int] = {}
        self._next_line = time.monotonic() + _LINE_SECONDS

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        pass

    def update(self, flows: Sequence[FlowSnapshot], remarks: Sequence[str] = ()) -> None:  # noqa: ARG002 - the log has them
        """Log what changed."""
        here = {one.flow for one in flows}
        for gone in [flow for flow in self._states if flow not in here]:
            del self._states[gone]  # one that comes back is told about again
        for one in flows:
            state = (one.state, one.reason)
            if self._states.get(one.flow) != state:
                self._states[one.flow] = state
                level = logging.WARNING if one.state in _WAITING else logging.INFO
                _log.log(level, f"{one.flow}: {one.state.value} {one.reason}".rstrip())
            before = self._troubles.get(one.flow, set())
            now = {_NUMBER.sub("", trouble): trouble for trouble in one.problems}
            for key, trouble in now.items():
                if key not in before:
                    _log.warning(f"{one.flow}: {trouble}")
            if before and not now:
                _log.info(f"{one.flow}: all troubles are over")
            self._troubles[one.flow] = set(now)
        if time.monotonic() >= self._next_line:
            self._next_line = time.monotonic() + _LINE_SECONDS
            for one in flows:
                if one.records != self._counted.get(one.flow, 0):
                    self._counted[one.flow] = one.records
                    _log.info(flow_line(one))

    def print_line(self, sentence: str) -> None:
        """One line on standard error."""
        self._console.print(sentence, highlight=False, soft_wrap=True)

    def print_summary(self, flows: Sequence[FlowSnapshot]) -> None:
        """One line per flow that copied something."""
        for one in flows:
            if one.records:
                _log.info(
                    f"{one.flow}: {format_count(one.records)} records, {format_bytes(one.bytes)} "
                    f"copied"
                )
            if one.incidents:
                _log.warning(incident_line(one))


def incident_line(one: FlowSnapshot) -> str:
    """What happened to a flow that must not happen silently, by kind; empty if nothing did."""
    kinds: Counter[str] = Counter()
    for (_topic, _partition, kind), count in one.incidents.items():
        kinds[kind] += count
    if not kinds:
        return ""
    listed = ", ".join(f"{kind} {format_count(count)}" for kind, count in sorted(kinds.items()))
    return f"{one.flow}: incidents: {listed}; `sparkmirror ledger` prints those that left a mark"


def flow_line(one: FlowSnapshot) -> str:
    """A flow in one line."""
    lag = "unknown" if one.lag is None else format_count(one.lag)
    return (
        f"{one.flow}: epoch {one.epoch}, {one.topics} topics, {format_count(one.records)} records, "
        f"{format_count(one.records_per_second)} records/s, {one.bytes_per_second / 1e6:.1f} MB/s, "
        f"lag {lag}, latency p50 {format_milliseconds(one.latency_p50_ms)} "
        f"p99 {format_milliseconds(one.latency_p99_ms)}"
    )
