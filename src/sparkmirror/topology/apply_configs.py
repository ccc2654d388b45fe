# SPDX-License-Identifier: Apache-2.0
"""Alters the configs of remote topics; what the target refuses is found and left out, not the rest.

A cluster takes all changes of a topic or none, and not every one says which it did not like.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Protocol

from sparkmirror.errors import BrokerError, ClusterError
from sparkmirror.topology.rejected_configs import (
    CONFIG_CODES,
    config_named_in,
    find_rejected_config,
)

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from sparkmirror.topology.configs import AlterTopic

# So many configs of one topic are looked for in one go; the others wait for the next.
_TRIES = 6


class ConfigAdmin(Protocol):
    """What `kafka.admin.ClusterAdmin` offers to this module."""

    def alter_configs(
        self, changes: Mapping[str, Mapping[str, str | None]], *, validate_only: bool = False
    ) -> dict[str, BrokerError | None]:
        """Alters configs; None for each topic that was altered."""
        ...


@dataclass(frozen=True, slots=True)
class AlterResult:
    """How one alteration went: what the target took, what it refused, what kept it from either."""

    action: AlterTopic
    changes: Mapping[str, str | None]
    refused: Mapping[str, str]  # config -> the target's words
    error: ClusterError | None = None


def apply_configs(actions: Sequence[AlterTopic], admin: ConfigAdmin) -> list[AlterResult]:
    """Alter what is planned, in few requests; one result per action."""
    results: dict[str, AlterResult] = {}
    known: dict[tuple[str, str | None], str] = {}
    blameless: set[int] = set()  # codes of refusals that no config is to blame for
    waiting = [AlterResult(action, action.changes, {}) for action in actions]
    for _ in range(_TRIES):
        if not waiting:
            break
        again: list[AlterResult] = []
        for attempt, failure in _try_all(waiting, admin):
            results[attempt.action.remote] = replace(attempt, error=failure)
            if not isinstance(failure, BrokerError) or failure.code not in CONFIG_CODES:
                continue
            if failure.code in blameless and config_named_in(str(failure), attempt.changes) is None:
                continue  # what is so for one topic is not asked for thousands
            better = _without_rejected(attempt, failure, known, admin)
            if better is None:
                blameless.add(failure.code)
                continue
            results[attempt.action.remote] = better
            if better.changes:
                again.append(better)
        waiting = again
    for attempt in waiting:  # the last try was not good enough either
        nothing = replace(attempt, changes={}, error=None)
        results[attempt.action.remote] = nothing
    return [results[action.remote] for action in actions]


def _try_all(
    attempts: Sequence[AlterResult], admin: ConfigAdmin
) -> list[tuple[AlterResult, ClusterError | None]]:
    changes = {one.action.remote: one.changes for one in attempts}
    try:
        answers = admin.alter_configs(changes)
    except ClusterError as error:
        return [(one, error) for one in attempts]
    return [(one, answers.get(one.action.remote)) for one in attempts]


def _without_rejected(
    attempt: AlterResult,
    failure: BrokerError,
    known: dict[tuple[str, str | None], str],
    admin: ConfigAdmin,
) -> AlterResult | None:
    """The attempt without what is refused; None: no config is to blame.

    The cheapest clue first: the target's own words, then what other topics taught us, then asking.
    """
    remote = attempt.action.remote

    def is_refused(changes: Mapping[str, str | None]) -> bool:
        answer = admin.alter_configs({remote: changes}, validate_only=True).get(remote)
        return answer is not None and answer.code in CONFIG_CODES

    named = config_named_in(str(failure), attempt.changes)
    remembered = [pair for pair in attempt.changes.items() if pair in known]
    if named is None and remembered:
        return _without(attempt, {name: known[name, value] for name, value in remembered})
    try:
        culprit = named or find_rejected_config(attempt.changes, is_refused)
    except ClusterError:
        return None  # the next round finds it
    if culprit is None:
        return None
    known[culprit, attempt.changes[culprit]] = str(failure)
    return _without(attempt, {culprit: str(failure)})


def _without(attempt: AlterResult, refused: Mapping[str, str]) -> AlterResult:
    rest = {name: value for name, value in attempt.changes.items() if name not in refused}
    return replace(attempt, changes=rest, refused={**attempt.refused, **refused})
