# SPDX-License-Identifier: Apache-2.0
"""Writes results as a page with plots, and prints tables."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path

from rich.console import Console
from rich.table import Table

from benchmarks.plots import plot_question, plot_scale
from benchmarks.questions import CROWDS, crowd_question
from benchmarks.results import Results
from benchmarks.targets import outcomes


def write(folder: Path, name: str, facts: Mapping[str, str], results: Results) -> Path:
    """Write `NAME.md`, `NAME.json` and one plot per question."""
    folder.mkdir(parents=True, exist_ok=True)
    results.save(folder / f"{name}.json")
    lines = [f"# Benchmark {name}", ""]
    lines += _table([["", ""], *([key, value] for key, value in facts.items())])
    lines += ["", "Medians of the rounds; lowest and highest in brackets.", ""]
    found = list(outcomes(results))
    if found:
        lines += ["## What was to be reached", ""]
        rows = [["ratio of the medians", "measured", "reached"]]
        rows += [
            [one.text, f"{one.ratio:.3g}", "yes" if one.is_reached else "**no**"] for one in found
        ]
        lines += [*_table(rows), ""]
    for note in results.notes:
        lines += [f"- {note}"]
    lines += ["", "## What was measured", ""]
    for question in results.questions():
        picture = f"{name}-{_slug(question)}.png"
        plot_question(results, question, folder / picture)
        lines += [f"### {question}", "", *_table(results.rows(question)), ""]
        lines += [f"![{question}]({picture})", ""]
    scale = f"{name}-partitions.png"
    if plot_scale(results, {n: crowd_question(n) for n in CROWDS}, "partitions", folder / scale):
        lines += ["### Growing numbers of idle partitions", "", f"![partitions]({scale})", ""]
    page = folder / f"{name}.md"
    page.write_text("\n".join(lines), encoding="utf-8")
    return page


def show(console: Console, results: Results) -> None:
    """Print the tables."""
    for question in results.questions():
        heading, *rows = results.rows(question)
        table = Table(*heading)
        for row in rows:
            table.add_row(*row)
        console.print(table)
    found = list(outcomes(results))
    if found:
        table = Table("ratio of the medians", "measured", "reached")
        for one in found:
            mark = "[green]yes[/]" if one.is_reached else "[red]no[/]"
            table.add_row(one.text, f"{one.ratio:.3g}", mark)
        console.print(table)


def _slug(question: str) -> str:
    return "".join(c if c.isalnum() else "-" for c in question).strip("-").lower()


def _table(rows: Iterable[list[str]]) -> list[str]:
    heading, *rest = rows
    lines = ["| " + " | ".join(heading) + " |", "|" + "---|" * len(heading)]
    return lines + ["| " + " | ".join(row) + " |" for row in rest]
