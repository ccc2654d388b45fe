# SPDX-License-Identifier: Apache-2.0
"""`sparkmirror ledger` without brokers: output and exit codes."""

from __future__ import annotations

import io
import json
from dataclasses import asdict
from pathlib import Path

import pytest
import typer
from rich.console import Console
from typer.testing import CliRunner

from sparkmirror.cli.ledger import ledger, print_entries
from sparkmirror.state.ledger import LedgerEntry

FILE = """\
clusters = a, b
a.bootstrap.servers = 127.0.0.1:1
b.bootstrap.servers = 127.0.0.1:1
a->b.enabled = true
b.admin.socket.connection.setup.timeout.ms = 500
"""
GAP = LedgerEntry(
    "a->b", "gap", "orders", 0, 10, 19, 10, "retention", "continue", "2026-01-02T03:04:05.678Z"
)
LETTER = LedgerEntry(
    "a->b", "dead-letter", "big", 1, 7, 7, -1, "too\nlarge", "dead-letter",
    "2026-01-01T00:00:00.000Z",
)  # fmt: skip

app = typer.Typer()
app.command()(ledger)


@pytest.fixture
def file(tmp_path: Path) -> Path:
    """An ordinary file with unreachable addresses."""
    path = tmp_path / "mm2.properties"
    path.write_text(FILE)
    return path


def test_a_pipe_gets_a_line_per_entry(capsys: pytest.CaptureFixture[str]) -> None:
    """Oldest first, separated by tabs, whatever a cause contains."""
    print_entries([GAP, LETTER], Console(file=io.StringIO()), as_json=False)
    assert capsys.readouterr().out.splitlines() == [
        "2026-01-01T00:00:00.000Z\ta->b\tdead-letter\tbig-1\t7\t?\tdead-letter\ttoo large",
        "2026-01-02T03:04:05.678Z\ta->b\tgap\torders-0\t10-19\t10\tcontinue\tretention",
    ]


def test_a_program_gets_json(capsys: pytest.CaptureFixture[str]) -> None:
    print_entries([GAP], Console(file=io.StringIO()), as_json=True)
    assert json.loads(capsys.readouterr().out) == [
        {
            **{key: value for key, value in asdict(GAP).items() if "_" not in key},
            "firstOffset": 10,
            "lastOffset": 19,
        }
    ]


def test_a_terminal_gets_a_table_or_good_news() -> None:
    screen = io.StringIO()
    console = Console(file=screen, force_terminal=True, width=160, color_system=None)
    print_entries([GAP], console, as_json=False)
    assert "orders-0" in screen.getvalue()
    print_entries([], console, as_json=False)
    assert "The ledger is empty" in screen.getvalue()


def test_a_cluster_out_of_reach_is_one_error_message(file: Path) -> None:
    """Exit code 1, no traceback."""
    result = CliRunner().invoke(app, [str(file)])
    assert result.exit_code == 1
    assert "error: a->b: Cluster 'b' cannot be reached" in result.stderr
    assert result.stdout == ""


@pytest.mark.parametrize(
    ("options", "part"),
    [
        (("--flow", "b->a"), "does not enable this flow. Enabled: a->b"),
        (("--flow", "x"), "--flow x"),
    ],
)
def test_an_unknown_flow_is_named(file: Path, options: tuple[str, ...], part: str) -> None:
    """With the enabled flows."""
    result = CliRunner().invoke(app, [str(file), *options])
    assert result.exit_code == 1
    assert part in " ".join(result.stderr.split())


def test_a_missing_file_is_one_error_message(tmp_path: Path) -> None:
    result = CliRunner().invoke(app, [str(tmp_path / "none.properties")])
    assert result.exit_code == 1
    assert "There is no file" in result.stderr
