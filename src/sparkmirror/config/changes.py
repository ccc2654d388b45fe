# SPDX-License-Identifier: Apache-2.0
"""What differs between the configuration that runs and a newer reading of its file.

Pure: two readings in, a value out that says which pairs to start, to stop and to restart, how
much of each, and which keys are to blame. Values are compared and never shown: they may be secret.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, fields, is_dataclass, replace
from enum import Enum

from sparkmirror.config.connector_classes import ConnectorClass
from sparkmirror.config.flow_settings import FlowReading
from sparkmirror.config.layering import Origin
from sparkmirror.config.mirror_config import MirrorConfig
from sparkmirror.config.pair_groups import pair_groups
from sparkmirror.config.providers import Resolver
from sparkmirror.config.reading import Effective
from sparkmirror.config.settings import FlowSettings, MetricsSettings, PolicySettings, TopicFactor
from sparkmirror.config.worker_settings import GroupSettings, RunRest
from sparkmirror.model import Flow
from sparkmirror.policy.loading import GROUP_FILTER_KEY, REPLICATION_POLICY_KEY, own_classes

_MANY_KEYS = 8
_SIDES = ("source.", "target.")  # the clusters' own lines, known by their spelling there


@dataclass(frozen=True, slots=True)
class RunReading:
    """All that a run takes from a file, references resolved: a later look sees the same values."""

    pairs: Mapping[Flow, FlowReading]
    groups: Mapping[Flow, GroupSettings]
    spark: Mapping[str, str]
    metrics: MetricsSettings | None
    rest: RunRest | None = None
    connectors: Mapping[Flow, Mapping[ConnectorClass, Mapping[str, str]]] = field(
        default_factory=dict, repr=False
    )  # what the file says about each, flat, as MM2 would write it down
    resolver: Resolver = field(default_factory=lambda: Resolver({}), repr=False)

    @property
    def wanted_splits(self) -> dict[Flow, int]:
        """The flows that copy, and how many splits each may have."""
        enabled = [one.settings for one in self.pairs.values() if one.settings.enabled]
        return {one.flow: one.source.tasks_max for one in enabled}


def read_run(config: MirrorConfig, targets: Collection[str] = ()) -> RunReading:
    """Read a file for a run; ConfigError with every sentence if anything is wrong."""
    config.validate(targets)
    pairs = {flow: config.reading(flow) for flow in config.pairs(targets)}
    return RunReading(
        pairs,
        pair_groups({flow: one.group for flow, one in pairs.items()}),
        dict(config.spark),
        config.metrics,
        config.rest,
        {flow: {k: config.connector_texts(flow, k) for k in ConnectorClass} for flow in pairs},
        config.resolver,
    )


class Part(Enum):
    """What of a pair runs by itself and can be restarted by itself."""

    ALL = "all"
    CHECKPOINTS = "checkpoints"
    HEARTBEATS = "heartbeats"


@dataclass(frozen=True, slots=True)
class PairChange:
    """A pair that goes on with other settings; with ALL among its parts it is begun anew."""

    flow: Flow
    parts: frozenset[Part]
    keys: tuple[str, ...]

    @property
    def is_whole(self) -> bool:
        """Whether the copying is restarted, too."""
        return Part.ALL in self.parts


@dataclass(frozen=True, slots=True)
class Changes:
    """What a newer reading asks for."""

    started: tuple[Flow, ...] = ()
    stopped: tuple[Flow, ...] = ()
    changed: tuple[PairChange, ...] = ()
    untouched: int = 0
    spark_keys: tuple[str, ...] = ()
    metrics_moved: bool = False
    rest_moved: bool = False
    rest_renewed: bool = False  # only in whom it trusts, lets in, and says to be

    @property
    def is_nothing(self) -> bool:
        """Whether everything may stay as it is."""
        pairs = self.started or self.stopped or self.changed
        served = self.metrics_moved or self.rest_moved or self.rest_renewed
        return not (pairs or self.spark_keys or served)


def compare(old: RunReading, new: RunReading) -> Changes:
    """What has to be done so that `new` runs where `old` did."""
    both = [flow for flow in new.pairs if flow in old.pairs]
    changed = [
        PairChange(flow, parts, differing_keys(flow, old.pairs[flow], new.pairs[flow]))
        for flow in both
        if (parts := _parts(flow, old, new))
    ]
    spark_keys = sorted({*old.spark, *new.spark})
    rest_renewed = _is_renewed(old.rest, new.rest)
    return Changes(
        started=tuple(flow for flow in new.pairs if flow not in old.pairs),
        stopped=tuple(flow for flow in old.pairs if flow not in new.pairs),
        changed=tuple(changed),
        untouched=len(both) - len(changed),
        spark_keys=tuple(k for k in spark_keys if old.spark.get(k) != new.spark.get(k)),
        metrics_moved=old.metrics != new.metrics,
        rest_moved=old.rest != new.rest and not rest_renewed,
        rest_renewed=rest_renewed,
    )


def _is_renewed(old: RunRest | None, new: RunRest | None) -> bool:
    if old is None or new is None or old == new:
        return False
    return new.settings.differs_in_credentials_only(old.settings)


def _parts(flow: Flow, old: RunReading, new: RunReading) -> frozenset[Part]:
    if old.groups[flow] != new.groups[flow]:
        return frozenset({Part.ALL})
    return differing_parts(old.pairs[flow].settings, new.pairs[flow].settings)


def differing_parts(old: FlowSettings, new: FlowSettings) -> frozenset[Part]:
    """Which parts of a pair run with something that is no longer so; none: leave it alone."""
    if not old.enabled and not new.enabled:
        differs = _heartbeats_alone(old) != _heartbeats_alone(new)
        return frozenset({Part.ALL} if differs else ())
    if _copying(old) != _copying(new):
        return frozenset({Part.ALL})
    found = {
        Part.CHECKPOINTS: _checkpoints(old) != _checkpoints(new),
        Part.HEARTBEATS: _essence(old.heartbeat) != _essence(new.heartbeat),
    }
    return frozenset(part for part, differs in found.items() if differs)


def _copying(settings: FlowSettings) -> object:
    """All that matters to more than checkpoints or heartbeats."""
    policy, source = settings.policy, settings.source
    own = own_classes(policy)
    syncs_group_acls = source.sync_acls_seconds is not None and source.acls_scope != "topics"
    if not syncs_group_acls:  # then groups matter to checkpoints alone
        own -= {GROUP_FILTER_KEY}
        policy = replace(policy, groups=(), groups_exclude=(), group_filter_class="")
    shared = replace(policy, options=policy.options if own else {})
    return [
        (one.name, _essence(shared if one.name == "policy" else getattr(settings, one.name)))
        for one in fields(settings)
        if one.name not in {"checkpoint", "heartbeat"}
    ]


def _checkpoints(settings: FlowSettings) -> object:
    policy = settings.policy
    reads_options = GROUP_FILTER_KEY in own_classes(policy)
    return (
        _essence(settings.checkpoint),
        policy.group_filter_class,
        policy.groups,
        policy.groups_exclude,
        policy.options if reads_options else {},
    )


def _heartbeats_alone(settings: FlowSettings) -> object:
    """All that matters to a pair that copies nothing."""
    return (
        _naming(settings.policy),
        _essence(settings.heartbeat),
        _essence(settings.internal_topics),
        settings.producer,
        settings.target_admin,
    )


def _naming(policy: PolicySettings) -> object:
    return (
        policy.replication_policy_class,
        policy.separator,
        policy.internal_topic_separator_enabled,
        policy.separator_is_explicit,
        policy.options if REPLICATION_POLICY_KEY in own_classes(policy) else {},
    )


def _essence(value: object) -> object:
    """A value without what only messages need: which line gave an address or a factor."""
    if isinstance(value, TopicFactor):
        return (value.value, value.preferred)
    if is_dataclass(value):
        return [
            (one.name, _essence(getattr(value, one.name))) for one in fields(value) if one.compare
        ]
    return value


def differing_keys(flow: Flow, old: FlowReading, new: FlowReading) -> tuple[str, ...]:
    """The keys whose effective values differ, as the newer file spells them."""
    before, after = _by_place(old.report.effective), _by_place(new.report.effective)
    names: dict[str, None] = {}
    for place in {**before, **after}:
        one, other = before.get(place), after.get(place)
        if (one and one.text) != (other and other.text):
            names[_spelled(flow, one, other)] = None
    custom = own_classes(new.settings.policy) | own_classes(old.settings.policy)
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


def _by_place(effective: Iterable[Effective]) -> dict[tuple[str, str], Effective]:
    return {(one.section, one.key): one for one in effective}


def _spelled(flow: Flow, old: Effective | None, new: Effective | None) -> str:
    written = [one for one in (new, old) if one is not None]
    origins = [one.origin for one in written if one.origin.line] or [Origin(written[0].key)]
    return origins[0].key.removeprefix(f"{flow}.")


def sentence(name: str, changes: Changes, later: Collection[str] = ()) -> str:
    """One line for the log; `later` are the keys that wait for the next start."""
    parts = []
    if changes.started:
        parts.append(f"started {_listed(changes.started)}")
    if changes.stopped:
        parts.append(f"stopped {_listed(changes.stopped)}")
    for one in changes.changed:
        what = " and ".join(sorted(part.value for part in one.parts))
        of = "" if one.is_whole else f"the {what} of "
        parts.append(f"restarted {of}{one.flow}{_in_brackets(one.keys)}")
    if changes.metrics_moved:
        parts.append("metrics are served as it says")
    if changes.rest_renewed:
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
