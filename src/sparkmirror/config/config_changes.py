# SPDX-License-Identifier: Apache-2.0
"""What differs between the configuration that runs and a newer reading of its file.

Pure: two readings in, a value out that says which pairs to start, to stop and to restart, how
much of each, and which keys are to blame. Values are compared and never shown: they may be secret.

The group of every pair: processes with the same file meet there and agree on who runs it.

MM2's own, so that a Java MM2 with the same file is met there, too. A `group.id` that is written
for a target is the same for all pairs into it; MM2 cannot run such a file, here each of them gets
a group of its own.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, fields, is_dataclass, replace
from enum import Enum

from sparkmirror.config.files.config_providers import ReferenceResolver
from sparkmirror.config.files.layering import Origin
from sparkmirror.config.files.notices import EffectiveValue
from sparkmirror.config.flows.flow_settings import ParsedFlow
from sparkmirror.config.keys.connector_classes import ConnectorClass
from sparkmirror.config.mirror_config import MirrorConfig
from sparkmirror.config.settings import FlowSettings, MetricsSettings, ReplicationFactor
from sparkmirror.config.worker_settings import GroupSettings, RunRestSettings
from sparkmirror.model import Flow
from sparkmirror.policy.loading import GROUP_FILTER_KEY, REPLICATION_POLICY_KEY, custom_class_keys
from sparkmirror.policy.settings import PolicySettings

_MANY_KEYS = 8
_SIDES = ("source.", "target.")  # the clusters' own lines, known by their spelling there


@dataclass(frozen=True, slots=True)
class ParsedRun:
    """All that a run takes from a file, references resolved: a later look sees the same values."""

    flows: Mapping[Flow, ParsedFlow]
    groups: Mapping[Flow, GroupSettings]
    spark: Mapping[str, str]
    metrics: MetricsSettings | None
    rest: RunRestSettings | None = None
    connectors: Mapping[Flow, Mapping[ConnectorClass, Mapping[str, str]]] = field(
        default_factory=dict, repr=False
    )  # what the file says about each, flat, as MM2 would write it down
    resolver: ReferenceResolver = field(default_factory=lambda: ReferenceResolver({}), repr=False)

    @property
    def wanted_splits(self) -> dict[Flow, int]:
        """The flows that copy, and how many splits each may have."""
        enabled = [one.settings for one in self.flows.values() if one.settings.enabled]
        return {one.flow: one.source.tasks_max for one in enabled}


def parse_run(config: MirrorConfig, targets: Collection[str] = ()) -> ParsedRun:
    """Read a file for a run; ConfigError with every sentence if anything is wrong."""
    config.validate(targets)
    pairs = {flow: config.parsed_flow(flow) for flow in config.flows(targets)}
    return ParsedRun(
        pairs,
        flow_groups({flow: one.group for flow, one in pairs.items()}),
        dict(config.spark),
        config.metrics,
        config.rest,
        {flow: {k: config.connector_config(flow, k) for k in ConnectorClass} for flow in pairs},
        config.resolver,
    )


class FlowPart(Enum):
    """What of a pair runs by itself and can be restarted by itself."""

    ALL = "all"
    CHECKPOINTS = "checkpoints"
    HEARTBEATS = "heartbeats"


@dataclass(frozen=True, slots=True)
class FlowChange:
    """A pair that goes on with other settings; with ALL among its parts it is begun anew."""

    flow: Flow
    parts: frozenset[FlowPart]
    keys: tuple[str, ...]

    @property
    def restarts_copying(self) -> bool:
        """Whether the copying is restarted, too."""
        return FlowPart.ALL in self.parts


@dataclass(frozen=True, slots=True)
class ConfigChanges:
    """What a newer reading asks for."""

    started: tuple[Flow, ...] = ()
    stopped: tuple[Flow, ...] = ()
    changed: tuple[FlowChange, ...] = ()
    untouched: int = 0
    spark_keys: tuple[str, ...] = ()
    metrics_changed: bool = False
    rest_changed: bool = False
    rest_credentials_changed: bool = False  # only in whom it trusts, lets in, and says to be

    @property
    def is_empty(self) -> bool:
        """Whether everything may stay as it is."""
        pairs = self.started or self.stopped or self.changed
        served = self.metrics_changed or self.rest_changed or self.rest_credentials_changed
        return not (pairs or self.spark_keys or served)


def compare_runs(old: ParsedRun, new: ParsedRun) -> ConfigChanges:
    """What has to be done so that `new` runs where `old` did."""
    both = [flow for flow in new.flows if flow in old.flows]
    changed = [
        FlowChange(flow, parts, differing_keys(flow, old.flows[flow], new.flows[flow]))
        for flow in both
        if (parts := _parts(flow, old, new))
    ]
    spark_keys = sorted({*old.spark, *new.spark})
    rest_renewed = _is_renewed(old.rest, new.rest)
    return ConfigChanges(
        started=tuple(flow for flow in new.flows if flow not in old.flows),
        stopped=tuple(flow for flow in old.flows if flow not in new.flows),
        changed=tuple(changed),
        untouched=len(both) - len(changed),
        spark_keys=tuple(k for k in spark_keys if old.spark.get(k) != new.spark.get(k)),
        metrics_changed=old.metrics != new.metrics,
        rest_changed=old.rest != new.rest and not rest_renewed,
        rest_credentials_changed=rest_renewed,
    )


def _is_renewed(old: RunRestSettings | None, new: RunRestSettings | None) -> bool:
    if old is None or new is None or old == new:
        return False
    return new.settings.differs_only_in_credentials(old.settings)


def _parts(flow: Flow, old: ParsedRun, new: ParsedRun) -> frozenset[FlowPart]:
    if old.groups[flow] != new.groups[flow]:
        return frozenset({FlowPart.ALL})
    return differing_parts(old.flows[flow].settings, new.flows[flow].settings)


def differing_parts(old: FlowSettings, new: FlowSettings) -> frozenset[FlowPart]:
    """Which parts of a pair run with something that is no longer so; none: leave it alone."""
    if not old.enabled and not new.enabled:
        differs = _heartbeats_alone(old) != _heartbeats_alone(new)
        return frozenset({FlowPart.ALL} if differs else ())
    if _copying(old) != _copying(new):
        return frozenset({FlowPart.ALL})
    found = {
        FlowPart.CHECKPOINTS: _checkpoints(old) != _checkpoints(new),
        FlowPart.HEARTBEATS: _comparable(old.heartbeat) != _comparable(new.heartbeat),
    }
    return frozenset(part for part, differs in found.items() if differs)


def connector_identity(kind: ConnectorClass, settings: FlowSettings) -> object:
    """What a connector of a run is built from; it need not restart while this is equal."""
    if kind is ConnectorClass.HEARTBEAT:
        return _heartbeats_alone(settings)
    copying = _copying(settings)
    return copying if kind is ConnectorClass.SOURCE else (copying, _checkpoints(settings))


def _copying(settings: FlowSettings) -> object:
    """All that matters to more than checkpoints or heartbeats."""
    policy, source = settings.policy, settings.source
    own = custom_class_keys(policy)
    syncs_group_acls = source.sync_acls_seconds is not None and source.acls_scope != "topics"
    if not syncs_group_acls:  # then groups matter to checkpoints alone
        own -= {GROUP_FILTER_KEY}
        policy = replace(policy, groups=(), groups_exclude=(), group_filter_class="")
    shared = replace(policy, options=policy.options if own else {})
    return [
        (one.name, _comparable(shared if one.name == "policy" else getattr(settings, one.name)))
        for one in fields(settings)
        if one.name not in {"checkpoint", "heartbeat"}
    ]


def _checkpoints(settings: FlowSettings) -> object:
    policy = settings.policy
    reads_options = GROUP_FILTER_KEY in custom_class_keys(policy)
    return (
        _comparable(settings.checkpoint),
        policy.group_filter_class,
        policy.groups,
        policy.groups_exclude,
        policy.options if reads_options else {},
    )


def _heartbeats_alone(settings: FlowSettings) -> object:
    """All that matters to a pair that copies nothing."""
    return (
        _naming(settings.policy),
        _comparable(settings.heartbeat),
        _comparable(settings.internal_topics),
        settings.producer,
        settings.target_admin,
    )


def _naming(policy: PolicySettings) -> object:
    return (
        policy.replication_policy_class,
        policy.separator,
        policy.internal_topic_separator_enabled,
        policy.separator_is_explicit,
        policy.options if REPLICATION_POLICY_KEY in custom_class_keys(policy) else {},
    )


def _comparable(value: object) -> object:
    """A value without what only messages need: which line gave an address or a factor."""
    if isinstance(value, ReplicationFactor):
        return (value.value, value.preferred)
    if is_dataclass(value):
        return [
            (one.name, _comparable(getattr(value, one.name)))
            for one in fields(value)
            if one.compare
        ]
    return value


def differing_keys(flow: Flow, old: ParsedFlow, new: ParsedFlow) -> tuple[str, ...]:
    """The keys whose effective values differ, as the newer file spells them."""
    before, after = _by_place(old.report.effective), _by_place(new.report.effective)
    names: dict[str, None] = {}
    for place in {**before, **after}:
        one, other = before.get(place), after.get(place)
        if (one and one.text) != (other and other.text):
            names[_spelled(flow, one, other)] = None
    custom = custom_class_keys(new.settings.policy) | custom_class_keys(old.settings.policy)
    if custom or not names:
        known = {key for _, key in (*before, *after)}
        texts = old.settings.policy.options, new.settings.policy.options
        others = {k for text in texts for k in text if not k.startswith(_SIDES)} - known
        differing = sorted(k for k in others if texts[0].get(k) != texts[1].get(k))
        names.update(dict.fromkeys(differing))
    return tuple(names) or tuple(dict.fromkeys(_stores(old.settings, new.settings)))


def _stores(old: FlowSettings, new: FlowSettings) -> Iterator[str]:
    """The keys of stores that are called as before and hold something else."""
    for client in ("consumer", "producer", "source_admin", "target_admin"):
        before, after = (getattr(one, client).security for one in (old, new))
        if before.tls is None or after.tls is None:
            continue
        if before.tls.trusted != after.tls.trusted:
            yield after.keys.trust
        if (before.tls.chain, before.tls.key) != (after.tls.chain, after.tls.key):
            yield after.keys.identity


def _by_place(effective: Iterable[EffectiveValue]) -> dict[tuple[str, str], EffectiveValue]:
    return {(one.section, one.key): one for one in effective}


def _spelled(flow: Flow, old: EffectiveValue | None, new: EffectiveValue | None) -> str:
    written = [one for one in (new, old) if one is not None]
    origins = [one.origin for one in written if one.origin.line] or [Origin(written[0].key)]
    return origins[0].key.removeprefix(f"{flow}.")


def describe_changes(name: str, changes: ConfigChanges, later: Collection[str] = ()) -> str:
    """One line for the log; `later` are the keys that wait for the next start."""
    parts = []
    if changes.started:
        parts.append(f"started {_listed(changes.started)}")
    if changes.stopped:
        parts.append(f"stopped {_listed(changes.stopped)}")
    for one in changes.changed:
        what = " and ".join(sorted(part.value for part in one.parts))
        of = "" if one.restarts_copying else f"the {what} of "
        parts.append(f"restarted {of}{one.flow}{_in_brackets(one.keys)}")
    if changes.metrics_changed:
        parts.append("metrics are served as it says")
    if changes.rest_credentials_changed:
        parts.append("the REST API has other certificates or users")
    if not parts:
        parts.append("nothing to do")
    if changes.untouched:
        parts.append(f"{changes.untouched} {_plural('flow', changes.untouched)} untouched")
    if later:
        takes = "takes" if len(later) == 1 else "take"
        parts.append(f"{_listed(later)} {takes} effect at the next start")
    return f"{name} was read again: {'; '.join(parts)}"


def _in_brackets(keys: Collection[str]) -> str:
    if not keys:
        return ""
    shown, more = list(keys)[:_MANY_KEYS], len(keys) - _MANY_KEYS
    return f" ({_listed(shown)}{f' and {more} more' if more > 0 else ''})"


def _listed(items: Iterable[object]) -> str:
    return ", ".join(str(item) for item in items)


def _plural(word: str, count: int) -> str:
    return word if count == 1 else f"{word}s"


def flow_groups(read: Mapping[Flow, GroupSettings]) -> dict[Flow, GroupSettings]:
    """The groups by pair, each of its own on its target."""
    uses = Counter((flow.target, group.group_id) for flow, group in read.items())
    return {
        flow: group
        if uses[flow.target, group.group_id] == 1
        else replace(group, group_id=f"{group.group_id}-{flow.source}")
        for flow, group in read.items()
    }
