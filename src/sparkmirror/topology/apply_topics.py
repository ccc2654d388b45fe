# SPDX-License-Identifier: Apache-2.0
"""Carries out a topic plan and says for each action how it went.

A config that the target refuses is found, left out and reported, and the topic created all the
same. Nothing is retried here: a failed action is planned again at the next refresh.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Protocol

from sparkmirror.errors import BrokerError, ClusterError
from sparkmirror.kafka.descriptions import NewTopic
from sparkmirror.topology.manual_steps import creation_remedy, growth_remedy, with_remedy
from sparkmirror.topology.rejected_configs import (
    CONFIG_CODES,
    config_named_in,
    find_rejected_config,
)
from sparkmirror.topology.topics import CreateTopic, GrowTopic, TopicAction

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

_TOPIC_ALREADY_EXISTS = 36
_INVALID_PARTITIONS = 37
_UNKNOWN = "Unknown topic config name:"
# A target that refuses more configs than this gets the topic without any.
_TRIES = 6


class TopicAdmin(Protocol):
    """What `kafka.admin.ClusterAdmin` offers to this module."""

    def create_topics(
        self, topics: Sequence[NewTopic], *, validate_only: bool = False
    ) -> dict[str, BrokerError | None]:
        """Creates topics; None for each that was created."""
        ...

    def create_partitions(self, totals: Mapping[str, int]) -> dict[str, BrokerError | None]:
        """Grows topics; None for each that has grown."""
        ...


@dataclass(frozen=True, slots=True)
class RejectedConfig:
    """A config that was left out because the target refuses it, with its reason."""

    name: str
    value: str
    reason: str

    @property
    def is_unknown(self) -> bool:
        """Whether the target's version of Kafka has no such config, in the words of any broker."""
        return f"{_UNKNOWN} {self.name}" in self.reason


@dataclass(frozen=True, slots=True)
class TopicOutcome:
    """How one action went; `error` is None for success."""

    action: TopicAction
    error: ClusterError | None = None
    refused: tuple[RejectedConfig, ...] = ()


def apply_topic_plan(actions: Sequence[TopicAction], admin: TopicAdmin) -> list[TopicOutcome]:
    """Creates first, then grows; one outcome per action, in that order."""
    creations = [action for action in actions if isinstance(action, CreateTopic)]
    growths = [action for action in actions if isinstance(action, GrowTopic)]
    return [*_create(creations, admin), *_grow(growths, admin)]


def rejected_config_messages(outcomes: Iterable[TopicOutcome]) -> list[str]:
    """One sentence per refused config, however many topics it was left out of."""
    return _left_out(outcomes, "The target refuses the topic config", are_unknown=False)


def unknown_config_messages(outcomes: Iterable[TopicOutcome]) -> list[str]:
    """The same for configs that the target's version does not know: nobody can change that."""
    return _left_out(outcomes, "The target does not know the topic config", are_unknown=True)


def _left_out(outcomes: Iterable[TopicOutcome], beginning: str, *, are_unknown: bool) -> list[str]:
    reasons: dict[tuple[str, str], str] = {}
    topics: dict[tuple[str, str], list[str]] = {}
    for outcome in outcomes:
        for refused in outcome.refused:
            if refused.is_unknown is not are_unknown:
                continue
            config = (refused.name, refused.value)
            reasons.setdefault(config, refused.reason)
            topics.setdefault(config, []).append(outcome.action.remote)
    return [
        f"{beginning} {name}={value}; it was left out of '{remotes[0]}'"
        f"{f' and {len(remotes) - 1} more' if len(remotes) > 1 else ''}: {reasons[name, value]}"
        for (name, value), remotes in topics.items()
    ]


@dataclass(frozen=True, slots=True)
class _CreationAttempt:
    """A creation with the configs that are still in it."""

    action: CreateTopic
    configs: Mapping[str, str]
    refused: tuple[RejectedConfig, ...] = ()

    def topic(self, configs: Mapping[str, str] | None = None) -> NewTopic:
        return NewTopic(
            self.action.remote,
            self.action.partitions,
            self.action.replication_factor,
            self.configs if configs is None else configs,
        )

    def without(self, name: str, reason: str) -> _CreationAttempt:
        left = {key: value for key, value in self.configs.items() if key != name}
        refused = RejectedConfig(name, self.configs[name], reason)
        return replace(self, configs=left, refused=(*self.refused, refused))

    def bare(self, reason: str) -> _CreationAttempt:
        bare = self
        for name in self.configs:
            bare = bare.without(name, reason)
        return bare

    def outcome(self, error: ClusterError | None) -> TopicOutcome:
        return TopicOutcome(self.action, error, () if error else self.refused)


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
                better = _without_rejected(attempt, failure, known, admin)
            except ClusterError as interruption:
                outcomes[attempt.action.remote] = attempt.outcome(interruption)
                continue
            if better is None:
                outcomes[attempt.action.remote] = attempt.outcome(_explained(attempt, failure))
            else:
                again.append(better if tries < _TRIES else better.bare(str(failure)))
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
        refusal = results.get(attempt.action.remote)
        exists = refusal is not None and refusal.code == _TOPIC_ALREADY_EXISTS
        tried.append((attempt, None if exists else refusal))
    return tried


def _without_rejected(
    attempt: _CreationAttempt,
    error: ClusterError,
    known: dict[tuple[str, str], str],
    admin: TopicAdmin,
) -> _CreationAttempt | None:
    # The cheapest clue first: the broker's own words, then what other topics taught us,
    # then asking. None means that no config is to blame.
    if not isinstance(error, BrokerError) or error.code not in CONFIG_CODES:
        return None
    if not attempt.configs:
        return None
    named = config_named_in(str(error), attempt.configs)
    remembered = [pair for pair in attempt.configs.items() if pair in known]
    if named is None and remembered:
        for name, value in remembered:
            attempt = attempt.without(name, known[name, value])
        return attempt

    def is_refused(configs: Mapping[str, str | None]) -> bool:
        topic = attempt.topic({name: value for name, value in configs.items() if value is not None})
        answer = admin.create_topics([topic], validate_only=True).get(topic.name)
        return answer is not None and answer.code in CONFIG_CODES

    culprit = named or find_rejected_config(attempt.configs, is_refused)
    if culprit is None:
        return None
    known[culprit, attempt.configs[culprit]] = str(error)
    return attempt.without(culprit, str(error))


def _grow(actions: Sequence[GrowTopic], admin: TopicAdmin) -> list[TopicOutcome]:
    if not actions:
        return []
    try:
        results = admin.create_partitions({action.remote: action.to for action in actions})
    except ClusterError as error:
        return [TopicOutcome(action, error) for action in actions]
    outcomes = []
    for action in actions:
        refusal = results.get(action.remote)
        # Somebody else has grown the topic meanwhile; the next refresh sees by how much.
        grown = refusal is None or refusal.code == _INVALID_PARTITIONS
        outcomes.append(TopicOutcome(action, None if grown else _growth_error(action, refusal)))
    return outcomes


def _growth_error(action: GrowTopic, refusal: BrokerError | None) -> BrokerError | None:
    return None if refusal is None else with_remedy(refusal, growth_remedy(action.to))
