# SPDX-License-Identifier: Apache-2.0
"""Printed plans."""

import io

import pytest
from rich.console import Console

from sparkmirror.cli.plan_report import mismatch_line, plain_lines, print_tables, summary_line
from sparkmirror.model import Flow
from sparkmirror.topology.flow_plan import Action, ChangedAction, FlowPlan
from sparkmirror.topology.forecast import Forecast, TopicForecast
from sparkmirror.topology.plan_file import PlanDocument
from sparkmirror.topology.topic_deletions import DeleteTopic
from sparkmirror.topology.topics import CreateTopic, GrowTopic

FLOW = Flow("a", "b")
CREATE = CreateTopic("orders", "a.orders", 6, 3, {})
DELETE = DeleteTopic("gone", "a.gone", "id")
TO_COPY = Forecast(1_234_567, 1_250_000_000, (TopicForecast("orders", 1_234_567, 1_250_000_000),))


def plan(*actions: Action, forecast: Forecast | None = None) -> FlowPlan:
    """A plan of one flow."""
    return FlowPlan(FLOW, "digest", "id-a", "id-b", actions, ("a remark",), forecast)


@pytest.mark.parametrize(
    ("plans", "line"),
    [
        ([plan()], "Nothing to change."),
        ([plan(forecast=Forecast())], "Nothing to change."),
        ([plan(CREATE)], "1 to create; nothing to copy."),
        (
            [plan(CREATE, DELETE, forecast=TO_COPY), plan(CREATE)],
            "2 to create, 1 to delete; 1,234,567 records (1.2 GB) to copy, about 25 s at 50 MB/s.",
        ),
        (
            [plan(forecast=Forecast(5, 10))],
            "Nothing to change. 5 records (10 B) to copy, less than 1 s at 50 MB/s.",
        ),
        (
            [plan(forecast=TO_COPY), plan(forecast=Forecast(1, None))],
            "Nothing to change. 1,234,568 records to copy, of unknown size.",
        ),
    ],
)
def test_the_closing_line_sums_up(plans: list[FlowPlan], line: str) -> None:
    assert summary_line(plans, 50e6) == line


def test_the_closing_line_names_flows_without_a_plan() -> None:
    document = PlanDocument("f", "now", 50e6, (plan(),), ((Flow("c", "b"), "out of reach"),))
    assert list(plain_lines(document))[-1] == "Without c->b: Nothing to change."


def test_lines_have_tabs_and_deletions_come_last() -> None:
    document = PlanDocument("f", "now", 50e6, (plan(DELETE, CREATE, forecast=TO_COPY),))
    assert list(plain_lines(document))[:-1] == [
        "a->b\tcreate\ttopic a.orders on b\t6 partitions, 3 replicas",
        "a->b\tdelete\ttopic a.gone on b\twith all records, because gone was deleted on a",
        "a->b\tnotice\ta remark",
        "a->b\tcopy\torders\t1,234,567 records, 1.2 GB",
    ]


def test_on_a_terminal_what_is_taken_away_stands_apart_in_red() -> None:
    console = Console(file=io.StringIO(), force_terminal=True, color_system="standard", width=120)
    print_tables(PlanDocument("f", "now", 50e6, (plan(CREATE, DELETE),)), console)
    text = console.file.getvalue()  # type: ignore[attr-defined] # a StringIO
    to_do, _, to_remove = text.partition("to remove")
    assert "a.orders" in to_do
    assert "\x1b[31m" not in to_do.removesuffix(to_do[-20:])
    assert "\x1b[31mdelete" in to_remove


def test_a_mismatch_shows_the_planned_and_the_current_action() -> None:
    grow = GrowTopic("o", "a.o", 1, 4)
    assert mismatch_line(FLOW, ChangedAction(grow, None)) == (
        "a->b: grow topic a.o on b: from 1 to 4 partitions; no longer needed"
    )
    assert mismatch_line(FLOW, ChangedAction(grow, GrowTopic("o", "a.o", 2, 4))) == (
        "a->b: grow topic a.o on b: from 1 to 4 partitions; now: from 2 to 4 partitions"
    )
