# SPDX-License-Identifier: Apache-2.0
"""One plot per question: a bar per contender, a dot per round."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import matplotlib as mpl

mpl.use("Agg")

from matplotlib import pyplot as plt

from benchmarks.results import Results
from benchmarks.targets import CEILING, OURS

_COLOURS = {OURS: "#d9480f", CEILING: "#f4b183"}
_OTHER = "#5b7083"
_WIDTH, _HEIGHT, _ROW = 3.4, 1.3, 0.42


def plot_scale(results: Results, questions: Mapping[int, str], axis: str, file: Path) -> bool:
    """Plot figures over a growing number: one panel per figure, one line per contender.

    Returns False if there are too few values.
    """
    there = {n: one for n, one in questions.items() if one in results.questions()}
    if len(there) < 2:  # noqa: PLR2004 - one point is no line
        return False
    figures = results.figures(next(iter(there.values())))
    picture, panels = plt.subplots(
        1, len(figures), figsize=(_WIDTH * len(figures), 3.2), squeeze=False
    )
    for panel, figure in zip(panels[0], figures, strict=True):
        for contender in results.contenders(next(iter(there.values()))):
            middles = {n: results.median(one, contender, figure) for n, one in there.items()}
            points = {n: middle for n, middle in middles.items() if middle is not None}
            colour = _COLOURS.get(contender, _OTHER)
            panel.plot([*points], [*points.values()], "o-", color=colour, label=contender)
        panel.set_xscale("log")
        panel.set_ylim(bottom=0)
        panel.set_xticks([*there], [f"{n:,}" for n in there], fontsize=8)
        panel.minorticks_off()
        panel.tick_params(axis="y", labelsize=7)
        panel.set_title(figure.title, fontsize=9)
        panel.set_xlabel(axis, fontsize=8)
        panel.spines[["top", "right"]].set_visible(False)
    panels[0][0].legend(fontsize=8, frameon=False)
    picture.tight_layout()
    picture.savefig(file, dpi=110)
    plt.close(picture)
    return True


def plot_question(results: Results, question: str, file: Path) -> None:
    """Plot one panel per figure."""
    figures, contenders = results.figures(question), results.contenders(question)
    height = _HEIGHT + _ROW * len(contenders)
    picture, panels = plt.subplots(
        1, len(figures), figsize=(_WIDTH * len(figures), height), sharey=True, squeeze=False
    )
    for panel, figure in zip(panels[0], figures, strict=True):
        for place, contender in enumerate(contenders):
            middle = results.median(question, contender, figure)
            if middle is None:
                continue
            colour = _COLOURS.get(contender, _COLOURS[OURS] if OURS in contender else _OTHER)
            panel.barh(place, middle, color=colour, height=0.6)
            values = results.values(question, contender, figure)
            panel.plot(values, [place] * len(values), "k.", markersize=4)
            panel.annotate(
                f" {figure.text(middle)}", (max([middle, *values]), place), va="center", fontsize=8
            )
        panel.set_title(figure.title, fontsize=9)
        panel.set_yticks(range(len(contenders)), contenders, fontsize=9)
        panel.tick_params(axis="x", labelsize=7)
        panel.margins(x=0.25)
        panel.spines[["top", "right"]].set_visible(False)
    panels[0][0].invert_yaxis()
    picture.suptitle(question, fontsize=11)
    picture.tight_layout()
    picture.savefig(file, dpi=110)
    plt.close(picture)
