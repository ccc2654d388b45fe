# SPDX-License-Identifier: Apache-2.0
"""Creates, changes and deletes the connectors of files on a worker, and waits for their states.

A deleted connector keeps its last status for a moment. `undeploy` waits until the worker has
removed the status, so that a new connector of that name does not show the old one.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from sparkmirror.errors import ConfigError, WorkerError, WorkerUnreachableError
from sparkmirror.formats.connect_status_records import RunState
from sparkmirror.rest_client.connect_client import ConnectClient, poll_delays
from sparkmirror.rest_client.connector_files import ConnectorFile
from sparkmirror.rest_client.deployment import (
    DeployChange,
    DeployDecision,
    StateSettling,
    decide_change,
    needs_tasks,
)
from sparkmirror.rest_client.responses import ConnectorStateInfo

DELETE_TIMEOUT_SECONDS = 30.0

ProgressCallback = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class DeployResult:
    """The result for one connector; `error` is empty on success."""

    file: ConnectorFile
    result: str
    remark: str = ""
    state: str = ""
    error: str = ""


def validate(worker: ConnectClient, files: Iterable[ConnectorFile]) -> Iterator[DeployResult]:
    """Validate on the worker, and yield what `deploy` would do. Changes nothing."""
    for file in files:
        try:
            decision = decide_change(file, worker.config(file.name))
            problems = worker.validate(file.config)
        except WorkerUnreachableError:
            raise
        except (WorkerError, ConfigError) as error:
            yield DeployResult(file, "refused", error=str(error))
            continue
        if problems:
            messages = "; ".join(f"{one.key}: {one.message}" for one in problems)
            yield DeployResult(file, "refused", error=f"connector '{file.name}': {messages}")
        else:
            yield DeployResult(file, f"would be {decision.change}", decision.remark)


def deploy(worker: ConnectClient, files: Iterable[ConnectorFile]) -> Iterator[DeployResult]:
    """Create or change the connectors that differ; continue after a failure."""
    for file in files:
        try:
            decision = _deploy_one(worker, file)
        except WorkerUnreachableError:
            raise
        except (WorkerError, ConfigError) as error:
            yield DeployResult(file, "failed", error=str(error))
        else:
            yield DeployResult(file, str(decision.change), decision.remark)


def _deploy_one(worker: ConnectClient, file: ConnectorFile) -> DeployDecision:
    decision = decide_change(file, worker.config(file.name))
    if decision.change is DeployChange.UNCHANGED:
        return decision
    if decision.change is DeployChange.CREATED and file.initial_state is not None:
        worker.create(file.name, file.config, file.initial_state)
        return decision
    is_new = worker.put_config(file.name, file.config)
    return replace(decision, change=DeployChange.CREATED if is_new else DeployChange.UPDATED)


def undeploy(
    worker: ConnectClient, files: Iterable[ConnectorFile], say: ProgressCallback
) -> Iterator[DeployResult]:
    """Delete the connectors of the files, and wait until their statuses are removed."""
    for file in files:
        try:
            existed = worker.delete(file.name)
            error_text = _wait_until_deleted(worker, file.name, say)
        except WorkerUnreachableError:
            raise
        except WorkerError as error:
            yield DeployResult(file, "failed", error=str(error))
        else:
            yield DeployResult(file, "deleted" if existed else "not there", error=error_text)


def _wait_until_deleted(worker: ConnectClient, name: str, say: ProgressCallback) -> str:
    """Return an error if the status is not removed in time; else an empty string."""
    deadline = time.monotonic() + DELETE_TIMEOUT_SECONDS
    state = ""
    for pause in poll_delays():
        status = worker.status(name)
        if status is None:
            return ""
        state = f"{status.connector.state} on {status.connector.worker_id}"
        if time.monotonic() + pause > deadline:
            break
        say(f"connector '{name}' is deleted, but still {state}")
        time.sleep(pause)
    return (
        f"connector '{name}' was deleted {DELETE_TIMEOUT_SECONDS:g} s ago, but {worker.url} "
        f"still reports it as {state}: check that worker"
    )


def wait_for_states(
    worker: ConnectClient, results: Sequence[DeployResult], seconds: float, say: ProgressCallback
) -> list[DeployResult]:
    """Wait until the states are settled. Returns the results with states, or with errors."""
    deadline = time.monotonic() + seconds
    waiting = {
        one.file.name: StateSettling(
            is_update=one.result == DeployChange.UPDATED,
            needs_tasks=needs_tasks(one.file.config),
        )
        for one in results
        if not one.error
    }
    verdicts: dict[str, RunState] = {}
    seen: dict[str, ConnectorStateInfo | None] = {}
    for pause in poll_delays():
        outage = _poll_states(worker, waiting, seen, verdicts)
        left = deadline - time.monotonic()
        if not waiting or left <= 0:
            break
        say(outage or _progress(waiting, seen))
        time.sleep(min(pause, left))
    if outage and waiting:
        raise WorkerUnreachableError(outage, url=worker.url)
    return [
        one
        if one.error
        else _with_state(one, verdicts.get(one.file.name), seen.get(one.file.name), seconds)
        for one in results
    ]


def _poll_states(
    worker: ConnectClient,
    waiting: dict[str, StateSettling],
    seen: dict[str, ConnectorStateInfo | None],
    verdicts: dict[str, RunState],
) -> str:
    """Poll each connector once. Returns the error if the worker is unreachable, else ""."""
    for name, settling in list(waiting.items()):
        try:
            status = worker.status(name)
        except WorkerUnreachableError as error:
            return str(error)
        seen[name] = status
        verdict = settling.observe(time.monotonic(), status)
        if verdict is not None:
            verdicts[name] = verdict
            del waiting[name]
    return ""


def _progress(
    waiting: Mapping[str, StateSettling], seen: Mapping[str, ConnectorStateInfo | None]
) -> str:
    return "waiting for " + ", ".join(f"{name} ({_states(seen.get(name))})" for name in waiting)


def _states(status: ConnectorStateInfo | None) -> str:
    if status is None:
        return "no state yet"
    tasks = ", ".join(sorted({one.state for one in status.tasks.values()})) or "none"
    return f"{status.connector.state}, tasks: {tasks}"


def _with_state(
    result: DeployResult,
    verdict: RunState | None,
    status: ConnectorStateInfo | None,
    seconds: float,
) -> DeployResult:
    name = result.file.name
    if verdict is None:
        return replace(
            result,
            state=status.connector.state if status else "-",
            error=_not_settled(name, status, seconds),
        )
    if verdict is RunState.FAILED and status is not None:
        return replace(result, state=verdict, error=_failure(name, status))
    remark = result.remark
    if verdict is RunState.RUNNING and status is not None and not status.tasks:
        remark = "; ".join(filter(None, (remark, "no tasks")))
    return replace(result, state=verdict, remark=remark)


def _not_settled(name: str, status: ConnectorStateInfo | None, seconds: float) -> str:
    """Explain why a connector does not count as running after the time-out."""
    see = f"see `sparkmirror describe {name}`"
    if status is not None and status.states == {RunState.RUNNING}:
        tasks = "" if status.tasks else " without a task"
        if status.warnings:
            warning = status.warnings[0].strip().splitlines()[0].rstrip(".")[:300]
            return f"connector '{name}' is RUNNING{tasks} after {seconds:g} s: {warning}; {see}"
        if not status.tasks:
            return (
                f"connector '{name}' is RUNNING without a task after {seconds:g} s: its topics "
                f"match none of the source, or the source cannot be read; {see}"
            )
    return f"connector '{name}' has not settled within {seconds:g} s ({_states(status)}): {see}"


def _failure(name: str, status: ConnectorStateInfo) -> str:
    """Describe the first part that failed, with the first line of its trace."""
    parts = {"": status.connector, **{f" task {n}": one for n, one in status.tasks.items()}}
    where, state = next((k, v) for k, v in parts.items() if v.state == RunState.FAILED)
    first = next((line.strip() for line in state.trace.splitlines() if line.strip()), "no trace")
    return (
        f"connector '{name}'{where} has FAILED: {first[:300]} (full trace: `sparkmirror describe "
        f"{name} --trace`; after fixing the cause: `sparkmirror restart {name} --include-tasks "
        f"--only-failed`)"
    )
