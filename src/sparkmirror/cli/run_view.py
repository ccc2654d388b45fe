# SPDX-License-Identifier: Apache-2.0
"""Progress output of a run: a live table on a terminal, log lines elsewhere."""

from __future__ import annotations

import logging
import re
import time
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Protocol, Self

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    TaskID,
    TextColumn,
    TimeRemainingColumn,
)
from rich.text import Text

from sparkmirror import quantities
from sparkmirror.cli.logging_setup import VIEW_LOGGER
from sparkmirror.cli.tables import FittedTable
from sparkmirror.quantities import (
    and_more,
    counted,
    format_byte_rate,
    format_bytes,
    format_count,
    format_latency,
    format_record_rate,
)
from sparkmirror.spark.flow_status import FlowSnapshot, FlowState
from sparkmirror.spark.latency_window import LatencyPercentiles
from sparkmirror.system.log_scope import scope_of

_HEADINGS = (
    *("flow", "state", "topics", "partitions"),
    *("records", "records/s", "bytes/s", "lag"),
    *("latency p50", "latency p99", "copy p50", "copy p99"),
)
_OPTIONAL_HEADINGS = (  # on a narrow terminal
    *("partitions", "topics", "copy p50", "latency p50"),
    *("bytes/s", "copy p99"),
)
_FIRST_LINE_SECONDS = 10.0
_LINE_SECONDS = 60.0
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
_WAITING = (FlowState.RETRYING, FlowState.FAILED)  # their reason is shown as a problem
_NUMBER = re.compile(r"(?<=\s)\d[\d,.]*")  # a problem is not logged again if only numbers change
_log = logging.getLogger(VIEW_LOGGER)


class View(Protocol):
    """Output of a run. A context manager; `update` is called about twice a second."""

    def __enter__(self) -> Self: ...

    def __exit__(self, *_: object) -> None: ...

    def update(self, flows: Sequence[FlowSnapshot], remarks: Sequence[str] = ()) -> None:
        """Show the current state; `remarks` are the errors of a rejected file."""

    def print_summary(self, flows: Sequence[FlowSnapshot]) -> None:
        """Print totals and incidents at the end of the run."""


def choose_view(
    console: Console,
    *,
    once: bool = False,
    progress_seconds: Callable[[], float] = lambda: _LINE_SECONDS,
) -> View:
    """Return a live view on a terminal, else a line view that calls `progress_seconds`."""
    lines = LineView(progress_seconds)
    return LiveView(console, lines, once=once) if console.is_terminal else lines


def format_percentiles(found: LatencyPercentiles | None) -> str:
    """Format as `p50 2.1 ms p99 64 ms`; `-` if no record was acknowledged recently."""
    if found is None:
        return "-"
    return quantities.format_percentiles(found.p50_ms, found.p99_ms)


class LiveView:
    """A table that is redrawn in place; with `once` also a progress bar per flow.

    `log.file` gets the lines of `lines`, which the terminal does not show.
    """

    def __init__(self, console: Console, lines: LineView, *, once: bool) -> None:
        self._console = console
        self._lines = lines
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
        self._lines.update(flows)
        parts: list[RenderableType] = [*live_frame(flows, remarks)]
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

    def print_summary(self, flows: Sequence[FlowSnapshot]) -> None:
        for one in flows:
            for line in filter(None, (total_line(one), incident_line(one))):
                self._console.print(line, highlight=False, soft_wrap=True)
        self._lines.print_summary(flows)


def live_frame(
    flows: Sequence[FlowSnapshot], remarks: Sequence[str] = ()
) -> list[FittedTable | Text]:
    """Return the table of flows, and the lines of incidents and problems below it."""
    parts: list[FittedTable | Text] = [flow_table(flows)]
    parts += [Text(remark, style="red") for remark in remarks[:_MAX_SHOWN_PROBLEMS]]
    problems = [f"{one.flow}: {one.reason}" for one in flows if one.state in _WAITING]
    problems += [f"{one.flow}: {text}" for one in flows for text in one.problems]
    skipped = [(one.flow, _skipped(one).removeprefix(", ")) for one in flows]
    parts += [Text(f"{flow}: {text}", style="dim") for flow, text in skipped if text]
    parts += [Text(line, style="yellow") for line in map(incident_line, flows) if line]
    parts += [Text(line, style="yellow") for line in problems[:_MAX_SHOWN_PROBLEMS]]
    hidden = len(problems) - _MAX_SHOWN_PROBLEMS
    if hidden > 0:
        parts.append(Text(f"...{and_more(hidden)}", style="yellow"))
    return parts


def flow_table(flows: Sequence[FlowSnapshot]) -> FittedTable:
    rows = [
        (
            Text(one.flow),
            Text(one.state.value, style=_COLOURS[one.state]),
            *map(
                Text,
                (
                    format_count(one.topics),
                    format_count(one.partitions),
                    format_count(one.records),
                    format_count(one.records_per_second),
                    format_bytes(one.bytes_per_second),
                    format_lag(one),
                    *_latency_cells(one.replication_latency),
                    *_latency_cells(one.copy_latency),
                ),
            ),
            Text("" if one.state in _WAITING else one.reason, style="dim"),
        )
        for one in flows
    ]
    if any(row[-1] for row in rows):
        return FittedTable((*_HEADINGS, "reason"), rows, optional=_OPTIONAL_HEADINGS)
    return FittedTable(_HEADINGS, [row[:-1] for row in rows], optional=_OPTIONAL_HEADINGS)


