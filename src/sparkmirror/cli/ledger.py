# SPDX-License-Identifier: Apache-2.0
"""`sparkmirror ledger FILE`: list the records that differ between source and target."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.text import Text

from sparkmirror.cli.console import camel_case_document, print_error, print_rows
from sparkmirror.config.mirror_config import MirrorConfig
from sparkmirror.config.settings import FlowSettings
from sparkmirror.errors import ClusterError, ConfigError
from sparkmirror.policy.loading import load_policy
from sparkmirror.policy.sparkmirror_topics import ledger_topic
from sparkmirror.quantities import counted
from sparkmirror.state.ledger import LedgerEntry, read_ledger

HEADINGS = ("time", "flow", "kind", "topic", "offsets", "records", "policy", "cause")


def ledger(
    file: Annotated[Path, typer.Argument(help="The MM2 properties file.")],
    *,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
    flow: Annotated[
        str | None, typer.Option("--flow", metavar="A->B", help="Only this flow, written A->B.")
    ] = None,
    topic: Annotated[str | None, typer.Option("--topic", help="Only this source topic.")] = None,
) -> None:
    """Print gaps, skipped records and dead letters; exit 1 if a ledger cannot be read."""
    try:
        flows = select_flows(MirrorConfig.load(file), flow)
    except ConfigError as error:
        print_error(str(error))
        raise typer.Exit(1) from error
    entries: list[LedgerEntry] = []
    failed = False
    for one in flows:
        try:
            found, unreadable = flow_entries(one)
        except ClusterError as error:
            failed = True
            print_error(f"{one.flow}: {error}")
            continue
        entries += found
        if unreadable:
            failed = True
            print_error(
                f"{one.flow}: the ledger topic has {counted(unreadable, 'invalid record')}."
            )
    print_entries(
        [one for one in entries if topic in (None, one.topic)], Console(), as_json=as_json
    )
    if failed:
        raise typer.Exit(1)


def select_flows(config: MirrorConfig, flow: str | None) -> list[FlowSettings]:
    """Return the enabled flows of a file, or only the one named `flow`."""
    enabled = [one for one in map(config.flow_settings, config.flows()) if one.enabled]
    if flow is None:
        return enabled
    name = flow.replace(" ", "")
    chosen = [one for one in enabled if str(one.flow) == name]
    if not chosen:
        names = ", ".join(str(one.flow) for one in enabled) or "none"
        raise ConfigError(
            f"--flow {flow}: {config.name} does not enable this flow. Enabled: {names}."
        )
    return chosen


def flow_entries(settings: FlowSettings) -> tuple[list[LedgerEntry], int]:
    """Return the entries of a flow's ledger, and the number of invalid records in the topic."""
    names = load_policy(settings.policy, settings.flow).replication
    found = read_ledger(settings.target_admin, ledger_topic(names, settings.flow.source))
    mine = [one for one in found.entries if one.flow == str(settings.flow)]
    return mine, found.unreadable


def print_entries(entries: Sequence[LedgerEntry], console: Console, *, as_json: bool) -> None:
    """Print as JSON, as a table on a terminal, or as tab-separated lines; oldest first."""
    ordered = sorted(entries, key=lambda one: one.time)
    if as_json:
        listed = [camel_case_document(one) for one in ordered]
        typer.echo(json.dumps(listed, indent=2, ensure_ascii=False))
    else:
        rows = [[Text(cell) for cell in _cells(one)] for one in ordered]
        print_rows(console, HEADINGS, rows, "The ledger is empty.", ("policy",))


def _cells(one: LedgerEntry) -> tuple[str, ...]:
    offsets = f"{one.first_offset}-{one.last_offset}"
    return (
        one.time,
        one.flow,
        one.kind,
        f"{one.topic}-{one.partition}",
        str(one.first_offset) if one.first_offset >= one.last_offset else offsets,
        str(one.records) if one.records >= 0 else "?",
        one.policy,
        " ".join(one.cause.split()),
    )
