# SPDX-License-Identifier: Apache-2.0
"""Compares the running configuration with a newer version of its file.

`compare_runs` is pure: it returns which flows to start, stop and restart, which parts of them, and
which keys changed. Values are never shown, because they may be secret.

`flow_groups` returns the group of each flow, in which processes with the same file agree on who
runs it. It is MM2's group, so Java MM2 with the same file joins it, too. A `group.id` set for a
target applies to all flows into it. MM2 cannot run such a file; here each flow gets a distinct
group.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields, is_dataclass, replace
from enum import Enum

from sparkmirror.config.files.config_providers import ReferenceResolver
from sparkmirror.config.files.layering import Origin
from sparkmirror.config.files.notices import EffectiveValue
from sparkmirror.config.flows.flow_settings import ParsedFlow
from sparkmirror.config.keys.connector_classes import ConnectorClass
from sparkmirror.config.mirror_config import MirrorConfig
from sparkmirror.config.settings import (
    FlowSettings,
    LogSettings,
    MetricsSettings,
    ReplicationFactor,
)
from sparkmirror.config.worker_settings import GroupSettings, RunRestSettings
from sparkmirror.model import Flow
from sparkmirror.policy.loading import GROUP_FILTER_KEY, REPLICATION_POLICY_KEY, custom_class_keys
from sparkmirror.policy.settings import PolicySettings
from sparkmirror.quantities import and_more, counted

_MANY_KEYS = 8
_SIDES = ("source.", "target.")  # from lines of clusters, which have another prefix there


@dataclass(frozen=True, slots=True)
class ParsedRun:
    """All that a run takes from a file, with references resolved once."""

    flows: Mapping[Flow, ParsedFlow]
    groups: Mapping[Flow, GroupSettings]
    spark: Mapping[str, str]
    metrics: MetricsSettings
    rest: RunRestSettings | None = None
    connectors: Mapping[Flow, Mapping[ConnectorClass, Mapping[str, str]]] = field(
        default_factory=dict, repr=False
    )  # the configuration that MM2 would store for each connector
    log: LogSettings = field(default_factory=LogSettings)
    enabled: Sequence[FlowSettings] = ()  # all of the file, also those of other processes
    resolver: ReferenceResolver = field(default_factory=lambda: ReferenceResolver({}), repr=False)

    @property
    def wanted_splits(self) -> dict[Flow, int]:
        """The maximum number of splits of each flow that copies."""
        enabled = [one.settings for one in self.flows.values() if one.settings.enabled]
        return {one.flow: one.source.tasks_max for one in enabled}


def parse_run(config: MirrorConfig, targets: Collection[str] = ()) -> ParsedRun:
    """Read a file for a run. Raises one ConfigError with all errors."""
    config.validate(targets)
    flows = {flow: config.parsed_flow(flow) for flow in config.flows(targets)}
    return ParsedRun(
        flows,
        flow_groups({flow: one.group for flow, one in flows.items()}),
        dict(config.spark),
        config.metrics,
        config.rest,
        {flow: {k: config.connector_config(flow, k) for k in ConnectorClass} for flow in flows},
        config.log,
        config.enabled_settings(),
        config.resolver,
    )


class FlowPart(Enum):
    """A part of a flow that can be restarted alone."""

    ALL = "all"
    CHECKPOINTS = "checkpoints"
    HEARTBEATS = "heartbeats"


@dataclass(frozen=True, slots=True)
class FlowChange:
    """A flow whose settings changed, and the parts to restart; ALL restarts the whole flow."""

    flow: Flow
    parts: frozenset[FlowPart]
    keys: tuple[str, ...]

    @property
    def restarts_copying(self) -> bool:
        return FlowPart.ALL in self.parts


@dataclass(frozen=True, slots=True)
class ConfigChanges:
    """The actions that apply a newer configuration."""

    started: tuple[Flow, ...] = ()
    stopped: tuple[Flow, ...] = ()
    changed: tuple[FlowChange, ...] = ()
    untouched: int = 0
    spark_keys: tuple[str, ...] = ()
    metrics_changed: bool = False
    rest_changed: bool = False
    rest_credentials_changed: bool = False  # only certificates, trusted ones or users
    log_changed: bool = False

    @property
    def is_empty(self) -> bool:
        flows = self.started or self.stopped or self.changed
        servers = self.metrics_changed or self.rest_changed or self.rest_credentials_changed
        return not (flows or self.spark_keys or servers or self.log_changed)


def compare_runs(old: ParsedRun, new: ParsedRun) -> ConfigChanges:
    """Return the changes from `old` to `new`."""
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
        log_changed=old.log != new.log,
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
    """Return the parts of a flow whose settings differ."""
    if not old.enabled and not new.enabled:
        differs = _heartbeat_settings(old) != _heartbeat_settings(new)
        return frozenset({FlowPart.ALL} if differs else ())
    if _copying(old) != _copying(new):
        return frozenset({FlowPart.ALL})
    found = {
        FlowPart.CHECKPOINTS: _checkpoints(old) != _checkpoints(new),
        FlowPart.HEARTBEATS: _comparable(old.heartbeat) != _comparable(new.heartbeat),
    }
    return frozenset(part for part, differs in found.items() if differs)


def connector_identity(kind: ConnectorClass, settings: FlowSettings) -> object:
    """Return the settings that a connector depends on; it need not restart while they are equal."""
    if kind is ConnectorClass.HEARTBEAT:
        return _heartbeat_settings(settings)
    copying = _copying(settings)
    return copying if kind is ConnectorClass.SOURCE else (copying, _checkpoints(settings))


def _copying(settings: FlowSettings) -> object:
    """Return the settings that affect more than checkpoints or heartbeats."""
    policy, source = settings.policy, settings.source
    own = custom_class_keys(policy)
    syncs_group_acls = source.sync_acls_seconds is not None and source.acls_scope != "topics"
    if not syncs_group_acls:  # then groups affect checkpoints only
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


def _heartbeat_settings(settings: FlowSettings) -> object:
    """Return the settings that affect a flow that only emits heartbeats."""
    return (
        _naming_settings(settings.policy),
        _comparable(settings.heartbeat),
        _comparable(settings.internal_topics),
        settings.producer,
        settings.target_admin,
    )


def _naming_settings(policy: PolicySettings) -> object:
    return (
        policy.replication_policy_class,
        policy.separator,
        policy.internal_topic_separator_enabled,
        policy.separator_is_explicit,
        policy.options if REPLICATION_POLICY_KEY in custom_class_keys(policy) else {},
    )


def _comparable(value: object) -> object:
    """Drop what only messages need, such as the key of a replication factor."""
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
    """Return the keys whose effective values differ, as spelled in the newer file."""
    before, after = _by_place(old.report.effective), _by_place(new.report.effective)
    names: dict[str, None] = {}
    for place in {**before, **after}:
        one, other = before.get(place), after.get(place)
        if (one and one.text) != (other and other.text):
            names[_key_in_file(flow, one, other)] = None
    custom = custom_class_keys(new.settings.policy) | custom_class_keys(old.settings.policy)
    if custom or not names:
        known = {key for _, key in (*before, *after)}
        texts = old.settings.policy.options, new.settings.policy.options
        others = {k for text in texts for k in text if not k.startswith(_SIDES)} - known
        differing = sorted(k for k in others if texts[0].get(k) != texts[1].get(k))
        names.update(dict.fromkeys(differing))
    return tuple(names) or tuple(dict.fromkeys(_stores(old.settings, new.settings)))


def _stores(old: FlowSettings, new: FlowSettings) -> Iterator[str]:
    """Return the keys of stores with the same path and another content."""
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


def _key_in_file(flow: Flow, old: EffectiveValue | None, new: EffectiveValue | None) -> str:
    written = [one for one in (new, old) if one is not None]
    origins = [one.origin for one in written if one.origin.line] or [Origin(written[0].key)]
    return origins[0].key.removeprefix(f"{flow}.")


def describe_changes(name: str, changes: ConfigChanges, later: Collection[str] = ()) -> str:
    """Format the changes for the log; `later` are keys that need a restart of the process."""
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
        parts.append("metrics server restarted")
    if changes.rest_credentials_changed:
        parts.append("certificates or users of the REST API changed")
    if changes.log_changed:
        parts.append("log settings changed")
    if not parts:
        parts.append("nothing to do")
    if changes.untouched:
        parts.append(f"{counted(changes.untouched, 'flow')} untouched")
    if later:
        takes = "takes" if len(later) == 1 else "take"
        parts.append(f"{_listed(later)} {takes} effect at the next start")
    return f"{name} was reloaded: {'; '.join(parts)}"


def _in_brackets(keys: Collection[str]) -> str:
    if not keys:
        return ""
    shown, more = list(keys)[:_MANY_KEYS], len(keys) - _MANY_KEYS
    return f" ({_listed(shown)}{and_more(more)})"


def _listed(items: Iterable[object]) -> str:
    return ", ".join(str(item) for item in items)


def flow_groups(read: Mapping[Flow, GroupSettings]) -> dict[Flow, GroupSettings]:
    """Return the group of each flow, distinct on its target."""
    uses = Counter((flow.target, group.group_id) for flow, group in read.items())
    return {
        flow: group
        if uses[flow.target, group.group_id] == 1
        else replace(group, group_id=f"{group.group_id}-{flow.source}")
        for flow, group in read.items()
    }
