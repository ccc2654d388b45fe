# SPDX-License-Identifier: Apache-2.0
"""Formats plans: tables on a terminal, lines elsewhere. Destructive actions come last."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rich.text import Text

from sparkmirror.cli.console import print_wrapped
from sparkmirror.cli.tables import FittedTable
from sparkmirror.quantities import counted, format_byte_rate, format_bytes, format_duration
from sparkmirror.topology.action_text import describe_action, summarize_actions
from sparkmirror.topology.flow_plan import is_destructive
from sparkmirror.topology.forecast import sum_known

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from rich.console import Console

    from sparkmirror.model import Flow
    from sparkmirror.topology.flow_plan import Action, ChangedAction, FlowPlan
    from sparkmirror.topology.forecast import TopicForecast
    from sparkmirror.topology.plan_file import PlanDocument


def plain_lines(document: PlanDocument) -> Iterator[str]:
    """Yield one tab-separated line per action, notice and large topic; then the summary."""
    for plan in document.flows:
        yield from ("\t".join((str(plan.flow), *row)) for row in _rows(plan))
        yield from (f"{plan.flow}\tnotice\t{sentence}" for sentence in plan.notices)
        biggest = plan.forecast.biggest if plan.forecast is not None else ()
        yield from (f"{plan.flow}\tcopy\t{one.topic}\t{_format_amount(one)}" for one in biggest)
    yield _summary(document)


def print_tables(document: PlanDocument, console: Console) -> None:
    for plan in document.flows:
        print_actions(plan.flow, plan.actions, console)
        for sentence in plan.notices:
            print_wrapped(console, f"{plan.flow}: {sentence}", style="yellow")
        if plan.forecast is not None and plan.forecast.biggest:
            _print_table(
                console,
                f"{plan.flow}: most to copy",
                [(one.topic, _format_amount(one)) for one in plan.forecast.biggest],
            )
    print_wrapped(console, _summary(document), style="bold")


def print_actions(flow: Flow, actions: Sequence[Action], console: Console) -> None:
    """Print a table of additions and changes, and a red one of destructive actions."""
    for destructive, title, style in ((False, "to do", ""), (True, "to remove", "red")):
        chosen = [action for action in actions if is_destructive(action) is destructive]
        if not chosen:
            continue
        rows = [describe_action(action, flow) for action in chosen]
        _print_table(console, f"{flow}: {title}", rows, style)


def mismatch_line(flow: Flow, changed: ChangedAction) -> str:
    """Explain why a planned action is outdated."""
    planned = describe_action(changed.action, flow)
    if changed.replacement is None:
        return f"{flow}: {planned}; no longer needed"
    return f"{flow}: {planned}; now: {describe_action(changed.replacement, flow).details}"


def summary_line(plans: Sequence[FlowPlan], rate: float) -> str:
    """Summarize all flows in one sentence."""
    actions = [action for plan in plans for action in plan.actions]
    forecasts = [plan.forecast for plan in plans if plan.forecast is not None]
    records, size = sum(f.records for f in forecasts), sum_known(f.bytes for f in forecasts)
    if not records:
        return (
            f"{summarize_actions(actions)}; nothing to copy." if actions else "Nothing to change."
        )
    if size is None:
        to_copy = f"{counted(records, 'record')} to copy, of unknown size"
    else:
        duration = format_duration(size / rate)
        about = "" if duration.startswith("less") else "about "
        to_copy = (
            f"{counted(records, 'record')} ({format_bytes(size)}) to copy, {about}{duration} at "
            f"{format_byte_rate(rate)}"
        )
    if not actions:
        return f"Nothing to change. {to_copy}."
    return f"{summarize_actions(actions)}; {to_copy}."


def _summary(document: PlanDocument) -> str:
    line = summary_line(document.flows, document.rate)
    without = ", ".join(str(flow) for flow, _ in document.unread)
    return f"Without {without}: {line}" if without else line


def _rows(plan: FlowPlan) -> Iterator[tuple[str, str, str]]:
    for destructive in (False, True):
        for action in plan.actions:
            if is_destructive(action) is destructive:
                yield describe_action(action, plan.flow)


def _format_amount(one: TopicForecast) -> str:
    size = "unknown size" if one.bytes is None else format_bytes(one.bytes)
    return f"{counted(one.records, 'record')}, {size}"


def _print_table(
    console: Console, title: str, rows: Sequence[Sequence[str]], style: str = ""
) -> None:
    cells = [[Text(cell, style=style) for cell in row] for row in rows]
    title_line = Text(title, style=f"bold {style}".strip())
    console.print(FittedTable([""] * len(rows[0]), cells, title_line))
