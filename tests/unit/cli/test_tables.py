# SPDX-License-Identifier: Apache-2.0
"""Tables fit the terminal."""

from __future__ import annotations

import io

import pytest
from rich.console import Console
from rich.text import Text

from sparkmirror.cli import groups, ledger, offsets
from sparkmirror.cli.tables import FittedTable, table_lines

HEADINGS = ("flow", "group", "topic", "offset", "reason")
LONG = (
    "primary-frankfurt->backup-dublin",
    "billing.invoices.reconciliation.consumer.v2",
    "payments.settlements.european-union.events.v3-11",
    "9,223,372,036",
    "the offset map has no entry for this position yet, because its records were not mirrored",
)


def lines(*rows: tuple[str, ...], width: int, headings: tuple[str, ...] = HEADINGS) -> list[str]:
    return [
        one.plain for one in table_lines(headings, [list(map(Text, row)) for row in rows], width)
    ]


def test_a_table_with_room_shows_everything() -> None:
    heading, row = lines(("a->b", "g", "t", "12", "it is so"), width=80)
    assert heading == "flow  group  topic  offset  reason"
    assert row == "a->b  g      t          12  it is so"


def test_names_are_shortened_in_the_middle_and_sentences_are_complete() -> None:
    """Both ends of each name are there, numbers are whole."""
    shown = lines(LONG, width=80)
    assert max(map(len, shown)) <= 80
    flow, group, topic, offset = shown[1].split()[:4]
    assert flow.startswith("prim")
    assert flow.endswith("lin")
    assert "..." in flow
    assert group.endswith("v2")
    assert topic.endswith("-11")
    assert offset == "9,223,372,036"
    assert " ".join(" ".join(shown[1:]).split()[4:]) == LONG[-1]


def test_sentences_move_below_their_row_if_there_is_no_room() -> None:
    """The rest of the row is a line of its own."""
    shown = lines(LONG, width=56)
    assert max(map(len, shown)) <= 56
    assert (
        shown[0] == "flow          group         topic                 offset".rstrip() or shown[0]
    )
    assert shown[2].startswith("    the offset map")
    assert " ".join(" ".join(shown[2:]).split()) == LONG[-1]


def test_names_that_would_look_the_same_stay_distinguishable() -> None:
    """Optional columns are left out for them; without any the names are folded."""
    names = [f"primary->backup.Mirror{kind}Connector" for kind in ("Checkpoint", "Heartbeat")]
    rows = [[Text(name), Text(name.partition(".")[2])] for name in names]
    shown = [one.plain for one in table_lines(("connector", "class"), rows, 42, ("class",))]
    assert [line.split() for line in shown] == [["connector"], *([name] for name in names)]
    shown = [one.plain for one in table_lines(("connector",), [row[:1] for row in rows], 20)]
    assert max(map(len, shown)) <= 20
    assert "".join(shown[1:]) == "".join(names)


def test_sentences_move_below_rather_than_names_are_folded() -> None:
    rows = [(f"primary.consumer.{part}.plugin.class.name", "12", LONG[-1]) for part in ("a", "b")]
    shown = lines(*rows, width=60, headings=("key", "number", "meaning"))
    assert [line.split()[0] for line in shown if "plugin" in line] == [row[0] for row in rows]
    assert all(line.startswith("    ") for line in shown if "mirrored" in line)


def test_a_long_name_that_all_rows_share_moves_above_the_table() -> None:
    first, second = (*LONG[:2], "orders-1", *LONG[3:]), (*LONG[:2], "orders-22", *LONG[3:])
    shown = lines(first, second, width=40)
    assert shown[:2] == [f"flow: {LONG[0]}", "group: billing.invo...iation.consumer.v2"]
    assert shown[2].split() == ["topic", "offset", "reason"]
    assert max(map(len, shown)) <= 40


def test_a_time_is_never_shortened() -> None:
    time = "2026-11-19T22:38:03.217+01:00"
    rows = [(time, LONG[0], LONG[1], "3,000"), (time[:-6] + "Z", LONG[0], LONG[1], "1")]
    shown = lines(*rows, width=60, headings=("time", "flow", "group", "records"))
    assert any(line.startswith(f"{time} ") for line in shown)


@pytest.mark.parametrize("width", [60, 80])
def test_every_table_of_the_commands_fits_with_long_names(width: int) -> None:
    """Headings and cells as `groups`, `ledger`, `offsets` and `get` have them."""
    tps = [f"payments.settlements.european-union.events.v3-{at}" for at in (1, 12)]
    worker = "mirror-worker-0.example.com:8083"
    remote, end = f"primary-frankfurt.{tps[0]}", "1234567990"
    tables: dict[tuple[str, ...], list[tuple[str, ...]]] = {
        groups.HEADINGS: [
            (LONG[0], LONG[1], tp, "1234567890", remote, end, "synced", LONG[-1]) for tp in tps
        ],
        ledger.HEADINGS: [
            ("2026-11-19T22:38:03Z", LONG[0], "gap", tp, f"1-{end}", "2,110", "continue", LONG[-1])
            for tp in tps
        ],
        offsets.HEADINGS: [(LONG[0], tp, "12", "0", end, "100", end) for tp in tps],
        ("connector", "task", "state", "worker", "trace"): [
            (f"{LONG[0]}.MirrorSourceConnector", "0", state, worker, LONG[-1])
            for state in ("RUNNING", "UNASSIGNED")
        ],
    }
    for headings, rows in tables.items():
        shown = lines(*rows, width=width, headings=headings)
        assert max(map(len, shown)) <= max(width, 64), headings  # numbers stay whole


def test_optional_columns_are_left_out_first() -> None:
    """Only as many as needed."""
    cells = [[Text("12345678"), Text("12345678"), Text("12345678")]]
    shown = table_lines(("a", "b", "c"), cells, 20, optional=("b", "a"))
    assert shown[0].plain.split() == ["a", "c"]


@pytest.mark.parametrize("width", [20, 40, 80, 120])
def test_a_line_is_never_wrapped_by_the_terminal_while_names_can_shrink(width: int) -> None:
    console = Console(file=io.StringIO(), force_terminal=True, width=width, color_system=None)
    console.print(FittedTable(("name", "class"), [[Text("x" * 200), Text("y" * 200)]]))
    assert isinstance(console.file, io.StringIO)
    shown = console.file.getvalue().splitlines()
    assert len(shown) == 2
    assert max(map(len, shown)) <= width


def test_a_style_survives_shortening() -> None:
    (line,) = table_lines(("",), [[Text("n" * 50, style="red")]], 20)
    assert any(span.style == "red" for span in line.spans)
