# SPDX-License-Identifier: Apache-2.0
"""Tables that fit the terminal: aligned columns without a frame.

The cells decide what a column is. Numbers and times stay whole; numbers are aligned right. Names
(no spaces) are shortened in the middle, because clusters, topics and groups often differ at the
end. Sentences are wrapped; if less than a third of the line is left for the last column, its
sentences move to lines of their own below the row.

If names would become very short, or two names would look the same, a column with one value moves
above the table, and optional columns are left out. If that does not suffice, names are folded.
"""

from __future__ import annotations

import re
import textwrap
from collections.abc import Sequence
from dataclasses import dataclass

from rich.console import Console, ConsoleOptions, RenderResult
from rich.text import Text

from sparkmirror.quantities import shorten_middle

_SPACE = 2  # between columns
_INDENT = 4  # of a sentence below its row
_READABLE_NAME = 16  # first shorten names to this length
_MIN_NAME = 9  # then to this one: a shorter name says too little
_TIME = re.compile(r"\d{4}-\d\d-\d\dT[\d:.]+(Z|[-+]\d\d:\d\d)")
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
    for shortest in (_READABLE_NAME, _MIN_NAME):
        for moves in (False, _are_sentences(columns[-1])):
            widths, is_below = _widths(headings, columns, width, shortest, is_below=moves)
            folded = [_merge(cells, wanted) for cells, wanted in zip(columns, widths, strict=False)]
            if is_below or not any(folded):
                break
        if _total(widths) <= width and not any(folded):
            break
        same = _column_with_one_value(headings, columns)
        if same is not None:
            title = Text(shorten_middle(f"{headings[same]}: {columns[same][0].plain}", width))
            return [title, *table_lines(*_without(same, headings, rows), width, optional)]
        if optional:
            shown = _without(headings.index(optional[0]), headings, rows)
            return table_lines(*shown, width, optional[1:])
    lines = []
    if any(headings):
        lines.append(_line([Text(one, style="bold") for one in headings], columns, widths))
    for row in rows:
        lines += _row_lines(row, columns, widths, folded, below=width if is_below else 0)
    return lines


def _widths(
    headings: Sequence[str],
    columns: Sequence[Sequence[Text]],
    width: int,
    shortest: int,
    *,
    is_below: bool,
) -> tuple[list[int], bool]:
    """Return the columns' widths, and whether the last column moves below the rows.

    `is_below` moves it also if there is room beside the shortened names.
    """
    widths = [
        max([len(heading), *(cell.cell_len for cell in cells)])
        for heading, cells in zip(headings, columns, strict=True)
    ]
    least = [max(shortest, len(heading)) for heading in headings]
    if not is_below and _total(widths) > width and _are_sentences(columns[-1]):
        natural = widths[-1]
        widths[-1] = min(natural, width // 3)
        _shrink(widths, columns, least, width)
        is_below = _total(widths) > width
        widths[-1] = min(natural, widths[-1] + width - _total(widths))
    if is_below:
        widths.pop()
    _shrink(widths, columns, least, width)
    return widths, is_below


def _column_with_one_value(
    headings: Sequence[str], columns: Sequence[Sequence[Text]]
) -> int | None:
    """Return the first column with a heading whose long name is the same in all of several rows."""
    for at in (at for at, heading in enumerate(headings) if heading):
        cells = columns[at]
        values = {cell.plain for cell in cells}
        is_name = len(cells) > 1 and not _are_numbers(cells) and not _are_sentences(cells)
        if is_name and len(values) == 1 and len(cells[0].plain) > _MIN_NAME:
            return at
    return None


def _without(
    column: int, headings: Sequence[str], rows: Sequence[Sequence[Text]]
) -> tuple[list[str], list[list[Text]]]:
    kept = [at for at in range(len(headings)) if at != column]
    return [headings[at] for at in kept], [[row[at] for at in kept] for row in rows]


def _total(widths: Sequence[int]) -> int:
    return sum(widths) + _SPACE * (len(widths) - 1)


def _are_numbers(cells: Sequence[Text]) -> bool:
    return bool(cells) and all(_NUMBER.fullmatch(cell.plain) for cell in cells)


def _are_times(cells: Sequence[Text]) -> bool:
    return bool(cells) and all(_TIME.fullmatch(cell.plain) for cell in cells)


def _are_sentences(cells: Sequence[Text]) -> bool:
    return any(" " in cell.plain.strip() for cell in cells) and not _are_numbers(cells)


def _shrink(
    widths: list[int], columns: Sequence[Sequence[Text]], least: list[int], width: int
) -> None:
    """Narrow the widest of the other columns than numbers and final sentences until all fit."""
    for at, cells in enumerate(columns):
        if (
            _are_numbers(cells)
            or _are_times(cells)
            or (at == len(columns) - 1 and _are_sentences(cells))
        ):
            least[at] = max(widths[at : at + 1], default=0)
    while _total(widths) > width:
        widest = max(range(len(widths)), key=lambda at: (widths[at] > least[at], widths[at]))
        if widths[widest] <= least[widest]:
            return
        widths[widest] -= 1


def _merge(cells: Sequence[Text], width: int) -> bool:
    """Whether different names of a column look the same in this width."""
    names = {cell.plain for cell in cells if " " not in cell.plain}
    return len({shorten_middle(name, width) for name in names}) < len(names)


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
    folded: Sequence[bool],
    *,
    below: int,
) -> list[Text]:
    """Lay out a row; `below` is the width of a last cell that has lines of its own, or 0."""
    pieces = [
        _pieces(cell, wanted, folds=folds)
        for cell, wanted, folds in zip(row, widths, folded, strict=False)
    ]
    height = max(map(len, pieces), default=1)
    lines = [
        _line([one[at] if at < len(one) else Text() for one in pieces], columns, widths)
        for at in range(height)
    ]
    if below and row[-1].plain:
        indent = Text(" " * _INDENT)
        lines += [indent + piece for piece in _pieces(row[-1], below - _INDENT)]
    return lines


def _pieces(cell: Text, width: int, *, folds: bool = False) -> list[Text]:
    """Wrap a sentence at its spaces; shorten or fold a name, or a word without room."""
    if cell.cell_len <= width:
        return [cell]
    lines = [""]
    for word in cell.plain.split():
        parts = textwrap.wrap(word, width) if folds else [shorten_middle(word, width)]
        for part in parts:
            if lines[-1] and len(lines[-1]) + 1 + len(part) <= width and part is parts[0]:
                lines[-1] += f" {part}"
            elif lines[-1]:
                lines.append(part)
            else:
                lines[-1] = part
    style = cell.style or (cell.spans[0].style if cell.spans else "")
    return [Text(line, style=style) for line in lines]
