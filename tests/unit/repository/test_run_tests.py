# SPDX-License-Identifier: Apache-2.0
"""What `make test` prints at its end: a table, the failed tests, and what to do about them."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from types import ModuleType

import pytest

TOOL = Path(__file__).parents[3] / "tools" / "run_tests.py"
RESULTS = """<testsuites><testsuite>
<testcase classname="tests.unit.repository.test_run_tests" name="test_a" time="1.0"/>
<testcase classname="tests.unit.repository.test_run_tests.TestGroup" name="test_b[x-1]" time="2.0">
  <failure message="AssertionError: assert 1 == 2&#10; more">trace</failure></testcase>
<testcase classname="tests.unit.repository.test_run_tests" name="test_c" time="0.1">
  <skipped message="not here"/></testcase>
<testcase classname="tests.unit.repository.test_run_tests" name="test_d" time="0.1">
  <error message="failed on setup">trace</error></testcase>
</testsuite></testsuites>"""


@pytest.fixture
def tool(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """The script as a module."""
    spec = importlib.util.spec_from_file_location("run_tests", TOOL)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    monkeypatch.setitem(sys.modules, "run_tests", module)
    spec.loader.exec_module(module)
    return module


def test_results_are_read_from_pytests_file(tool: ModuleType, tmp_path: Path) -> None:
    """Failures and errors count as failed, under the names that pytest takes."""
    file = tmp_path / "unit.xml"
    file.write_text(RESULTS)

    tests, skipped, failures = tool.read_results(file)

    assert (tests, skipped) == (4, 1)
    assert [(one.test, one.reason) for one in failures] == [
        (
            "tests/unit/repository/test_run_tests.py::TestGroup::test_b[x-1]",
            "AssertionError: assert 1 == 2",
        ),
        ("tests/unit/repository/test_run_tests.py::test_d", "failed on setup"),
    ]


@pytest.mark.parametrize(
    ("part", "command"),
    [
        ("unit", "'tests/integration/test_a.py::test_b[1]'"),
        ("integration", "tests/integration/test_a.py"),
        ("thorough", "--thorough tests/integration/test_a.py"),
        ("brokers", "--thorough tests/integration/test_a.py"),
        ("integration-older", "--kafka=3.9.2 tests/integration/test_a.py"),
    ],
)
def test_a_failed_test_is_repeated_as_its_part_runs_it(
    tool: ModuleType, part: str, command: str
) -> None:
    """On brokers with its whole file, since tests of a scenario build on each other."""
    failure = tool.Failure("tests/integration/test_a.py::test_b[1]", "no")

    assert tool.repeating(tool.Part(part, 1, 1.0, 1, 0, (failure,))) == command


def test_a_file_that_cannot_be_imported_is_named(tool: ModuleType) -> None:
    """Pytest gives it no class name."""
    assert tool.node_id("", "tests.unit.test_a") == "tests/unit/test_a.py"


def test_a_part_without_tests_has_no_results(tool: ModuleType, tmp_path: Path) -> None:
    """Lint writes no file of results."""
    assert tool.read_results(tmp_path / "lint.xml") == (0, 0, ())


def test_a_failed_run_shows_how_to_repeat_a_test_and_where_the_logs_are(tool: ModuleType) -> None:
    """The last lines name the failed tests; a part without a failed test is named, too."""
    failure = tool.Failure("tests/unit/test_a.py::test_b", "AssertionError: no")
    parts = [
        tool.Part("lint", 2, 8.0),
        tool.Part("unit", 1, 61.0, 10, 1, (failure,)),
    ]

    lines = tool.summary(parts, (8.0, 9.0)).splitlines()

    assert "lint          failed            8 s" in lines
    assert "unit          failed        10  1 min 01 s" in lines
    assert "FAILED tests/unit/test_a.py::test_b" in lines
    assert "make lint ended with code 2 without a failed test: read its output" in lines
    assert "Repeat one:  .venv/bin/python -m pytest tests/unit/test_a.py::test_b" in lines
    assert "Output of make unit:  build/test/unit.log" in lines
    assert lines[-1] == "8 passed, 1 failed"


def test_a_green_run_is_a_table_and_a_count(tool: ModuleType) -> None:
    """Nothing else: the reader is done."""
    lines = tool.summary([tool.Part("unit", 0, 30.0, 10)], (8.0, 9.0)).splitlines()

    table, score = lines[1:4], "; CPU score 8.0 at the start, 9.0 at the end"
    assert table[:2] == [
        "part          result     tests  time",
        "unit          ok            10  30 s",
    ]
    assert table[2] == f"{'total':<30}  30 s{score} (one core, higher is faster)"
    assert lines[4:] == ["", "10 passed, 0 failed"]
