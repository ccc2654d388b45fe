# SPDX-License-Identifier: Apache-2.0
"""What a run shows, on a terminal and in a log file."""

from __future__ import annotations

import io
import logging
from dataclasses import replace

import pytest
from rich.console import Console

from sparkmirror.cli.run_view import (
    LineView,
    LiveView,
    choose_view,
    flow_line,
    flow_table,
    format_lag,
    total_line,
)
from sparkmirror.model import TopicPartition
from sparkmirror.spark.flow_status import FlowSnapshot, FlowState
from sparkmirror.spark.latency_window import LatencyPercentiles
from support.manual_clock import ManualClock

FLOW = FlowSnapshot(
    flow="a->b",
    state=FlowState.RUNNING,
    reason="",
    topics=2,
    partitions=5,
    epoch=1,
    records=1_234_567,
    bytes=2_500_000,
    records_per_second=1500.4,
    bytes_per_second=2_500_000,
    lag=42,
    remaining=None,
    bounded_total=None,
    replication_latency=LatencyPercentiles(64.0, 5_400_000.0),
    copy_latency=LatencyPercentiles(2.14, 12.0),
    held_bytes=0,
    task_cpu_seconds={},
    notice_count=0,
    problems=(),
    retriable_only=True,
)


def terminal() -> Console:
    """A terminal that remembers what was drawn."""
    return Console(file=io.StringIO(), force_terminal=True, width=140, color_system=None)


def drawn(console: Console) -> str:
    """What the terminal was sent."""
    assert isinstance(console.file, io.StringIO)
    return console.file.getvalue()


def test_the_table_has_every_figure_of_a_flow() -> None:
    """Name, state, topics, partitions, records, rates, lag, latency."""
    console = terminal()
    console.print(flow_table([FLOW]))
    line = " ".join(drawn(console).splitlines()[1].split())
    assert line == ("a->b RUNNING 2 5 1,234,567 1,500 2.5 MB 42 64 ms 1 h 30 min 2.1 ms 12 ms")


def test_the_line_of_a_flow_reads_as_a_sentence() -> None:
    """The same figures in a log."""
    assert flow_line(FLOW) == (
        "a->b: epoch 1, 2 topics, 1,234,567 records, 1,500 records/s, 2.5 MB/s, lag 42, "
        "replication latency p50 64 ms p99 1 h 30 min, copy latency p50 2.1 ms p99 12 ms"
    )


def test_skipped_records_are_shown_if_there_are_any() -> None:
    skipping = replace(FLOW, skipped_records={TopicPartition("t", n): 600 for n in range(2)})
    for line in (flow_line(skipping), total_line(skipping)):
        assert line.endswith(", 1,200 records of other flows skipped")
    only = replace(skipping, records=0, bytes=0)
    assert total_line(only) == "a->b: 0 records, 0 B copied, 1,200 records of other flows skipped"


def test_what_is_not_known_is_not_made_up() -> None:
    """No lag and no latency before the first answer."""
    unknown = replace(FLOW, lag=None, replication_latency=None, copy_latency=None)
    assert flow_line(unknown).endswith("lag unknown, replication latency -, copy latency -")


def test_a_lag_that_is_known_in_part_is_a_lower_bound() -> None:
    """Nothing is shown for a flow that only emits heartbeats."""
    part = replace(FLOW, lag=None, known_lag=2050, unknown_lags=1)
    assert format_lag(part) == ">=2,050"
    assert format_lag(replace(part, known_lag=0)) == "unknown"
    assert format_lag(replace(FLOW, lag=None, copies=False)) == "-"


def test_a_bounded_run_has_a_bar_with_what_is_done() -> None:
    """Done by position: wanted less remaining."""
    console = terminal()
    with LiveView(console, LineView(), once=True) as view:
        view.update([replace(FLOW, bounded_total=200, remaining=50)])
    assert "150/200" in drawn(console)


def test_problems_are_shown_below_the_table() -> None:
    """With the flow they belong to; beyond a screenful only their number."""
    console = terminal()
    many = tuple(f"trouble {number}" for number in range(10))
    with LiveView(console, LineView(), once=False) as view:
        view.update([replace(FLOW, problems=many)])
    assert "a->b: trouble 7" in drawn(console)
    assert "trouble 8" not in drawn(console)
    assert "... and 2 more" in drawn(console)


