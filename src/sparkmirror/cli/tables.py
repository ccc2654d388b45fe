# SPDX-License-Identifier: Apache-2.0
"""Tables that fit the terminal: aligned columns without a frame.

The cells decide what a column is. Numbers are aligned right and stay whole. Names (no spaces) are
shortened in the middle, because clusters, topics and groups often differ at the end. Sentences are
wrapped; if less than a third of the line is left for the last column, its sentences move to lines
of their own below the row.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from rich.console import Console, ConsoleOptions, RenderResult
from rich.text import Text

from sparkmirror.quantities import shorten_middle

_SPACE = 2  # between columns
_INDENT = 4  # of a sentence below its row
_MIN_NAME = 9  # a shorter name says too little
_NUMBER = re.compile(r"[-+]?[\d,.]+(-[\d,]+)?( ?(([KMGTP]?B|records)(/s)?|ms|s|%))?|-|\?|")


@dataclass(frozen=True, slots=True)
class FittedTable:
    """A table for rich that is laid out for the width at hand, also in a live view.

    `optional` names columns to leave out, the first one first, if the rest does not fit otherwise.
    """

    headings: Sequence[str]
    rows: Sequence[Sequence[Text]]
    title: Text | None = None
    optional: Sequence[str] = ()

    def __rich_console__(self, _console: Console, options: ConsoleOptions) -> RenderResult:
        if self.title is not None:
            yield self.title
        yield from table_lines(self.headings, self.rows, options.max_width, self.optional)


def table_lines(
    headings: Sequence[str],
    rows: Sequence[Sequence[Text]],
    width: int,
    optional: Sequence[str] = (),
) -> list[Text]:
    """Lay out a table in lines of at most `width` characters, unless only numbers are left."""
    columns = [[row[index] for row in rows] for index in range(len(headings))]
    widths = [
        max([len(heading), *(cell.cell_len for cell in cells)])
        for heading, cells in zip(headings, columns, strict=True)
    ]
    is_below = False
    if _total(widths) > width and _are_sentences(columns[-1]):
        natural = widths[-1]
        widths[-1] = min(natural, width // 3)
        _shrink(widths, columns, headings, width)
        is_below = _total(widths) > width
        widths[-1] = min(natural, widths[-1] + width - _total(widths))
    if is_below:
        widths.pop()
    _shrink(widths, columns, headings, width)
    if _total(widths) > width and optional:
        left_out = headings.index(optional[0])
        kept = [at for at in range(len(headings)) if at != left_out]
        return table_lines(
            [headings[at] for at in kept],
            [[row[at] for at in kept] for row in rows],
            width,
            optional[1:],
        )
    lines = []
    if any(headings):
        lines.append(_line([Text(one, style="bold") for one in headings], columns, widths))
    for row in rows:
        lines += _row_lines(row, columns, widths, width, is_below=is_below)
    return lines


def _total(widths: Sequence[int]) -> int:
    return sum(widths) + _SPACE * (len(widths) - 1)


def _are_numbers(cells: Sequence[Text]) -> bool:
    return bool(cells) and all(_NUMBER.fullmatch(cell.plain) for cell in cells)


def _are_sentences(cells: Sequence[Text]) -> bool:
    return any(" " in cell.plain.strip() for cell in cells) and not _are_numbers(cells)


def _shrink(
    widths: list[int], columns: Sequence[Sequence[Text]], headings: Sequence[str], width: int
) -> None:
    """Narrow the widest of the other columns than numbers and final sentences until all fit."""
    least = [max(_MIN_NAME, len(heading)) for heading in headings]
    for at, cells in enumerate(columns):
        if _are_numbers(cells) or (at == len(columns) - 1 and _are_sentences(cells)):
            least[at] = max(widths[at : at + 1], default=0)
    while _total(widths) > width:
        widest = max(range(len(widths)), key=lambda at: (widths[at] > least[at], widths[at]))
        if widths[widest] <= least[widest]:
            return
        widths[widest] -= 1


def _line(cells: Sequence[Text], columns: Sequence[Sequence[Text]], widths: Sequence[int]) -> Text:
    line = Text()
    for at, wanted in enumerate(widths):
        cell = cells[at]
        padding = " " * max(0, wanted - cell.cell_len)
        if _are_numbers(columns[at]):
            line.append_text(Text(padding)).append_text(cell)
        else:
            line.append_text(cell).append_text(Text(padding))
        line.append(" " * _SPACE)
    line.rstrip()
    return line


def _row_lines(
    row: Sequence[Text],
    columns: Sequence[Sequence[Text]],
    widths: Sequence[int],
    width: int,
    *,
    is_below: bool,
) -> list[Text]:
    pieces = [_pieces(cell, wanted) for cell, wanted in zip(row, widths, strict=False)]
    height = max(map(len, pieces), default=1)
    lines = [
        _line([one[at] if at < len(one) else Text() for one in pieces], columns, widths)
        for at in range(height)
    ]
    if is_below and row[-1].plain:
        indent = Text(" " * _INDENT)
        lines += [indent + piece for piece in _pieces(row[-1], width - _INDENT)]
    return lines


def _pieces(cell: Text, width: int) -> list[Text]:
    """Wrap a sentence at its spaces; shorten a name, or a word without room, in the middle."""
    if cell.cell_len <= width:
        return [cell]
    words = cell.plain.split()
    lines = [shorten_middle(words[0], width)] if words else [""]
    for word in words[1:]:
        short = shorten_middle(word, width)
        if len(lines[-1]) + 1 + len(short) <= width:
            lines[-1] += f" {short}"
        else:
            lines.append(short)
    style = cell.style or (cell.spans[0].style if cell.spans else "")
    return [Text(line, style=style) for line in lines]
