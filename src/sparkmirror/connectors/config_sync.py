# SPDX-License-Identifier: Apache-2.0
"""Sets the configs of remote topics to those of their source topics.

Both clusters are read and compared; only differences are sent. A value that the target rejects is
logged once per topic and config, stays in the status, and is not sent again until the source
changes it. A config that the target's version does not have is logged once and never sent.
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
from sparkmirror.quantities import and_more, counted
from sparkmirror.spark.flow_status import FlowStatus
from sparkmirror.topology.apply_configs import AlterResult, apply_configs
from sparkmirror.topology.configs import AlterTopic, plan_alteration, unknown_configs
from sparkmirror.topology.topics import TopicRules

_MISSING = frozenset({3, 100})  # deleted between two requests
_MAX_TOPICS_PER_ROUND = 1000
_TURNS = 4
_MAX_ATTEMPTS = 3  # attempts before a value that is changed back is reported
_FIRST_PAUSE_SECONDS = 10.0
_MAX_PAUSE_SECONDS = 600.0
_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class _RejectedValue:
    value: str | None
    message: str


@dataclass(frozen=True, slots=True)
class _SentValue:
    value: str | None
    times: int
    not_before: float


def _skip_resend(sent: _SentValue, value: str | None, shown: str | None) -> bool:
    """Whether to skip a value that was sent and is not the topic's own.

    Some clusters accept a value that equals their default and do not show it as an override.
    Values that are changed back are sent with growing pauses.
    """
    if sent.value != value:
        return False
    if value is not None and shown == value:
        return True
    return sent.times >= _MAX_ATTEMPTS and time.monotonic() < sent.not_before


class ConfigSync:
    """The config sync of one flow. Not thread-safe."""

    def __init__(self, flow: Flow, rules: TopicRules, status: FlowStatus) -> None:
        self._flow = flow
        self._rules = rules
        self._status = status
        self._on_target: dict[str, TopicConfigs] = {}
        self._unread_on_target: dict[str, BrokerError] = {}
        self._chunk = 0
        self._equal: dict[str, tuple[TopicConfigs, TopicConfigs]] = {}
        self._rejected: dict[str, dict[str, _RejectedValue]] = {}  # by remote topic and config
        self._sent: dict[str, dict[str, _SentValue]] = {}  # not confirmed yet
        self._unknown: set[str] = set()  # configs
        self._unread: set[str] = set()
        self._failure = ""
        self._had_reverted = False

    def sync(self, remotes: Mapping[str, str], source: ClusterAdmin, target: ClusterAdmin) -> None:
        """Compare and alter; `remotes` is source topic -> existing remote topic."""
        on_source = source.topic_configs(remotes)
        self._read_target(remotes, on_source.found, target)
        failed = {self._flow.source: on_source.failed, self._flow.target: self._unread_on_target}
        self._report_unread(failed, len(remotes))
        actions = self._plan(remotes, on_source.found, self._on_target)
        self._record_results(apply_configs(actions, target) if actions else [])
        for remote in [one for one in self._rejected if one not in self._on_target]:
            del self._rejected[remote]
        for remote in [one for one in self._sent if one not in self._on_target]:
            del self._sent[remote]
        self._status.set_problem("configs refused", self._rejected_summary())
        reverted = self._reverted_configs()
        self._status.set_problem("configs not kept", reverted)
        if reverted and not self._had_reverted:
            _log.warning("%s: %s", self._flow, reverted)
        self._had_reverted = bool(reverted)

    def _read_target(
        self,
        remotes: Mapping[str, str],
        on_source: Mapping[str, TopicConfigs],
        target: ClusterAdmin,
    ) -> None:
        """Read changed topics, and of thousands of others a part per round.

        Describing configs costs the cluster work per topic, and changes on the target are rare.
        """
        names = sorted(remotes.values())
        part = names
        if len(names) > _MAX_TOPICS_PER_ROUND:
            self._chunk = (self._chunk + 1) % _TURNS
            first, last = (len(names) * n // _TURNS for n in (self._chunk, self._chunk + 1))
            part = names[first:last]
        changed = {
            remote
            for name, remote in remotes.items()
            if name in on_source
            and (name not in self._equal or self._equal[name][0] is not on_source[name])
        }
        deleted = self._on_target.keys() - set(names)
        for remote in {*part, *changed, *deleted}:
            self._on_target.pop(remote, None)
            self._unread_on_target.pop(remote, None)
        for topics in (part, sorted(changed.difference(part))):
            results = target.topic_configs(topics)
            self._on_target |= results.found
            self._unread_on_target |= results.failed

    def _plan(
        self,
        remotes: Mapping[str, str],
        on_source: Mapping[str, TopicConfigs],
        on_target: Mapping[str, TopicConfigs],
    ) -> list[AlterTopic]:
        """Return what to send. Configs that are the same objects as last time are not compared."""
        actions: list[AlterTopic] = []
        equal: dict[str, tuple[TopicConfigs, TopicConfigs]] = {}
        for name, remote in remotes.items():
            if name not in on_source or remote not in on_target:
                continue
            configs = on_source[name], on_target[remote]
            before = self._equal.get(name)
            is_same = before is not None and before[0] is configs[0] and before[1] is configs[1]
            action = None if is_same else self._action(name, remote, *configs)
            if action is not None:
                actions.append(action)
            elif not self._sent.get(remote):  # else it is not confirmed yet
                equal[name] = configs
        self._equal = equal
        return actions

    def _action(
        self, name: str, remote: str, on_source: TopicConfigs, on_target: TopicConfigs
    ) -> AlterTopic | None:
        self._report_unknown(unknown_configs(on_source, on_target, self._rules))
        planned = plan_alteration(name, remote, on_source, on_target, self._rules)
        if planned is None:
            self._sent.pop(remote, None)
            self._rejected.pop(remote, None)
            return None
        rejected = self._rejected.get(remote, {})
        for config in [one for one in rejected if one not in planned.changes]:
            del rejected[config]  # the source has another value now
        changes = {
            config: value
            for config, value in planned.changes.items()
            if config not in rejected or rejected[config].value != value
        }
        sent = self._sent.get(remote, {})
        for config in [one for one in sent if one not in planned.changes]:
            del sent[config]  # confirmed
        shown = {e.name: e.value for e in on_target if e.source is not ConfigSource.DYNAMIC_TOPIC}
        for config in [one for one in changes if one in sent]:
            if _skip_resend(sent[config], changes[config], shown.get(config)):
                del changes[config]
        return replace(planned, changes=changes) if changes else None

    # --- reporting

    def _report_unknown(self, configs: set[str]) -> None:
        new = configs - self._unknown
        if new:
            self._unknown |= new
            _log.info(
                f"{self._flow}: {self._flow.target} does not know {', '.join(sorted(new))}; "
                "its Kafka version has no such topic configs, and they are not synced."
            )

    def _record_results(self, results: Sequence[AlterResult]) -> None:
        failures: list[ClusterError] = []
        for one in results:
            remote = one.action.remote
            if one.error is not None:
                failures.append(one.error)
            elif one.changes:
                self._record_sent(remote, one.changes)
            if one.rejected:
                self._status.count_change("config refused", len(one.rejected))
            for config, message in one.rejected.items():
                rejected = _RejectedValue(one.action.changes[config], message)
                self._rejected.setdefault(remote, {})[config] = rejected
        for sentence in _rejection_messages(self._flow.target, results):
            _log.warning("%s: %s", self._flow, sentence)
        self._report_failures(failures)

    def _record_sent(self, remote: str, changes: Mapping[str, str | None]) -> None:
        """Remember what was sent, and log it, unless it is sent again and again."""
        sent = self._sent.setdefault(remote, {})
        for config, value in changes.items():
            self._rejected.get(remote, {}).pop(config, None)
            before = sent.get(config)
            times = before.times + 1 if before is not None and before.value == value else 1
            pause = min(
                _FIRST_PAUSE_SECONDS * 2.0 ** max(times - _MAX_ATTEMPTS, 0), _MAX_PAUSE_SECONDS
            )
            sent[config] = _SentValue(value, times, time.monotonic() + pause)
        self._status.count_change("altered")
        text = ", ".join(_describe_change(*one) for one in sorted(changes.items()))
        is_new = any(sent[config].times <= _MAX_ATTEMPTS for config in changes)
        level = logging.INFO if is_new else logging.DEBUG
        _log.log(level, f"{self._flow}: {self._flow.target}: {remote}: {text}")

    def _reverted_configs(self) -> str:
        """Describe the values that were sent several times and had changed each time."""
        found = [
            (remote, config)
            for remote, sent in self._sent.items()
            for config, one in sent.items()
            if one.times >= _MAX_ATTEMPTS
        ]
        if not found:
            return ""
        remote, config = found[0]
        topics = len({remote for remote, _ in found})
        return (
            f"{self._flow.target}: {', '.join(sorted({c for _, c in found}))} are changed back on "
            f"{counted(topics, 'topic')} (for example {config} on '{remote}', {_MAX_ATTEMPTS} "
            "times). Another "
            "tool manages them; add them to config.properties.exclude."
        )

    def _report_failures(self, failures: Sequence[ClusterError]) -> None:
        sentence = ""
        if failures:
            sentence = (
                f"cannot alter the configs of {counted(len(failures), 'topic')}: {failures[0]}"
            )
            if sentence != self._failure:
                _log.warning("%s: %s", self._flow, sentence)
        self._failure = sentence
        self._status.set_problem("configs failed", sentence)

    def _rejected_summary(self) -> str:
        if not any(self._rejected.values()):
            return ""
        every = [
            (config, one)
            for rejected in self._rejected.values()
            for config, one in rejected.items()
        ]
        configs = sorted({config for config, _ in every})
        topics = sum(1 for rejected in self._rejected.values() if rejected)
        return (
            f"{self._flow.target} rejects {', '.join(configs)} on {counted(topics, 'topic')}: "
            f"{every[0][1].message} Add them to config.properties.exclude, or change them on the "
            "source."
        )

    def _report_unread(self, failed: Mapping[str, Mapping[str, BrokerError]], topics: int) -> None:
        for alias, errors in failed.items():
            errors_shown = {t: e for t, e in errors.items() if e.code not in _MISSING}
            if not errors_shown:
                self._unread.discard(alias)
                self._status.set_problem(f"configs of {alias}", "")
                continue
            sentence = (
                f"cannot read the configs of {len(errors_shown)} of {counted(topics, 'topic')} "
                f"on {alias}; "
                f"they are not synced: {next(iter(errors_shown.values()))}"
            )
            self._status.set_problem(f"configs of {alias}", sentence)
            if alias not in self._unread:
                self._unread.add(alias)
                _log.warning("%s: %s", self._flow, sentence)


def _describe_change(config: str, value: str | None) -> str:
    return f"{config} reset to the default" if value is None else f"{config}={value}"


def _rejection_messages(target: str, results: Sequence[AlterResult]) -> list[str]:
    """Return one message per rejected config and value, for all its topics."""
    topics: dict[tuple[str, str | None], list[str]] = {}
    messages: dict[tuple[str, str | None], str] = {}
    for one in results:
        for config, message in one.rejected.items():
            change = config, one.action.changes[config]
            topics.setdefault(change, []).append(one.action.remote)
            messages.setdefault(change, message)
    return [
        f"{target} rejects {_describe_change(config, value)} on '{remotes[0]}'"
        f"{and_more(len(remotes) - 1)}; "
        f"other changes are applied: {messages[config, value]}"
        for (config, value), remotes in topics.items()
    ]
