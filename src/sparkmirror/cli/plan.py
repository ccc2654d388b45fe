# SPDX-License-Identifier: Apache-2.0
"""`sparkmirror plan FILE`: print what a run would create, change and copy; changes nothing."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path

import typer
from rich.console import Console

from sparkmirror.cli.console import print_error
from sparkmirror.cli.plan_report import plain_lines, print_tables
from sparkmirror.config.mirror_config import MirrorConfig
from sparkmirror.config.settings import FlowSettings
from sparkmirror.connectors.flow_planner import build_plans
from sparkmirror.errors import ConfigError, PlanError
from sparkmirror.topology import plan_file
from sparkmirror.topology.forecast import parse_rate

OK, FAILED, CANNOT_PLAN = 0, 1, 4


def plan_flows(file: Path, *, flow: str | None, as_json: bool, out: Path | None, rate: str) -> int:
    """Plan and print. Returns the exit code."""
    try:
        bytes_a_second = parse_rate(rate)
    except ValueError as error:
        raise typer.BadParameter(str(error), param_hint="--rate") from error
    try:
        config = MirrorConfig.load(file)
        settings = select_planned_flows(config, flow)
        with progress_status() as on_progress:
            plans, unread = build_plans(settings, on_progress, config.enabled_settings())
    except ConfigError as error:
        print_error(str(error))
        return FAILED
    document = plan_file.PlanDocument(
        file=str(file.resolve()),
        made=datetime.now(UTC).isoformat(timespec="seconds"),
        rate=bytes_a_second,
        flows=tuple(plans),
        unread=tuple(unread),
    )
    if plans or as_json:
        _print(document, Console(), as_json=as_json)
    if unread:
        for failed, reason in unread:
            print_error(f"cannot plan {failed}: {reason}")
        if out is not None:
            print_error(f"{out} was not written. Plan one flow that can be read with --flow.")
        return CANNOT_PLAN
    if out is not None:
        try:
            plan_file.write(document, out)
        except PlanError as error:
            print_error(str(error))
            return FAILED
        note = f"Wrote the plan to {out}. Carry it out with: sparkmirror apply {out}"
        Console(stderr=True).print(note, markup=False, highlight=False, soft_wrap=True)
    return OK


def select_planned_flows(config: MirrorConfig, flow: str | None) -> list[FlowSettings]:
    """Return all flows of a file, also those that only emit heartbeats, or only `flow`."""
    config.validate()
    flows = [config.flow_settings(one) for one in config.flows()]
    if flow is None:
        return flows
    name = flow.replace(" ", "")
    chosen = [one for one in flows if str(one.flow) == name]
    if not chosen:
        names = ", ".join(str(one.flow) for one in flows)
        raise ConfigError(f"--flow {flow}: {config.name} has no such flow. It has: {names}.")
    return chosen


@contextmanager
def progress_status() -> Iterator[Callable[[str], None]]:
    """Show what is being read, on a terminal: thousands of topics take some seconds."""
    console = Console(stderr=True)
    if not console.is_terminal:
        yield lambda _: None
        return
    with console.status("reading") as status:
        yield status.update


def _print(document: plan_file.PlanDocument, console: Console, *, as_json: bool) -> None:
    if as_json:
        typer.echo(plan_file.dump(document), nl=False)
    elif console.is_terminal:
        print_tables(document, console)
    else:
        _echo(list(plain_lines(document)))


def _echo(lines: Sequence[str]) -> None:
    for line in lines:
        typer.echo(line)
