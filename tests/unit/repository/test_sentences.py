# SPDX-License-Identifier: Apache-2.0
"""Remarks that stand in one place read like one text; log lines say what to do."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from sparkmirror.errors import join_sentences

SOURCE = Path(__file__).parents[3] / "src" / "sparkmirror"


@pytest.mark.parametrize(
    ("remarks", "expected"),
    [
        ([], ""),
        (["", "a"], "a"),
        (["a", "", "b"], "a; b"),
        (["It failed.", "Check the key."], "It failed. Check the key."),
        (["It failed.", "groups: none", "Why?", "a"], "It failed. groups: none; Why? a"),
    ],
)
def test_only_what_is_no_sentence_gets_a_semicolon(remarks: list[str], expected: str) -> None:
    """Never a full stop and a semicolon."""
    assert expected == join_sentences(remarks)


def test_a_log_of_an_unexpected_error_says_what_to_do() -> None:
    """The trace is for developers; the sentence is for the operator."""
    traces = [sentence for name, sentence in logged_sentences() if name == "exception"]
    assert len(traces) > 10
    assert [one for one in traces if not re.search("restart|retry|retries|report", one)] == []


def test_the_data_path_logs_nothing() -> None:
    """Tasks report to the driver, which logs; so nothing is logged per record batch."""
    modules = [*(SOURCE / "wire").glob("*.py"), *(SOURCE / "task").glob("*.py")]
    assert modules
    assert [one.name for one in modules if "import logging" in one.read_text("utf-8")] == []


def logged_sentences() -> Iterator[tuple[str, str]]:
    """Every log call of the package: its method and its arguments, as they are written."""
    for path in sorted(SOURCE.rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
                owner = ast.unparse(node.func.value)
                if owner in ("_log", "log", "logger"):
                    yield node.func.attr, ", ".join(map(ast.unparse, node.args))
