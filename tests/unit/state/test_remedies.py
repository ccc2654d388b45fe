# SPDX-License-Identifier: Apache-2.0
"""Every incident and every waiting partition names a command that sparkmirror knows."""

from __future__ import annotations

import re
import shlex
from typing import Any

import pytest
from typer.main import get_command

from sparkmirror.cli.main import app
from sparkmirror.model import TopicPartition
from sparkmirror.state.incidents import INCIDENT_RULES, STOP, Incident, IncidentKind
from sparkmirror.state.remedies import COMMANDS, RUN_CONNECTOR, error_command, with_command
from sparkmirror.wire import error_codes

FLOW = "primary->backup"
TOPIC = "the orders"  # a shell splits an unquoted one
TP = TopicPartition("orders", 3)


def parse(line: str) -> None:
    """Run the parser of the named command, without the command itself."""
    program, *arguments = shlex.split(line)
    if program == "kafka-transactions.sh":
        return
    assert program == "sparkmirror"
    command: Any = get_command(app)
    context = command.make_context("sparkmirror", arguments)
    while hasattr(command, "commands"):
        words = [*context._protected_args, *context.args]
        name, command, rest = command.resolve_command(context, words)
        context = command.make_context(name, rest, parent=context)


def commands(text: str) -> list[str]:
    return re.findall(r": ((?:sparkmirror|kafka-transactions\.sh) .*)$", text)


def test_every_kind_has_a_command() -> None:
    assert set(COMMANDS) == set(INCIDENT_RULES)


@pytest.mark.parametrize("kind", IncidentKind)
@pytest.mark.parametrize("policy", ["", STOP])
@pytest.mark.parametrize("connector", [RUN_CONNECTOR, "my mirror"])
def test_the_named_command_is_known(kind: IncidentKind, policy: str, connector: str) -> None:
    incident = Incident(kind, TOPIC, 3, 120, 180, 61, "its log starts at 181", 0, policy)
    (line,) = commands(with_command(incident, FLOW, connector).cause)
    words = shlex.split(line)
    assert not re.search(r"[{}]", line)
    assert TOPIC in words or "check" in words
    if "reset" in words and connector == RUN_CONNECTOR:
        assert words[words.index("--flow") + 1] == FLOW
        assert words[words.index("--partition") + 1 if "--partition" in words else 0]
    parse(line)


@pytest.mark.parametrize(
    "code", [error_codes.TOPIC_RECREATED, error_codes.GAP, error_codes.SOURCE_TRUNCATED]
)
def test_a_waiting_partition_names_a_command(code: int) -> None:
    text = error_codes.advice(code) + error_command(code, TP, FLOW, RUN_CONNECTOR)
    (line,) = commands(text)
    assert f"--flow '{FLOW}' --topic orders" in line
    parse(line)


def test_other_errors_name_no_command() -> None:
    assert error_command(error_codes.NO_LEADER, TP, FLOW, RUN_CONNECTOR) == ""


def test_lost_records_are_copied_again_from_the_first_known_one() -> None:
    kind = IncidentKind.TARGET_TRUNCATED
    known = Incident(kind, "orders", 3, 120, 180, 61, "truncated", 0, STOP)
    unknown = Incident(kind, "orders", 3, 181, 180, 0, "truncated", 0, STOP)
    assert with_command(known, FLOW).cause.endswith("--to 120")
    assert with_command(unknown, FLOW).cause.endswith("--to earliest")
