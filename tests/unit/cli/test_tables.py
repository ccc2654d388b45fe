# SPDX-License-Identifier: Apache-2.0
"""Tables fit the terminal."""

from __future__ import annotations

import io

import pytest
from rich.console import Console
from rich.text import Text

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
