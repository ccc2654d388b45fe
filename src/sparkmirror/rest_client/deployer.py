# SPDX-License-Identifier: Apache-2.0
"""Creates, changes and deletes the connectors of files on a worker, and waits for their states.

A deleted connector keeps its last status for a moment. Deleting ends when the worker has no status
any more, so that a new connector of that name does not show the old one.
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
)
from sparkmirror.rest_client.responses import ConnectorStateInfo

DELETE_TIMEOUT_SECONDS = 30.0

ProgressCallback = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class DeployResult:
    """What became of one connector; `trouble` says why it is not as wanted."""

    file: ConnectorFile
    result: str
    remark: str = ""
    state: str = ""
    error: str = ""


def validate(worker: ConnectClient, files: Iterable[ConnectorFile]) -> Iterator[DeployResult]:
    """What deploying would do, and what the worker has against it; changes nothing."""
    for file in files:
        try:
            decision = decide_change(file, worker.config(file.name))
            objections = worker.validate(file.config)
        except WorkerUnreachableError:
            raise
        except (WorkerError, ConfigError) as error:
            yield DeployResult(file, "refused", error=str(error))
            continue
        if objections:
            words = "; ".join(f"{one.key}: {one.message}" for one in objections)
            yield DeployResult(file, "refused", error=f"connector '{file.name}': {words}")
        else:
            yield DeployResult(file, f"would be {decision.change}", decision.remark)


def deploy(worker: ConnectClient, files: Iterable[ConnectorFile]) -> Iterator[DeployResult]:
    """Create or change what differs; a refusal does not keep the others from it."""
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
    """Delete what the files name, until nothing is known of it."""
    for file in files:
        try:
            was_there = worker.delete(file.name)
            trouble = _wait_until_deleted(worker, file.name, say)
        except WorkerUnreachableError:
            raise
        except WorkerError as error:
            yield DeployResult(file, "failed", error=str(error))
        else:
            yield DeployResult(file, "deleted" if was_there else "not there", error=trouble)


def _wait_until_deleted(worker: ConnectClient, name: str, say: ProgressCallback) -> str:
    deadline = time.monotonic() + DELETE_TIMEOUT_SECONDS
    state = ""
    for pause in poll_delays():
        status = worker.status(name)
        if status is None:
            return ""
        state = f"{status.connector.state} on {status.connector.worker_id}"
        if time.monotonic() + pause > deadline:
            break
        say(f"connector '{name}' is deleted, and still {state}")
        time.sleep(pause)
    return (
        f"connector '{name}' was deleted {DELETE_TIMEOUT_SECONDS:g} s ago, and {worker.url} "
        f"still says that "
        f"it is {state}: look whether that worker lives"
    )


def wait_for_states(
    worker: ConnectClient, results: Sequence[DeployResult], seconds: float, say: ProgressCallback
) -> list[DeployResult]:
    """The results with the state that each connector has settled in, or what it lacks."""
    begun = time.monotonic()
    waiting = {
        one.file.name: StateSettling(is_update=one.result == DeployChange.UPDATED)
        for one in results
        if not one.error
    }
    verdicts: dict[str, RunState] = {}
    seen: dict[str, ConnectorStateInfo | None] = {}
    for pause in poll_delays():
        silence = _poll_states(worker, waiting, seen, verdicts)
        if not waiting:
            break
        left = begun + seconds - time.monotonic()
        if left <= 0:
            break
        say(silence or _progress(waiting, seen))
        time.sleep(min(pause, left))
    if silence and waiting:
        raise WorkerUnreachableError(silence, url=worker.url)
    return [
        _with_state(one, verdicts.get(one.file.name), seen.get(one.file.name), seconds)
        if not one.error
        else one
        for one in results
    ]


def _poll_states(
    worker: ConnectClient,
    waiting: dict[str, StateSettling],
    seen: dict[str, ConnectorStateInfo | None],
    verdicts: dict[str, RunState],
) -> str:
    """One round; a worker that is away for a moment is asked again, and its silence returned."""
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
        trouble = (
            f"connector '{name}' has not settled within {seconds:g} s ({_states(status)}): look at "
            f"it with `sparkmirror describe {name}`"
        )
        return replace(result, state=status.connector.state if status else "-", error=trouble)
    if verdict is RunState.FAILED and status is not None:
        return replace(result, state=verdict, error=_failure(name, status))
    remark = result.remark
    if verdict is RunState.RUNNING and status is not None and not status.tasks:
        remark = "; ".join(filter(None, (remark, "it has no task")))
    return replace(result, state=verdict, remark=remark)


def _failure(name: str, status: ConnectorStateInfo) -> str:
    """Where and why, in the first words of the trace."""
    parts = {"": status.connector, **{f" task {n}": one for n, one in status.tasks.items()}}
    where, state = next((k, v) for k, v in parts.items() if v.state == RunState.FAILED)
    first = next((line.strip() for line in state.trace.splitlines() if line.strip()), "no trace")
    return (
        f"connector '{name}'{where} has FAILED: {first[:300]} (all of it: `sparkmirror describe "
        f"{name} --trace`; once the cause is gone: `sparkmirror restart {name} --include-tasks "
        f"--only-failed`)"
    )
