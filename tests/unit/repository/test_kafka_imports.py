# SPDX-License-Identifier: Apache-2.0
"""Of kafka-python, the package uses public names of the codecs and the partitioner only."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import sparkmirror

SOURCES = sorted(Path(sparkmirror.__file__).parent.rglob("*.py"))
ALLOWED = ("kafka.protocol.", "kafka.partitioner.")


def imported(tree: ast.AST) -> Iterator[str]:
    """The full names of what a module imports."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (one.name for one in node.names)
        elif isinstance(node, ast.ImportFrom) and not node.level:
            yield from (f"{node.module}.{one.name}" for one in node.names)


def test_only_codecs_of_kafka_python_are_imported() -> None:
    found = [
        f"{file.name}: {name}"
        for file in SOURCES
        for name in imported(ast.parse(file.read_text(encoding="utf-8")))
        if name.split(".")[0] == "kafka" and not name.startswith(ALLOWED)
    ]
    private = [
        f"{file.name}: {name}"
        for file in SOURCES
        for name in imported(ast.parse(file.read_text(encoding="utf-8")))
        if name.startswith("kafka.") and any(part.startswith("_") for part in name.split("."))
    ]
    assert found + private == []