def _latency_cells(found: LatencyPercentiles | None) -> tuple[str, str]:
    if found is None:
        return "-", "-"
    return format_latency(found.p50_ms), format_latency(found.p99_ms)


class LineView:
    """Logs changed states and new problems; while records flow also totals.

    The first totals come after ten seconds, the others every `progress_seconds`.
    """

    def __init__(self, progress_seconds: Callable[[], float] = lambda: _LINE_SECONDS) -> None:
        self._progress_seconds = progress_seconds
        self._states: dict[str, tuple[FlowState, str]] = {}
        self._problems: dict[str, set[str]] = {}
        self._counted: dict[str, int] = {}
        self._is_first_line = True
        self._last_line = time.monotonic()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        pass

    def update(self, flows: Sequence[FlowSnapshot], remarks: Sequence[str] = ()) -> None:  # noqa: ARG002 - already logged
        current = {one.flow for one in flows}
        for removed in [flow for flow in self._states if flow not in current]:
            del self._states[removed]  # its state is logged again if it returns
        for one in flows:
            state = (one.state, one.reason)
            if self._states.get(one.flow) != state:
                self._states[one.flow] = state
                level = logging.WARNING if one.state in _WAITING else logging.INFO
                sentence = f"{one.flow}: {one.state.value} {one.reason}".rstrip()
                _log.log(level, sentence, extra=scope_of(one.flow))
            self._log_problems(one)
        if self._is_line_due():
            self._is_first_line = False
            self._last_line = time.monotonic()
            for one in flows:
                count = one.records + sum(one.skipped_records.values())
                if count != self._counted.get(one.flow, 0):
                    self._counted[one.flow] = count
                    _log.info(flow_line(one), extra=scope_of(one.flow))

    def _is_line_due(self) -> bool:
        seconds = self._progress_seconds()
        if self._is_first_line:
            seconds = min(seconds, _FIRST_LINE_SECONDS)
        return time.monotonic() - self._last_line >= seconds

    def _log_problems(self, one: FlowSnapshot) -> None:
        before = self._problems.get(one.flow, set())
        now = {_NUMBER.sub("", problem): problem for problem in one.problems}
        if not now and one.state in _WAITING:
            return  # the state has another problem
        for key, problem in now.items():
            if key not in before:
                fields = {**scope_of(one.flow), "problem": problem}
                _log.warning(f"{one.flow}: {problem}", extra=fields)
        if before and not now:
            _log.info(f"{one.flow}: all problems are resolved", extra=scope_of(one.flow))
        self._problems[one.flow] = set(now)

    def print_summary(self, flows: Sequence[FlowSnapshot]) -> None:
        for one in flows:
            if line := total_line(one):
                _log.info(line, extra=scope_of(one.flow))
            if line := incident_line(one):
                _log.warning(line, extra=scope_of(one.flow))


def total_line(one: FlowSnapshot) -> str:
    """Return the copied records and bytes; empty if nothing was copied."""
    skipped = _skipped(one)
    if not one.records and not skipped:
        return ""
    copied = f"{counted(one.records, 'record')}, {format_bytes(one.bytes)} copied"
    return f"{one.flow}: {copied}{skipped}"


def _skipped(one: FlowSnapshot) -> str:
    """Return how many records of other flows were skipped; empty if there were none."""
    count = sum(one.skipped_records.values())
    return f", {counted(count, 'record')} of other flows skipped" if count else ""


def incident_line(one: FlowSnapshot) -> str:
    """Return the number of incidents per kind; empty if there was none."""
    kinds: Counter[str] = Counter()
    for (_topic, _partition, kind), count in one.incidents.items():
        kinds[kind] += count
    if not kinds:
        return ""
    listed = ", ".join(f"{kind} {format_count(count)}" for kind, count in sorted(kinds.items()))
    return f"{one.flow}: incidents: {listed}; `sparkmirror ledger` lists those that lost records"


def format_lag(one: FlowSnapshot) -> str:
    """Format the records still to copy; `-` for a flow that copies nothing."""
    if not one.copies:
        return "-"
    return quantities.format_lag(one.lag, one.known_lag)


def flow_line(one: FlowSnapshot) -> str:
    return (
        f"{one.flow}: epoch {one.epoch}, {counted(one.topics, 'topic')}, "
        f"{counted(one.records, 'record')}, {format_record_rate(one.records_per_second)}, "
        f"{format_byte_rate(one.bytes_per_second)}, lag {format_lag(one)}, "
        f"replication latency {format_percentiles(one.replication_latency)}, "
        f"copy latency {format_percentiles(one.copy_latency)}{_skipped(one)}"
    )