def test_incidents_are_shown_by_kind(caplog: pytest.LogCaptureFixture) -> None:
    """On the screen, and at the end of a log, with the command that prints the details."""
    marked = replace(
        FLOW, incidents={("t", 0, "gap"): 2, ("t", 1, "gap"): 1, ("u", 0, "no-read"): 1}
    )
    expected = "a->b: incidents: gap 3, no-read 1; `sparkmirror ledger` lists"
    console = terminal()
    with LiveView(console, LineView(), once=False) as view:
        view.update([marked])
    assert expected in drawn(console)
    with caplog.at_level(logging.INFO, logger="sparkmirror.run"):
        LineView().print_summary([marked, FLOW])
    assert sum(expected in record.message for record in caplog.records) == 1


def test_a_log_gets_a_line_when_something_changed_only(caplog: pytest.LogCaptureFixture) -> None:
    """States and troubles once, and a word when the troubles are over."""
    view = LineView()
    waiting = replace(FLOW, state=FlowState.RETRYING, reason="nobody answers")
    with caplog.at_level(logging.INFO, logger="sparkmirror.run"):
        for snapshot in (waiting, waiting, replace(FLOW, problems=("x",)), FLOW, FLOW):
            view.update([snapshot])
    assert [(record.levelname, record.message) for record in caplog.records] == [
        ("WARNING", "a->b: RETRYING nobody answers"),
        ("INFO", "a->b: RUNNING"),
        ("WARNING", "a->b: x"),
        ("INFO", "a->b: all problems are resolved"),
    ]


def test_a_problem_is_logged_once_while_only_its_figures_change(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """Partitions are distinguished; a comparison's progress is in the status."""
    view = LineView()
    with caplog.at_level(logging.INFO, "sparkmirror.run"):
        for offset in (100, 2_000):
            text = f"COMPARING: read up to offset {offset} of 5000"
            troubles = tuple(f"hub: us.logs-{index}: {text}" for index in range(2))
            view.update([replace(FLOW, problems=troubles)])
    lines = [record.message for record in caplog.records if "COMPARING" in record.message]
    assert [line.split(":")[2].strip() for line in lines] == ["us.logs-0", "us.logs-1"]


def test_progress_is_logged_after_ten_seconds_and_then_once_per_interval(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The interval may change while the view runs; without new records there is no line."""
    clock = ManualClock(monkeypatch, "sparkmirror.cli.run_view")
    seconds = [60.0]
    view = LineView(lambda: seconds[0])
    lines: list[int] = []
    with caplog.at_level(logging.INFO, "sparkmirror.run"):
        for second in range(1, 201):
            clock.advance(1)
            if second == 150:
                seconds[0] = 20.0
            view.update([replace(FLOW, records=min(second, 185))])
            if any("records/s" in record.getMessage() for record in caplog.records):
                lines.append(second)
            caplog.clear()
    assert lines == [10, 70, 130, 150, 170, 190]


def test_only_a_terminal_gets_the_live_view() -> None:
    """Files and pipes get lines."""
    assert isinstance(choose_view(terminal()), LiveView)
    assert isinstance(choose_view(Console(file=io.StringIO())), LineView)


def test_a_refused_file_stays_in_view() -> None:
    """On a terminal; a log has its lines already."""
    console = terminal()
    view = LiveView(console, LineView(), once=False)
    with view:
        view.update(
            [FLOW], ["mm2.properties was rejected; the previous configuration stays in use."]
        )
    assert "the previous configuration stays in use" in drawn(console)


def test_a_flow_that_returns_is_reported_again(caplog: pytest.LogCaptureFixture) -> None:
    """A log has its state although it is the one that it had before it left."""
    view = LineView()
    with caplog.at_level(logging.INFO, "sparkmirror.run"):
        for flows in ([FLOW], [FLOW], [], [FLOW]):
            view.update(flows)
    assert [r.getMessage() for r in caplog.records] == ["a->b: RUNNING"] * 2
