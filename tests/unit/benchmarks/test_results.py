# SPDX-License-Identifier: Apache-2.0
"""What the benchmark makes of its figures: medians, ratios, verdicts, a page."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from benchmarks import report
from benchmarks.crowd import planning_seconds
from benchmarks.data_sets import BOUNDED, DATA_SETS, FAR_AWAY, OVER_TLS
from benchmarks.questions import CROWDS, QUESTIONS, crowd_question
from benchmarks.results import Figure, Results
from benchmarks.targets import CEILING, JAVA, OURS, TARGETS, TUNED, Target, outcomes


@pytest.fixture
def results() -> Results:
    """Three rounds of one question, one of another."""
    found = Results()
    for ours, tuned in ((300_000, 100_000), (100_000, 90_000), (200_000, 80_000)):
        found.add("1 KB lz4", OURS, {Figure.RECORDS: ours, Figure.CPU: 0.5})
        found.add("1 KB lz4", TUNED, {Figure.RECORDS: tuned, Figure.CPU: 5.0})
    found.add("latency at 200 records/s", OURS, {Figure.P50: 3.0})
    found.add("latency at 200 records/s", JAVA, {Figure.P50: 4.0})
    return found


def test_ratios_are_of_medians(results: Results) -> None:
    """One lucky round decides nothing."""
    assert results.median("1 KB lz4", OURS, Figure.RECORDS) == 200_000
    assert results.ratio("1 KB lz4", OURS, TUNED, Figure.RECORDS) == pytest.approx(2.222, abs=0.001)
    assert results.ratio("1 KB lz4", OURS, CEILING, Figure.RECORDS) is None


def test_targets_are_reached_or_not(results: Results) -> None:
    """More is better for rates, less for costs and times; what was not measured is no verdict."""
    verdicts = {one.text: one.is_reached for one in outcomes(results)}
    assert verdicts == {
        "1 KB lz4: records/s >= 1.8 x MM2, tuned": True,
        "1 KB lz4: CPU-s per million records <= 0.125 x MM2, tuned": True,
        "latency at 200 records/s: p50 ms <= 0.5 x MM2, defaults": False,
    }


@pytest.mark.parametrize("target", TARGETS)
def test_every_target_names_a_question_that_exists(target: Target) -> None:
    """Else it would never be checked."""
    asked = {one.name for one in (*DATA_SETS, FAR_AWAY, OVER_TLS, BOUNDED)}
    asked |= {"latency at 200 records/s", *(crowd_question(n) for n in CROWDS)}
    assert target.question in asked


def test_a_page_has_every_figure_and_a_picture(results: Results, tmp_path: Path) -> None:
    """And everything as JSON."""
    results.notes.append("something was left out")
    page = report.write(tmp_path, "2026-11-16-abc", {"commit": "abc"}, results)

    text = page.read_text(encoding="utf-8")
    assert "| sparkmirror | 200,000 (100,000 to 300,000) | 0.50 (0.50 to 0.50) |" in text
    assert "- something was left out" in text
    assert "**no**" in text
    assert (tmp_path / "2026-11-16-abc-1-kb-lz4.png").read_bytes().startswith(b"\x89PNG")
    assert (tmp_path / "2026-11-16-abc-latency-at-200-records-s.png").exists()
    stored = json.loads((tmp_path / "2026-11-16-abc.json").read_text(encoding="utf-8"))
    assert stored["1 KB lz4"]["MM2, tuned"]["records/s"] == [100_000, 90_000, 80_000]


def test_growing_numbers_are_a_picture_of_their_own(results: Results, tmp_path: Path) -> None:
    """From two numbers on; figures that only one contender has are its line alone."""
    picture = tmp_path / "x-partitions.png"
    report.write(tmp_path, "x", {}, results)
    assert not picture.exists()
    for number in (100, 5_000):
        results.add(crowd_question(number), OURS, {Figure.IDLE: 1, Figure.PLANNING: number / 20})
        results.add(crowd_question(number), TUNED, {Figure.IDLE: 2})
    page = report.write(tmp_path, "x", {}, results)
    assert picture.read_bytes().startswith(b"\x89PNG")
    assert f"({picture.name})" in page.read_text(encoding="utf-8")


def test_no_two_questions_share_a_name_in_the_results() -> None:
    """Their rows would be mixed."""
    names = [one.name for one in DATA_SETS] + [crowd_question(n) for n in CROWDS]
    assert len(set(names)) == len(names)
    assert len({one.name for one in QUESTIONS}) == len(QUESTIONS)


def test_planning_grows_with_the_partitions() -> None:
    """And is measured at all."""
    assert 0 < planning_seconds(100) < planning_seconds(5_000) < 5
