# SPDX-License-Identifier: Apache-2.0
"""Keeps the configs of remote topics as those of their source topics are.

Both sides are read and compared, and only differences are sent. What the target refuses is told
once per topic and config, stays in the status, and is not sent again before the source changes it.
What the target's version does not know is named once in the log, and never sent.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from sparkmirror.errors import BrokerError, ClusterError
from sparkmirror.kafka.admin import ClusterAdmin
from sparkmirror.kafka.descriptions import ConfigSource, TopicConfigs
from sparkmirror.model import Flow
from sparkmirror.spark.flow_status import FlowStatus
from sparkmirror.topology.apply_configs import AlterResult, apply_configs
from sparkmirror.topology.configs import AlterTopic, plan_alteration, unknown_configs
from sparkmirror.topology.topics import TopicRules

_MISSING = frozenset({3, 100})  # deleted between two questions
_ALL_AT_ONCE = 1000
_TURNS = 4
_TIMES = 3  # so often a value is set without asking why it does not stay
_FIRST_PAUSE_SECONDS = 10.0
_LONGEST_PAUSE_SECONDS = 600.0
_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class _RejectedValue:
    value: str | None
    words: str


@dataclass(frozen=True, slots=True)
class _SentValue:
    value: str | None
    times: int
    not_before: float


def _skip_resend(sent: _SentValue, value: str | None, shown: str | None) -> bool:
    """Whether to send a value again that was sent, and is not there.

    Some clusters take a value that they have anyway, and do not show it as the topic's own. What
    does not stay is sent ever more rarely.
    """
    if sent.value != value:
        return False
    if value is not None and shown == value:
        return True
    return sent.times >= _TIMES and time.monotonic() < sent.not_before


class ConfigSync:
    """The config sync of one flow; belongs to one thread."""

    def __init__(self, flow: Flow, rules: TopicRules, status: FlowStatus) -> None:
        self._flow = flow
        self._rules = rules
        self._status = status
        self._there: dict[str, TopicConfigs] = {}
        self._unread_there: dict[str, BrokerError] = {}
        self._chunk = 0
        self._equal: dict[str, tuple[TopicConfigs, TopicConfigs]] = {}
        self._refused: dict[str, dict[str, _RejectedValue]] = {}  # by remote topic and config
        self._sent: dict[str, dict[str, _SentValue]] = {}  # what has not been seen to be kept yet
        self._unknown: set[str] = set()  # configs
        self._unread: set[str] = set()
        self._failure = ""
        self._was_fickle = False

    def sync(self, remotes: Mapping[str, str], source: ClusterAdmin, target: ClusterAdmin) -> None:
        """Compare and alter; `remotes` is source topic -> remote topic that exists."""
        here = source.topic_configs(remotes)
        self._read_target(remotes, here.found, target)
        failed = {self._flow.source: here.failed, self._flow.target: self._unread_there}
        self._report_unread(failed, len(remotes))
        actions = self._plan(remotes, here.found, self._there)
        self._record_results(apply_configs(actions, target) if actions else [])
        for remote in [one for one in self._refused if one not in self._there]:
            del self._refused[remote]
        for remote in [one for one in self._sent if one not in self._there]:
            del self._sent[remote]
        self._status.set_problem("configs refused", self._rejected_summary())
        fickle = self._reverted_configs()
        self._status.set_problem("configs not kept", fickle)
        if fickle and not self._was_fickle:
            _log.warning("%s: %s", self._flow, fickle)
        self._was_fickle = bool(fickle)

    def _read_target(
        self, remotes: Mapping[str, str], here: Mapping[str, TopicConfigs], target: ClusterAdmin
    ) -> None:
        """Of thousands of topics those that need it, and of the others a share in turn.

        A cluster works for every topic that it is asked about, and only somebody's hand changes
        anything on the target.
        """
        names = sorted(remotes.values())
        share = names
        if len(names) > _ALL_AT_ONCE:
            self._chunk = (self._chunk + 1) % _TURNS
            first, last = (len(names) * n // _TURNS for n in (self._chunk, self._chunk + 1))
            share = names[first:last]
        unsettled = {
            remote
            for name, remote in remotes.items()
            if name in here and (name not in self._equal or self._equal[name][0] is not here[name])
        }
        gone = self._there.keys() - set(names)
        for remote in {*share, *unsettled, *gone}:
            self._there.pop(remote, None)
            self._unread_there.pop(remote, None)
        for some in (share, sorted(unsettled.difference(share))):
            answer = target.topic_configs(some)
            self._there |= answer.found
            self._unread_there |= answer.failed

    def _plan(
        self,
        remotes: Mapping[str, str],
        here: Mapping[str, TopicConfigs],
        there: Mapping[str, TopicConfigs],
    ) -> list[AlterTopic]:
        """What to send; a pair of answers that was equal before is not looked at again."""
        actions: list[AlterTopic] = []
        equal: dict[str, tuple[TopicConfigs, TopicConfigs]] = {}
        for name, remote in remotes.items():
            if name not in here or remote not in there:
                continue
            pair = here[name], there[remote]
            before = self._equal.get(name)
            is_same = before is not None and before[0] is pair[0] and before[1] is pair[1]
            action = None if is_same else self._action(name, remote, *pair)
            if action is not None:
                actions.append(action)
            elif not self._sent.get(remote):  # else it is not known yet whether it stays
                equal[name] = pair
        self._equal = equal
        return actions

    def _action(
        self, name: str, remote: str, here: TopicConfigs, there: TopicConfigs
    ) -> AlterTopic | None:
        self._report_unknown(unknown_configs(here, there, self._rules))
        planned = plan_alteration(name, remote, here, there, self._rules)
        if planned is None:
            self._sent.pop(remote, None)
            self._refused.pop(remote, None)
            return None
        refused = self._refused.get(remote, {})
        for config in [one for one in refused if one not in planned.changes]:
            del refused[config]  # the source wants something else now
        changes = {
            config: value
            for config, value in planned.changes.items()
            if config not in refused or refused[config].value != value
        }
        sent = self._sent.get(remote, {})
        for config in [one for one in sent if one not in planned.changes]:
            del sent[config]  # it was kept
        shown = {e.name: e.value for e in there if e.source is not ConfigSource.DYNAMIC_TOPIC}
        for config in [one for one in changes if one in sent]:
            if _skip_resend(sent[config], changes[config], shown.get(config)):
                del changes[config]
        return replace(planned, changes=changes) if changes else None

    # --- telling

    def _report_unknown(self, configs: set[str]) -> None:
        news = configs - self._unknown
        if news:
            self._unknown |= news
            _log.info(
                f"{self._flow}: {self._flow.target} does not know {', '.join(sorted(news))}; "
                "its version of Kafka has no such topic configs, and they are not synced."
            )

    def _record_results(self, results: Sequence[AlterResult]) -> None:
        failures: list[ClusterError] = []
        for one in results:
            remote = one.action.remote
            if one.error is not None:
                failures.append(one.error)
            elif one.changes:
                self._record_sent(remote, one.changes)
            if one.refused:
                self._status.count_change("config refused", len(one.refused))
            for config, words in one.refused.items():
                refusal = _RejectedValue(one.action.changes[config], words)
                self._refused.setdefault(remote, {})[config] = refusal
        for sentence in _rejection_messages(self._flow.target, results):
            _log.warning("%s: %s", self._flow, sentence)
        self._report_failures(failures)

    def _record_sent(self, remote: str, changes: Mapping[str, str | None]) -> None:
        """What was sent; and log it, but not every time where it does not stay."""
        sent = self._sent.setdefault(remote, {})
        for config, value in changes.items():
            self._refused.get(remote, {}).pop(config, None)
            before = sent.get(config)
            times = before.times + 1 if before is not None and before.value == value else 1
            pause = min(
                _FIRST_PAUSE_SECONDS * 2.0 ** max(times - _TIMES, 0), _LONGEST_PAUSE_SECONDS
            )
            sent[config] = _SentValue(value, times, time.monotonic() + pause)
        self._status.count_change("altered")
        said = ", ".join(_describe_change(*one) for one in sorted(changes.items()))
        is_news = any(sent[config].times <= _TIMES for config in changes)
        level = logging.INFO if is_news else logging.DEBUG
        _log.log(level, f"{self._flow}: {self._flow.target}: {remote}: {said}")

    def _reverted_configs(self) -> str:
        """What was sent again and again, and is something else every time we look."""
        found = [
            (remote, config)
            for remote, sent in self._sent.items()
            for config, one in sent.items()
            if one.times >= _TIMES
        ]
        if not found:
            return ""
        remote, config = found[0]
        topics = len({remote for remote, _ in found})
        return (
            f"{self._flow.target} does not keep {', '.join(sorted({c for _, c in found}))} on "
            f"{topics} topics: '{remote}' had another value of {config} each of {_TIMES} times. "
            "Somebody or something there sets it back; leave it to them with "
            "config.properties.exclude."
        )

    def _report_failures(self, failures: Sequence[ClusterError]) -> None:
        sentence = ""
        if failures:
            sentence = f"the configs of {len(failures)} topics cannot be altered: {failures[0]}"
            if sentence != self._failure:
                _log.warning("%s: %s", self._flow, sentence)
        self._failure = sentence
        self._status.set_problem("configs failed", sentence)

    def _rejected_summary(self) -> str:
        if not any(self._refused.values()):
            return ""
        every = [
            (config, one) for refused in self._refused.values() for config, one in refused.items()
        ]
        configs = sorted({config for config, _ in every})
        topics = sum(1 for refused in self._refused.values() if refused)
        return (
            f"{self._flow.target} refuses {', '.join(configs)} on {topics} topics: "
            f"{every[0][1].words} Add them to config.properties.exclude, or change them on the "
            "source."
        )

    def _report_unread(self, failed: Mapping[str, Mapping[str, BrokerError]], topics: int) -> None:
        for alias, errors in failed.items():
            real = {t: e for t, e in errors.items() if e.code not in _MISSING}
            if not real:
                self._unread.discard(alias)
                self._status.set_problem(f"configs of {alias}", "")
                continue
            sentence = (
                f"the configs of {len(real)} of {topics} topics cannot be read on {alias}, and are "
                f"not kept in line: {next(iter(real.values()))}"
            )
            self._status.set_problem(f"configs of {alias}", sentence)
            if alias not in self._unread:
                self._unread.add(alias)
                _log.warning("%s: %s", self._flow, sentence)


def _describe_change(config: str, value: str | None) -> str:
    return f"{config} taken back to the default" if value is None else f"{config}={value}"


def _rejection_messages(target: str, results: Sequence[AlterResult]) -> list[str]:
    """One per refused config and value, however many topics it is refused on."""
    topics: dict[tuple[str, str | None], list[str]] = {}
    words: dict[tuple[str, str | None], str] = {}
    for one in results:
        for config, said in one.refused.items():
            pair = config, one.action.changes[config]
            topics.setdefault(pair, []).append(one.action.remote)
            words.setdefault(pair, said)
    return [
        f"{target} refuses {_describe_change(config, value)} on '{remotes[0]}'"
        f"{f' and {len(remotes) - 1} more' if len(remotes) > 1 else ''}, the rest went through: "
        f"{words[config, value]}"
        for (config, value), remotes in topics.items()
    ]
