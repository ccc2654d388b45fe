# SPDX-License-Identifier: Apache-2.0
"""What users read is in plain words."""

from __future__ import annotations

import ast
import re
from pathlib import Path

PACKAGE = Path(__file__).parents[3] / "src" / "sparkmirror"
RIDDLES = re.compile(
    r"\b(anew|asks? (?:nobody|for its)|by itself|has a word|heard of|is begun|looked at|newcomer|"
    r"nobody|of its own|shall|shown out|somebody|tells? (?:it|them)|whoever)\b",
    re.IGNORECASE,
)


def shown_texts(source: str) -> list[str]:
    """The strings of a module, without its docstrings."""
    tree = ast.parse(source)
    documentation = {
        id(node.body[0].value)
        for node in ast.walk(tree)
        if isinstance(node, (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef))
        and isinstance(node.body[0], ast.Expr)
    }
    return [
        node.value
        for node in ast.walk(tree)
        if isinstance(node, ast.Constant)
        and isinstance(node.value, str)
        and id(node) not in documentation
    ]


def test_no_sentence_of_a_program_is_a_riddle() -> None:
    found = [
        f"{module.relative_to(PACKAGE)}: {text}"
        for module in sorted(PACKAGE.rglob("*.py"))
        for text in shown_texts(module.read_text("utf-8"))
        if RIDDLES.search(text)
    ]
    assert found == []


def test_a_riddle_is_found_and_a_docstring_is_none() -> None:
    source = 'def f():\n    """Nobody."""\n    return f"{x} is begun anew"\n'
    assert [text for text in shown_texts(source) if RIDDLES.search(text)] == [" is begun anew"]
