# SPDX-License-Identifier: Apache-2.0
"""Carries out a topic plan and reports the result of each action.

A config that the target rejects is found, left out and reported; the topic is created without it.
Nothing is retried here: a failed action is planned again at the next refresh.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Protocol

from sparkmirror.errors import BrokerError, ClusterError
from sparkmirror.kafka.descriptions import NewTopic
from sparkmirror.quantities import and_more
from sparkmirror.topology.apply_configs import CONFIG_CODES, config_named_in, find_rejected_config
from sparkmirror.topology.topics import (
    CreateTopic,
    GrowTopic,
    TopicAction,
    creation_remedy,
    growth_remedy,
    with_remedy,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

_TOPIC_ALREADY_EXISTS = 36
_INVALID_PARTITIONS = 37
_UNKNOWN = "Unknown topic config name:"
# A target that rejects more configs than this gets the topic without any.
_TRIES = 6


class TopicAdmin(Protocol):
    """The part of `kafka.admin.ClusterAdmin` that this module uses."""

    def create_topics(
        self, topics: Sequence[NewTopic], *, validate_only: bool = False
    ) -> dict[str, BrokerError | None]:
        """Create topics. Returns None for each created topic."""
        ...

    def create_partitions(self, totals: Mapping[str, int]) -> dict[str, BrokerError | None]:
        """Add partitions. Returns None for each grown topic."""
        ...


@dataclass(frozen=True, slots=True)
class RejectedConfig:
    """A config that was left out because the target rejects it."""

    name: str
    value: str
    reason: str

    @property
    def is_unknown(self) -> bool:
        """Whether the target's Kafka version has no such config, by the broker's message."""
        return f"{_UNKNOWN} {self.name}" in self.reason


@dataclass(frozen=True, slots=True)
class TopicOutcome:
    """The result of one action; `error` is None on success."""

    action: TopicAction
    error: ClusterError | None = None
    rejected: tuple[RejectedConfig, ...] = ()


def apply_topic_plan(actions: Sequence[TopicAction], admin: TopicAdmin) -> list[TopicOutcome]:
    """Create topics, then grow topics. Returns one outcome per action, in that order."""
    creations = [action for action in actions if isinstance(action, CreateTopic)]
    growths = [action for action in actions if isinstance(action, GrowTopic)]
    return [*_create(creations, admin), *_grow(growths, admin)]


def rejected_config_messages(outcomes: Iterable[TopicOutcome]) -> list[str]:
    """Return one message per rejected config, for all its topics."""
    return _left_out(outcomes, "The target rejects the topic config", are_unknown=False)


def unknown_config_messages(outcomes: Iterable[TopicOutcome]) -> list[str]:
    """Return one message per config that the target's version does not have."""
    return _left_out(outcomes, "The target does not know the topic config", are_unknown=True)


def _left_out(outcomes: Iterable[TopicOutcome], prefix: str, *, are_unknown: bool) -> list[str]:
    reasons: dict[tuple[str, str], str] = {}
    topics: dict[tuple[str, str], list[str]] = {}
    for outcome in outcomes:
        for one in outcome.rejected:
            if one.is_unknown is not are_unknown:
                continue
            config = (one.name, one.value)
            reasons.setdefault(config, one.reason)
            topics.setdefault(config, []).append(outcome.action.remote)
    return [
        f"{prefix} {name}={value}; it was left out of '{remotes[0]}'"
        f"{and_more(len(remotes) - 1)}: {reasons[name, value]}"
        for (name, value), remotes in topics.items()
    ]


@dataclass(frozen=True, slots=True)
class _CreationAttempt:
    """A creation with the remaining configs."""

    action: CreateTopic
    configs: Mapping[str, str]
    rejected: tuple[RejectedConfig, ...] = ()

    def topic(self, configs: Mapping[str, str] | None = None) -> NewTopic:
        return NewTopic(
            self.action.remote,
            self.action.partitions,
            self.action.replication_factor,
            self.configs if configs is None else configs,
        )

    def without(self, name: str, reason: str) -> _CreationAttempt:
        remaining = {key: value for key, value in self.configs.items() if key != name}
        config = RejectedConfig(name, self.configs[name], reason)
        return replace(self, configs=remaining, rejected=(*self.rejected, config))

    def bare(self, reason: str) -> _CreationAttempt:
        bare = self
        for name in self.configs:
            bare = bare.without(name, reason)
        return bare

    def outcome(self, error: ClusterError | None) -> TopicOutcome:
        return TopicOutcome(self.action, error, () if error else self.rejected)


