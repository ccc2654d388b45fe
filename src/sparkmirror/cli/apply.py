# SPDX-License-Identifier: Apache-2.0
"""`sparkmirror apply plan.json`: carry out a plan if both clusters still match it."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

import typer
from rich.console import Console
from rich.progress import Progress

from sparkmirror.cli.console import print_error
from sparkmirror.cli.plan import progress_status
from sparkmirror.cli.plan_report import mismatch_line, print_actions
from sparkmirror.config.mirror_config import MirrorConfig
from sparkmirror.config.settings import FlowSettings
from sparkmirror.connectors.flow_planner import build_plans
from sparkmirror.connectors.plan_applier import ActionResult, FlowPlanApplier
from sparkmirror.errors import PlanError, SparkmirrorError, join_sentences
from sparkmirror.model import Flow
from sparkmirror.quantities import format_count
from sparkmirror.topology import plan_file
from sparkmirror.topology.action_text import describe_action, summarize_actions
from sparkmirror.topology.flow_plan import STAGES, FlowPlan, compare_actions, is_destructive
from sparkmirror.topology.settings_digest import settings_digest

OK, FAILED, REFUSED, PLAN_OUTDATED, CANNOT_PLAN = 0, 1, 2, 3, 4


@dataclass(frozen=True, slots=True)
class PlanCheck:
    """A stored plan compared with the current state."""

    mismatches: tuple[str, ...] = ()  # why the plan is outdated
    unplanned: tuple[str, ...] = ()  # actions that a new plan would have and this one has not
    is_finished: bool = False  # a new plan has none of its actions


class UnreadableFlowsError(PlanError):
    """A cluster cannot be read, so the plan cannot be compared with it."""


def apply_file(path: Path, *, file: Path | None, yes: bool) -> int:
    """Check the plan, ask for confirmation, carry it out. Returns the exit code."""
    try:
        document = plan_file.read(path)
    except PlanError as error:
        print_error(str(error))
        return REFUSED
    if document.unread:
        for flow, reason in document.unread:
            print_error(f"{path} has no plan for {flow}: {reason}")
        print_error("Nothing was changed. Run sparkmirror plan again, or for one flow with --flow.")
        return REFUSED
    if not any(plan.actions for plan in document.flows):
        typer.echo("The plan has nothing to do.")
        return OK
    is_interactive = sys.stdin.isatty() and sys.stdout.isatty()
    if not yes and not is_interactive:
        print_error("Not a terminal: pass --yes to apply the plan without confirmation.")
        return REFUSED
    return _check_and_carry_out(path, document, file or Path(document.file), asks=not yes)


def _check_and_carry_out(
    path: Path, document: plan_file.PlanDocument, file: Path, *, asks: bool
) -> int:
    plans = [plan for plan in document.flows if plan.actions]
    try:
        settings = _settings(MirrorConfig.load(file))
        verdict = check_plan(document.flows, settings)
        if asks and not verdict.mismatches and not verdict.is_finished:
            _show(plans)
            if not typer.confirm("Carry this out?"):
                typer.echo("Nothing was changed.")
                return FAILED
            verdict = check_plan(document.flows, settings)  # the state may have changed meanwhile
    except UnreadableFlowsError as error:
        print_error(f"{error} Nothing was changed.")
        return CANNOT_PLAN
    except SparkmirrorError as error:
        print_error(str(error))
        return FAILED
    if verdict.mismatches:
        return _report_outdated(path, verdict)
    for sentence in verdict.unplanned:
        typer.echo(f"not in the plan, skipped: {sentence}")
    if verdict.is_finished:
        typer.echo(f"{path} is done: none of its actions is needed any more.")
        return OK
    return _carry_out(plans, settings)


def check_plan(plans: Sequence[FlowPlan], settings: dict[Flow, FlowSettings]) -> PlanCheck:
    """Read both clusters again and compare. Raises UnreadableFlowsError if one is unreachable."""
    missing = [plan.flow for plan in plans if plan.flow not in settings]
    if missing:
        return PlanCheck(
            tuple(f"{flow}: the file does not enable this flow any more" for flow in missing)
        )
    altered = [
        f"{plan.flow}: the settings of this flow have changed in the file"
        for plan in plans
        if settings_digest(settings[plan.flow]) != plan.settings
    ]
    if altered:
        return PlanCheck(tuple(altered))
    with progress_status() as on_progress:
        chosen = [settings[plan.flow] for plan in plans]
        found, unread = build_plans(chosen, on_progress, settings.values())
    if unread:
        listed = (f"cannot compare the plan of {flow}: {reason}" for flow, reason in unread)
        raise UnreadableFlowsError(join_sentences(listed))
    return compare_plans(plans, {plan.flow: plan for plan in found})


def compare_plans(plans: Sequence[FlowPlan], now: dict[Flow, FlowPlan]) -> PlanCheck:
    """Compare stored plans with new ones of the same flows."""
    mismatches: list[str] = []
    unplanned: list[str] = []
    finished = 0
    for plan in plans:
        fresh = now[plan.flow]
        other_clusters = _other_clusters(plan, fresh)
        mismatches += other_clusters
        if other_clusters:
            continue
        fit = compare_actions(plan.actions, fresh.actions)
        mismatches += [mismatch_line(plan.flow, changed) for changed in fit.changed]
        finished += sum(changed.replacement is None for changed in fit.changed)
        unplanned += [
            f"{plan.flow}: {describe_action(action, plan.flow)}" for action in fit.new_actions
        ]
    if mismatches and len(mismatches) == finished == sum(len(plan.actions) for plan in plans):
        return PlanCheck(unplanned=tuple(unplanned), is_finished=True)
    return PlanCheck(tuple(mismatches), tuple(unplanned))


def _other_clusters(plan: FlowPlan, now: FlowPlan) -> list[str]:
    ids = (
        (plan.flow.source, plan.source_id, now.source_id),
        (plan.flow.target, plan.target_id, now.target_id),
    )
    return [
        f"{plan.flow}: cluster '{alias}' is another cluster: its id is {new}, not {old}"
        for alias, old, new in ids
        if old != new
    ]


def _settings(config: MirrorConfig) -> dict[Flow, FlowSettings]:
    config.validate()
    return {flow: config.flow_settings(flow) for flow in config.flows()}


def _show(plans: Sequence[FlowPlan]) -> None:
    console = Console()
    for plan in plans:
        print_actions(plan.flow, plan.actions, console)
    actions = [action for plan in plans for action in plan.actions]
    irreversible = sum(map(is_destructive, actions))
    warning = f" ({irreversible} of them cannot be undone)" if irreversible else ""
    console.print(
        f"{summarize_actions(actions)}{warning}.", style="bold", markup=False, highlight=False
    )


def _report_outdated(path: Path, verdict: PlanCheck) -> int:
    for sentence in verdict.mismatches:
        print_error(sentence)
    print_error(f"{path} is outdated; nothing was changed. Run sparkmirror plan again.")
    return PLAN_OUTDATED


def _carry_out(plans: Sequence[FlowPlan], settings: dict[Flow, FlowSettings]) -> int:
    """Carry out one stage of all flows after the other; destructive actions come last."""
    total = sum(len(plan.actions) for plan in plans)
    console = Console(stderr=True)
    failed = 0
    with ExitStack() as stack:
        appliers = {
            plan.flow: stack.enter_context(FlowPlanApplier(settings[plan.flow])) for plan in plans
        }
        progress = stack.enter_context(
            Progress(console=console, transient=True, disable=not console.is_terminal)
        )
        bar = progress.add_task("applying", total=total)
        for stage in STAGES:
            for plan in plans:
                for done in appliers[plan.flow].apply_stage(stage, plan.actions):
                    failed += bool(done.error)
                    _report(plan.flow, done, console)
                    progress.advance(bar)
    typer.echo(f"{format_count(total - failed)} done, {format_count(failed)} failed.")
    return FAILED if failed else OK


def _report(flow: Flow, done: ActionResult, console: Console) -> None:
    what = describe_action(done.action, flow)
    sentence = ""
    if done.error:
        sentence = f"failed: {flow}: {what.verb} {what.subject}: {done.error}"
    elif done.warning:
        sentence = f"done, but: {flow}: {what.verb} {what.subject}: {done.warning}"
    if sentence:
        style = "red" if done.error else "yellow"
        console.print(sentence, style=style, markup=False, highlight=False, soft_wrap=True)
