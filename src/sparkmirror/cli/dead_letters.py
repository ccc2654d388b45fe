# SPDX-License-Identifier: Apache-2.0
"""`sparkmirror dead-letters list|show|replay FILE`: records that the target refused.

Exit codes: 0 done; 1 a dead letter cannot be replayed or read; 2 wrong usage, nothing was changed.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.text import Text

from sparkmirror.cli.command_groups import CommandGroup
from sparkmirror.cli.console import print_error, print_rows
from sparkmirror.cli.groups import AsJson, File, FlowOption
from sparkmirror.cli.ledger import select_flows
from sparkmirror.config.mirror_config import MirrorConfig
from sparkmirror.connectors.dead_letter_replay import (
    DeadLetter,
    DeadLetters,
    ReplayResult,
    select_letters,
)
from sparkmirror.errors import ConfigError, SparkmirrorError
from sparkmirror.quantities import counted, format_bytes, format_time

_HEADINGS = ("flow", "record", "time", "size", "replayed", "reason")
_SHOWN_BYTES = 400

app = typer.Typer(
    cls=CommandGroup,
    no_args_is_help=True,
    help="List the records that the target refused, show one, write them again.",
)
Topic = Annotated[str | None, typer.Option("--topic", help="Only this source topic.")]
Partition = Annotated[
    int | None, typer.Option("--partition", min=0, help="Only this source partition.")
]
Offset = Annotated[int | None, typer.Option("--offset", min=0, help="Only this source offset.")]


@app.command(
    "list",
    epilog="Examples:  sparkmirror dead-letters list mm2.properties  |  sparkmirror dead-letters "
    "list mm2.properties --topic orders --json",
)
def list_letters(
    file: File,
    *,
    topic: Topic = None,
    partition: Partition = None,
    flow: FlowOption = None,
    as_json: AsJson = False,
) -> None:
    """List dead letters: source position, time, size, whether replayed, and the reason."""
    listed: list[dict[str, Any]] = []
    with _errors(), _letters(file, flow) as flows:
        for name, letters, found in flows:
            chosen = select_letters(found, topic, partition, None)
            listed += [_as_json(name, letters, one) for one in chosen]
    if as_json:
        typer.echo(json.dumps(listed, indent=2, ensure_ascii=False))
        return
    rows = [[Text(cell) for cell in _cells(one)] for one in listed]
    print_rows(Console(), _HEADINGS, rows, "There are no dead letters.")


@app.command(
    "show",
    epilog="Examples:  sparkmirror dead-letters show mm2.properties --topic orders --partition 3 "
    "--offset 1200  |  sparkmirror dead-letters show mm2.properties --topic orders --partition 3 "
    "--offset 1200 --raw value.bin",
)
def show(
    file: File,
    *,
    topic: Annotated[str, typer.Option("--topic", help="The source topic.")],
    partition: Annotated[int, typer.Option("--partition", min=0, help="Its partition.")],
    offset: Annotated[int, typer.Option("--offset", min=0, help="The offset on the source.")],
    flow: FlowOption = None,
    raw: Annotated[
        Path | None, typer.Option("--raw", help="Write the value to this file, uncut.")
    ] = None,
) -> None:
    """Show one dead letter: details, headers, key and the beginning of the value."""
    with _errors(), _letters(file, flow) as flows:
        for name, letters, found in flows:
            for letter in select_letters(found, topic, partition, offset):
                _show(name, letters, letter, raw)
                return
    print_error(f"There is no dead letter of {topic}-{partition} at offset {offset}.")
    raise typer.Exit(1)


@app.command(
    "replay",
    epilog="Examples:  sparkmirror dead-letters replay mm2.properties --topic orders --dry-run  |  "
    "sparkmirror dead-letters replay mm2.properties --topic orders --partition 3 --offset 1200",
)
def replay(
    file: File,
    *,
    topic: Annotated[str, typer.Option("--topic", help="The source topic.")],
    partition: Partition = None,
    offset: Offset = None,
    flow: FlowOption = None,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Print what would be written; change nothing.")
    ] = False,
    yes: Annotated[bool, typer.Option("--yes", help="Do not ask for confirmation.")] = False,
    as_json: AsJson = False,
) -> None:
    """Write dead letters to the end of their remote topic, each once, in source order.

    Remove the cause first, for example raise max.message.bytes. A second replay says that it was
    done before. Exit codes: 0 done; 1 some are refused again; 2 wrong usage.
    """
    if not dry_run and not yes and not (sys.stdin.isatty() and sys.stdout.isatty()):
        print_error("Not a terminal: pass --yes to replay without confirmation.")
        raise typer.Exit(2)
    results: list[tuple[str, ReplayResult]] = []
    with _errors(), _letters(file, flow) as flows:
        for name, letters, found in flows:
            chosen = select_letters(found, topic, partition, offset)
            ordered = sorted(chosen, key=lambda one: (one.tp, one.offset))
            if ordered and not dry_run and not yes:
                question = f"{name}: write up to {counted(len(ordered), 'record')} again?"
                if not typer.confirm(question):
                    typer.echo("Nothing was changed.")
                    raise typer.Exit(1)
            results += [(name, one) for one in letters.replay(ordered, dry_run=dry_run)]
    _report(results, as_json=as_json)


def _report(results: Sequence[tuple[str, ReplayResult]], *, as_json: bool) -> None:
    if as_json:
        listed = [
            {
                "flow": name,
                "topic": one.letter.tp.topic,
                "partition": one.letter.tp.partition,
                "offset": one.letter.offset,
                "targetTopic": one.letter.target.topic,
                "state": one.state,
                "reason": one.reason,
            }
            for name, one in results
        ]
        typer.echo(json.dumps(listed, indent=2, ensure_ascii=False))
    else:
        for _, one in results:
            where = f"{one.letter.tp}@{one.letter.offset} -> {one.letter.target}"
            typer.echo(f"{where}: {one.state}{f': {one.reason}' if one.reason else ''}")
        if not results:
            typer.echo("There are no dead letters.")
    if any(one.state == "refused" for _, one in results):
        raise typer.Exit(1)


@contextmanager
def _errors() -> Iterator[None]:
    try:
        yield
    except SparkmirrorError as error:
        print_error(str(error))
        raise typer.Exit(1) from error


@contextmanager
def _letters(
    file: Path, flow: str | None
) -> Iterator[Iterator[tuple[str, DeadLetters, list[DeadLetter]]]]:
    """The dead letters of the selected flows."""
    try:
        selected = select_flows(MirrorConfig.load(file), flow)
    except ConfigError as error:
        print_error(str(error))
        raise typer.Exit(1) from error

    def each() -> Iterator[tuple[str, DeadLetters, list[DeadLetter]]]:
        for settings in selected:
            with DeadLetters(settings) as letters:
                yield str(settings.flow), letters, letters.read()

    yield each()


def _as_json(flow: str, letters: DeadLetters, one: DeadLetter) -> dict[str, Any]:
    known = letters.replays.get((one.tp, one.offset))
    return {
        "flow": flow,
        "topic": one.tp.topic,
        "partition": one.tp.partition,
        "offset": one.offset,
        "targetTopic": one.target.topic,
        "time": format_time(one.time_ms),
        "bytes": one.original_bytes if one.original_bytes is not None else one.size,
        "complete": one.is_complete,
        "replayed": known.state if known is not None else None,
        "reason": one.reason,
    }


def _cells(one: dict[str, Any]) -> tuple[str, ...]:
    return (
        one["flow"],
        f"{one['topic']}-{one['partition']}@{one['offset']}",
        one["time"],
        format_bytes(one["bytes"]),
        one["replayed"] or "no",
        one["reason"],
    )


def _show(flow: str, letters: DeadLetters, letter: DeadLetter, raw: Path | None) -> None:
    record = letters.content(letter)
    for name, text in sorted(_as_json(flow, letters, letter).items()):
        typer.echo(f"{name}: {text}")
    for key, value in record.headers:
        typer.echo(f"header {_shown(key)}: {_shown(value)}")
    typer.echo(f"key: {_shown(record.key)}")
    typer.echo(f"value: {_shown(record.value)}")
    if raw is not None:
        try:
            raw.write_bytes(record.value or b"")
        except OSError as error:
            print_error(f"Cannot write {raw}: {error.strerror}.")
            raise typer.Exit(1) from error
        typer.echo(f"{counted(len(record.value or b''), 'byte')} written to {raw}")


def _shown(content: bytes | None) -> str:
    """The content as text, with escapes; cut after a few lines."""
    if content is None:
        return "null"
    text = content[:_SHOWN_BYTES].decode(errors="backslashreplace")
    shown = "".join(
        one if one.isprintable() else one.encode("unicode_escape").decode() for one in text
    )
    hidden = len(content) - _SHOWN_BYTES
    return f"{shown} ... {hidden:,} more bytes" if hidden > 0 else shown