def _create(actions: Sequence[CreateTopic], admin: TopicAdmin) -> list[TopicOutcome]:
    outcomes: dict[str, TopicOutcome] = {}
    known: dict[tuple[str, str], str] = {}
    attempts = [_CreationAttempt(action, action.configs) for action in actions]
    tries = 0
    while attempts:
        again: list[_CreationAttempt] = []
        tries += 1
        for attempt, failure in _try_all(attempts, admin):
            if failure is None:
                outcomes[attempt.action.remote] = attempt.outcome(None)
                continue
            try:
                reduced = _without_rejected(attempt, failure, known, admin)
            except ClusterError as interruption:
                outcomes[attempt.action.remote] = attempt.outcome(interruption)
                continue
            if reduced is None:
                outcomes[attempt.action.remote] = attempt.outcome(_explained(attempt, failure))
            else:
                again.append(reduced if tries < _TRIES else reduced.bare(str(failure)))
        attempts = again
    return [outcomes[action.remote] for action in actions]


def _explained(attempt: _CreationAttempt, failure: ClusterError) -> ClusterError:
    if not isinstance(failure, BrokerError):
        return failure
    return with_remedy(failure, creation_remedy(attempt.topic()))


def _try_all(
    attempts: Sequence[_CreationAttempt], admin: TopicAdmin
) -> list[tuple[_CreationAttempt, ClusterError | None]]:
    try:
        results = admin.create_topics([attempt.topic() for attempt in attempts])
    except ClusterError as error:
        return [(attempt, error) for attempt in attempts]
    tried: list[tuple[_CreationAttempt, ClusterError | None]] = []
    for attempt in attempts:
        failure = results.get(attempt.action.remote)
        exists = failure is not None and failure.code == _TOPIC_ALREADY_EXISTS
        tried.append((attempt, None if exists else failure))
    return tried


def _without_rejected(
    attempt: _CreationAttempt,
    error: ClusterError,
    known: dict[tuple[str, str], str],
    admin: TopicAdmin,
) -> _CreationAttempt | None:
    # Cheapest first: the broker's message, then results of other topics, then trial requests.
    # None means that no config causes the error.
    if not isinstance(error, BrokerError) or error.code not in CONFIG_CODES:
        return None
    if not attempt.configs:
        return None
    named = config_named_in(str(error), attempt.configs)
    remembered = [item for item in attempt.configs.items() if item in known]
    if named is None and remembered:
        for name, value in remembered:
            attempt = attempt.without(name, known[name, value])
        return attempt

    def is_rejected(configs: Mapping[str, str | None]) -> bool:
        topic = attempt.topic({name: value for name, value in configs.items() if value is not None})
        response = admin.create_topics([topic], validate_only=True).get(topic.name)
        return response is not None and response.code in CONFIG_CODES

    rejected = named or find_rejected_config(attempt.configs, is_rejected)
    if rejected is None:
        return None
    known[rejected, attempt.configs[rejected]] = str(error)
    return attempt.without(rejected, str(error))


def _grow(actions: Sequence[GrowTopic], admin: TopicAdmin) -> list[TopicOutcome]:
    if not actions:
        return []
    try:
        results = admin.create_partitions({action.remote: action.to for action in actions})
    except ClusterError as error:
        return [TopicOutcome(action, error) for action in actions]
    outcomes = []
    for action in actions:
        failure = results.get(action.remote)
        # Another client has grown the topic meanwhile; the next refresh sees its partitions.
        is_grown = failure is None or failure.code == _INVALID_PARTITIONS
        outcomes.append(TopicOutcome(action, None if is_grown else _growth_error(action, failure)))
    return outcomes


def _growth_error(action: GrowTopic, error: BrokerError | None) -> BrokerError | None:
    return None if error is None else with_remedy(error, growth_remedy(action.to))
