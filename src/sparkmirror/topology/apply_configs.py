# SPDX-License-Identifier: Apache-2.0
"""Alters the configs of remote topics; finds and skips the configs that the target rejects.

A cluster accepts all changes of a topic or none, and not every one names the rejected config.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Protocol

from sparkmirror.errors import BrokerError, ClusterError

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping, Sequence

    from sparkmirror.topology.configs import AlterTopic

# Errors that a config may cause: INVALID_CONFIG, INVALID_REQUEST, POLICY_VIOLATION.
CONFIG_CODES = frozenset({40, 42, 44})
# At most this many rejected configs of one topic are found in one round.
_TRIES = 6


class ConfigAdmin(Protocol):
    """The part of `kafka.admin.ClusterAdmin` that this module uses."""

    def alter_configs(
        self, changes: Mapping[str, Mapping[str, str | None]], *, validate_only: bool = False
    ) -> dict[str, BrokerError | None]:
        """Alter configs. Returns None for each altered topic."""
        ...


@dataclass(frozen=True, slots=True)
class AlterResult:
    """The result of one alteration: accepted changes, rejected configs, or an error."""

    action: AlterTopic
    changes: Mapping[str, str | None]
    rejected: Mapping[str, str]  # config -> the target's message
    error: ClusterError | None = None


def apply_configs(actions: Sequence[AlterTopic], admin: ConfigAdmin) -> list[AlterResult]:
    """Carry out alterations in few requests. Returns one result per action."""
    results: dict[str, AlterResult] = {}
    known: dict[tuple[str, str | None], str] = {}
    not_about_configs: set[int] = set()  # error codes that no config causes
    pending = [AlterResult(action, action.changes, {}) for action in actions]
    for _ in range(_TRIES):
        if not pending:
            break
        again: list[AlterResult] = []
        for attempt, failure in _try_all(pending, admin):
            results[attempt.action.remote] = replace(attempt, error=failure)
            if not isinstance(failure, BrokerError) or failure.code not in CONFIG_CODES:
                continue
            if (
                failure.code in not_about_configs
                and config_named_in(str(failure), attempt.changes) is None
            ):
                continue  # do not search again for every topic
            reduced = _without_rejected(attempt, failure, known, admin)
            if reduced is None:
                not_about_configs.add(failure.code)
                continue
            results[attempt.action.remote] = reduced
            if reduced.changes:
                again.append(reduced)
        pending = again
    for attempt in pending:  # the last attempt was rejected, too
        nothing = replace(attempt, changes={}, error=None)
        results[attempt.action.remote] = nothing
    return [results[action.remote] for action in actions]


def _try_all(
    attempts: Sequence[AlterResult], admin: ConfigAdmin
) -> list[tuple[AlterResult, ClusterError | None]]:
    changes = {one.action.remote: one.changes for one in attempts}
    try:
        responses = admin.alter_configs(changes)
    except ClusterError as error:
        return [(one, error) for one in attempts]
    return [(one, responses.get(one.action.remote)) for one in attempts]


def _without_rejected(
    attempt: AlterResult,
    failure: BrokerError,
    known: dict[tuple[str, str | None], str],
    admin: ConfigAdmin,
) -> AlterResult | None:
    """Return the attempt without the rejected config; None if no config causes the error.

    Cheapest first: the target's message, then results of other topics, then trial requests.
    """
    remote = attempt.action.remote

    def is_rejected(changes: Mapping[str, str | None]) -> bool:
        response = admin.alter_configs({remote: changes}, validate_only=True).get(remote)
        return response is not None and response.code in CONFIG_CODES

    named = config_named_in(str(failure), attempt.changes)
    remembered = [item for item in attempt.changes.items() if item in known]
    if named is None and remembered:
        return _without(attempt, {name: known[name, value] for name, value in remembered})
    try:
        rejected = named or find_rejected_config(attempt.changes, is_rejected)
    except ClusterError:
        return None  # the next round finds it
    if rejected is None:
        return None
    known[rejected, attempt.changes[rejected]] = str(failure)
    return _without(attempt, {rejected: str(failure)})


def _without(attempt: AlterResult, rejected: Mapping[str, str]) -> AlterResult:
    rest = {name: value for name, value in attempt.changes.items() if name not in rejected}
    return replace(attempt, changes=rest, rejected={**attempt.rejected, **rejected})


def config_named_in(sentence: str, names: Collection[str]) -> str | None:
    """Return the config that a message names; the longest, as one name may be part of another."""
    for name in sorted(names, key=len, reverse=True):
        if re.search(rf"(?<![\w.-]){re.escape(name)}(?![\w-])", sentence):
            return name
    return None


def find_rejected_config(
    configs: Mapping[str, str | None], is_rejected: Callable[[Mapping[str, str | None]], bool]
) -> str | None:
    """Halve the configs until one is left that causes the rejection.

    Returns None if the topic is also rejected without any config.
    """
    items = list(configs.items())
    if is_rejected({}):
        return None
    good, bad = 0, len(items)
    while bad - good > 1:
        middle = (good + bad) // 2
        if is_rejected(dict(items[:middle])):
            bad = middle
        else:
            good = middle
    return items[bad - 1][0]
