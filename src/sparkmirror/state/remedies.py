# SPDX-License-Identifier: Apache-2.0
"""The command that each incident names. Pure; `COMMANDS` is the only table.

Tasks and the driver add it to the cause, so log, status and ledger name it. `place` selects the
flow: `FILE --flow 'A->B'` with `run`, a connector of a worker otherwise.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from shlex import quote
from types import MappingProxyType
from typing import NamedTuple

from sparkmirror.model import TopicPartition
from sparkmirror.state.incidents import STOP, Incident, IncidentKind
from sparkmirror.wire import error_codes

RUN_CONNECTOR = "MirrorSourceConnector"  # its name in every flow of `run`
_PARTITION = "{place} --topic {topic} --partition {partition}"
_LEDGER = "sparkmirror ledger {reader} --topic {topic}"


class Remedy(NamedTuple):
    """What a command is for, and the command; under `stop` perhaps another one."""

    purpose: str
    command: str
    stop_purpose: str = ""
    stop_command: str = ""


_LISTED = ("to list what differs", _LEDGER)

COMMANDS: Mapping[IncidentKind, Remedy] = MappingProxyType(
    {
        IncidentKind.GAP: Remedy(
            *_LISTED,
            "to continue after the gap",
            f"sparkmirror offsets reset {_PARTITION} --to earliest",
        ),
        IncidentKind.SOURCE_TRUNCATED: Remedy(
            *_LISTED,
            "to continue with new records",
            f"sparkmirror offsets reset {_PARTITION} --to latest",
        ),
        IncidentKind.SOURCE_RECREATED: Remedy(
            *_LISTED,
            "to copy the new topic",
            "sparkmirror offsets reset {place} --topic {topic} --to earliest",
        ),
        IncidentKind.TARGET_TRUNCATED: Remedy(
            *_LISTED,
            "to copy the lost records again",
            f"sparkmirror offsets reset {_PARTITION} --to {{first}}",
        ),
        IncidentKind.TARGET_RECREATED: Remedy(
            "to copy the topic again from the beginning",
            "sparkmirror offsets recopy {place} --topic {topic} --delete-target-records",
        ),
        IncidentKind.CORRUPT_BATCH: Remedy(
            *_LISTED,
            "to continue after the batch",
            f"sparkmirror offsets reset {_PARTITION} --to {{after}}",
        ),
        IncidentKind.DEAD_LETTER: Remedy(
            "to list them",
            "sparkmirror dead-letters list {reader} --topic {topic}",
        ),
        IncidentKind.SKIPPED_RECORD: Remedy(*_LISTED),
        IncidentKind.OPEN_TRANSACTION: Remedy(
            "to abort it",
            "kafka-transactions.sh --bootstrap-server SOURCE abort --topic {topic} "
            "--partition {partition} --start-offset {first}",
        ),
        IncidentKind.FOREIGN_WRITER: Remedy(
            "to list the producers",
            "kafka-transactions.sh --bootstrap-server TARGET describe-producers --topic {topic} "
            "--partition {partition}",
        ),
        IncidentKind.RESUME_MISMATCH: Remedy(*_LISTED),
        IncidentKind.REFUSED: Remedy("to see what is missing", "sparkmirror check FILE --connect"),
        IncidentKind.NO_READ: Remedy("to see what is missing", "sparkmirror check FILE --connect"),
        IncidentKind.OFFSETS_RESET: Remedy(
            "to see what the offset map covers",
            "sparkmirror offsets show {reader} --topic {topic}",
        ),
    }
)

_KINDS = {
    error_codes.TOPIC_RECREATED: IncidentKind.SOURCE_RECREATED,
    error_codes.GAP: IncidentKind.GAP,
    error_codes.SOURCE_TRUNCATED: IncidentKind.SOURCE_TRUNCATED,
}


def flow_place(flow: str, connector: str = RUN_CONNECTOR) -> str:
    """Return the arguments that select a flow of a file, or a connector of a worker."""
    if connector == RUN_CONNECTOR:
        return f"FILE --flow {quote(flow)}"
    return f"--connector {quote(connector)} --url URL"


def with_command(incident: Incident, flow: str, connector: str = RUN_CONNECTOR) -> Incident:
    """Return the incident with the command in its cause."""
    remedy = COMMANDS[incident.kind]
    is_stopped = incident.policy == STOP and bool(remedy.stop_command)
    purpose = remedy.stop_purpose if is_stopped else remedy.purpose
    command = _command(
        remedy.stop_command if is_stopped else remedy.command,
        incident.tp,
        flow,
        connector,
        # Without a count the first lost record is not known.
        str(max(incident.first_offset, 0)) if incident.records else "earliest",
        max(incident.first_offset, incident.last_offset) + 1,
    )
    return replace(incident, cause=f"{incident.cause}; {purpose}: {command}")


def error_command(code: int, tp: TopicPartition, flow: str, connector: str) -> str:
    """Return what to do about an error code of a partition that waits; empty if nothing."""
    kind = _KINDS.get(code)
    if kind is None:
        return ""
    remedy = COMMANDS[kind]
    command = _command(remedy.stop_command, tp, flow, connector)
    return f"; {remedy.stop_purpose}: {command}"


def _command(
    template: str,
    tp: TopicPartition,
    flow: str,
    connector: str,
    first: str = "earliest",
    after: int = 0,
) -> str:
    return template.format(
        place=flow_place(flow, connector),
        reader=flow_place(flow),  # commands that read the target take a file only
        topic=quote(tp.topic),
        partition=tp.partition,
        first=first,
        after=after,
    )
