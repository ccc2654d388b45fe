# SPDX-License-Identifier: Apache-2.0
"""`sparkmirror apply plan.json`: carries out a plan, if both sides are still as it says."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

import typer
from rich.console import Console
from rich.progress import Progress

from sparkmirror.cli.plan import signs_of_life
from sparkmirror.cli.plan_report import misfit_line, print_actions
from sparkmirror.cli.quiet import complain, quiet_kafka
from sparkmirror.config.mirror_config import MirrorConfig
from sparkmirror.config.settings import FlowSettings
from sparkmirror.connectors.flow_reader import read_flows
from sparkmirror.connectors.plan_applier import Done, FlowApplier
from sparkmirror.errors import PlanError, SparkmirrorError
from sparkmirror.model import Flow
from sparkmirror.topology import plan_file
from sparkmirror.topology.action_words import count_words, words
from sparkmirror.topology.flow_plan import STAGES, FlowPlan, compare, is_destructive
from sparkmirror.topology.settings_digest import settings_digest

OK, FAILED, REFUSED, MISFIT = 0, 1, 2, 3


@dataclass(frozen=True, slots=True)
class Verdict:
    """A stored plan held against what is there now."""

    complaints: tuple[str, ...] = ()  # why it does not fit
    news: tuple[str, ...] = ()  # what would be done now and is not in it


def apply_file(path: Path, *, file: Path | None, yes: bool) -> int:
    """Check, ask, carry out; the exit code."""
    quiet_kafka()
    try:
        document = plan_file.read(path)
    except PlanError as error:
        complain(str(error))
        return REFUSED
    if not any(plan.actions for plan in document.flows):
        typer.echo("The plan has nothing to do.")
        return OK
    is_asked = sys.stdin.isatty() and sys.stdout.isatty()
    if not yes and not is_asked:
        complain("Nobody can be asked here whether to go on: say --yes to carry out the plan.")
        return REFUSED
    return _check_and_carry_out(path, document, file or Path(document.file), asks=not yes)


def _check_and_carry_out(
    path: Path, document: plan_file.PlanDocument, file: Path, *, asks: bool
) -> int:
    plans = [plan for plan in document.flows if plan.actions]
    try:
        settings = _settings(MirrorConfig.load(file))
        verdict = examine(document.flows, settings)
        if asks and not verdict.complaints:
            _show(plans)
            if not typer.confirm("Carry this out?"):
                typer.echo("Nothing was done.")
                return FAILED
            verdict = examine(document.flows, settings)  # people take their time
    except SparkmirrorError as error:
        complain(str(error))
        return FAILED
    if verdict.complaints:
        return _refuse(path, verdict)
    for sentence in verdict.news:
        typer.echo(f"not in the plan, so left alone: {sentence}")
    return _carry_out(plans, settings)


def examine(plans: Sequence[FlowPlan], settings: dict[Flow, FlowSettings]) -> Verdict:
    """Reads both sides anew and compares; ClusterError if a cluster is out of reach."""
    missing = [plan.flow for plan in plans if plan.flow not in settings]
    if missing:
        return Verdict(
            tuple(f"{flow}: the file does not have this flow any more" for flow in missing)
        )
    altered = [
        f"{plan.flow}: what the file says about this flow has changed"
        for plan in plans
        if settings_digest(settings[plan.flow]) != plan.settings
    ]
    if altered:
        return Verdict(tuple(altered))
    with signs_of_life() as say:
        found, unread = read_flows([settings[plan.flow] for plan in plans], say)
    if unread:
        raise PlanError("; ".join(f"{flow}: {reason}" for flow, reason in unread))
    now = {plan.flow: plan for plan in found}
    complaints: list[str] = []
    news: list[str] = []
    for plan in plans:
        fresh = now[plan.flow]
        others = _other_clusters(plan, fresh)
        complaints += others
        if others:
            continue
        fit = compare(plan.actions, fresh.actions)
        complaints += [misfit_line(plan.flow, misfit) for misfit in fit.misfits]
        news += [f"{plan.flow}: {words(action, plan.flow)}" for action in fit.news]
    return Verdict(tuple(complaints), tuple(news))


def _other_clusters(plan: FlowPlan, now: FlowPlan) -> list[str]:
    ids = (
        (plan.flow.source, plan.source_id, now.source_id),
        (plan.flow.target, plan.target_id, now.target_id),
    )
    return [
        f"{plan.flow}: cluster '{alias}' is another one: its id is {new}, not {old}"
        for alias, old, new in ids
        if old != new
    ]


def _settings(config: MirrorConfig) -> dict[Flow, FlowSettings]:
    config.validate()
    return {flow: config.flow_settings(flow) for flow in config.pairs()}


def _show(plans: Sequence[FlowPlan]) -> None:
    console = Console()
    for plan in plans:
        print_actions(plan.flow, plan.actions, console)
    actions = [action for plan in plans for action in plan.actions]
    taken = sum(map(is_destructive, actions))
    warning = f" ({taken} of them cannot be undone)" if taken else ""
    console.print(f"{count_words(actions)}{warning}.", style="bold", markup=False, highlight=False)


def _refuse(path: Path, verdict: Verdict) -> int:
    for sentence in verdict.complaints:
        complain(sentence)
    complain(f"{path} does not fit any more, and nothing was done. Plan again.")
    return MISFIT


def _carry_out(plans: Sequence[FlowPlan], settings: dict[Flow, FlowSettings]) -> int:
    """Stage by stage through all flows, so that what takes something away comes last of all."""
    total = sum(len(plan.actions) for plan in plans)
    console = Console(stderr=True)
    failed = 0
    with ExitStack() as stack:
        appliers = {
            plan.flow: stack.enter_context(FlowApplier(settings[plan.flow])) for plan in plans
        }
        progress = stack.enter_context(
            Progress(console=console, transient=True, disable=not console.is_terminal)
        )
        bar = progress.add_task("applying", total=total)
        for stage in STAGES:
            for plan in plans:
                for done in appliers[plan.flow].carry_out(stage, plan.actions):
                    failed += bool(done.error)
                    _report(plan.flow, done, console)
                    progress.advance(bar)
    typer.echo(f"{total - failed:,} done, {failed:,} failed.")
    return FAILED if failed else OK


def _report(flow: Flow, done: Done, console: Console) -> None:
    what = words(done.action, flow)
    sentence = ""
    if done.error:
        sentence = f"failed: {flow}: {what.verb} {what.subject}: {done.error}"
    elif done.remark:
        sentence = f"done, but: {flow}: {what.verb} {what.subject}: {done.remark}"
    if sentence:
        style = "red" if done.error else "yellow"
        console.print(sentence, style=style, markup=False, highlight=False, soft_wrap=True)
