# SPDX-License-Identifier: Apache-2.0
"""Formats plans: tables on a terminal, lines elsewhere. Destructive actions come last."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rich.markup import escape
from rich.table import Table

from sparkmirror.topology.action_text import describe_action, summarize_actions
from sparkmirror.topology.flow_plan import is_destructive
from sparkmirror.topology.forecast import format_bytes, format_duration, sum_known

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
            console.print(
                f"{plan.flow}: {sentence}",
                style="yellow",
                markup=False,
                highlight=False,
                soft_wrap=True,
            )
        if plan.forecast is not None and plan.forecast.biggest:
            table = _table(f"{plan.flow}: most to copy")
            for one in plan.forecast.biggest:
                table.add_row(escape(one.topic), _format_amount(one))
            console.print(table)
    console.print(
        _summary(document),
        style="bold",
        markup=False,
        highlight=False,
        soft_wrap=True,
    )


def print_actions(flow: Flow, actions: Sequence[Action], console: Console) -> None:
    """Print a table of additions and changes, and a red one of destructive actions."""
    for destructive, title, style in ((False, "to do", ""), (True, "to remove", "red")):
        chosen = [action for action in actions if is_destructive(action) is destructive]
        if not chosen:
            continue
        table = _table(f"{flow}: {title}", style=f"bold {style}".strip())
        for action in chosen:
            table.add_row(*map(escape, describe_action(action, flow)), style=style)
        console.print(table)


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
        to_copy = f"{records:,} records to copy, of unknown size"
    else:
        duration = format_duration(size / rate)
        about = "" if duration.startswith("less") else "about "
        to_copy = (
            f"{records:,} records ({format_bytes(size)}) to copy, {about}{duration} at "
            f"{format_bytes(rate)}/s"
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
    return f"{one.records:,} records, {size}"


def _table(title: str, style: str = "bold") -> Table:
    return Table(
        box=None,
        pad_edge=False,
        show_header=False,
        title=escape(title),
        title_justify="left",
        title_style=style,
    )
