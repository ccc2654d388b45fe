# SPDX-License-Identifier: Apache-2.0
"""What changes for one file when sparkmirror replaces Java MirrorMaker 2. Pure.

Built from the key table (defaults and their reasons), the notices of `check`, and the names of the
flow's group and internal topics.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from sparkmirror.config.config_changes import flow_groups
from sparkmirror.config.files.notices import Notice, NoticeLevel
from sparkmirror.config.keys.config_def import Importance
from sparkmirror.config.keys.table import (
    CLIENT,
    CONNECTOR,
    GLOBAL_CONNECTOR_NAMES,
    TOP_LEVEL,
    WORKER,
)
from sparkmirror.policy.loading import load_policy
from sparkmirror.policy.sparkmirror_topics import dead_letters_topic, ledger_topic
from sparkmirror.topology.internal_topics import Side, internal_topics

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from sparkmirror.config.flows.flow_settings import ParsedFlow
    from sparkmirror.config.keys.config_def import ConfigKey
    from sparkmirror.config.mirror_config import MirrorConfig
    from sparkmirror.config.settings import FlowSettings
    from sparkmirror.model import Flow

# What the dedicated mode of MM2 does; the key table has the default of Connect's workers.
_LISTENERS_OF_MM2 = "not served"
_OWN_TOPICS = ("mm2-offset-map", "mm2-producers", "mm2-ledger", "mm2-dead-letters", "mm2-acls")
_ROLES = {
    "source consumer": "consumer",
    "target producer": "producer",
    "source admin": "admin",
    "target admin": "admin",
}


@dataclass(frozen=True, slots=True)
class DifferentDefault:
    """A key that the file does not set, and whose default differs from MM2's."""

    key: str
    mm2: str
    here: str
    why: str
    lines: tuple[str, ...]  # add them to keep MM2's value


@dataclass(frozen=True, slots=True)
class FlowMigration:
    """The group and topics that one flow shares with Java MM2."""

    flow: Flow
    group: str  # on the target; excludes a Java MM2 with the same file
    positions: str  # on the target
    shared_topics: tuple[str, ...]  # MM2's own: `name on cluster`
    new_topics: tuple[str, ...]  # that MM2 does not have
    syncs_groups: bool


@dataclass(frozen=True, slots=True)
class JavaMigration:
    """All differences for one file."""

    file: str
    defaults: tuple[DifferentDefault, ...]
    flows: tuple[FlowMigration, ...]
    notices: tuple[Notice, ...]  # of `check`; errors and warnings first

    @property
    def ok(self) -> bool:
        return all(one.level is not NoticeLevel.ERROR for one in self.notices)

    @property
    def to_resolve(self) -> tuple[Notice, ...]:
        return tuple(one for one in self.notices if one.level is not NoticeLevel.INFO)

    @property
    def without_effect(self) -> tuple[Notice, ...]:
        """Lines that MM2 uses, and that change nothing here."""
        return tuple(one for one in self.notices if one.level is NoticeLevel.INFO and one.where)


def plan_java_migration(config: MirrorConfig) -> JavaMigration:
    """Compare with Java MM2. Raises ConfigError if the file has no flow; reads only the file."""
    notices = tuple(config.all_notices())
    is_valid = all(one.level is not NoticeLevel.ERROR for one in notices)
    parsed = {flow: config.parsed_flow(flow) for flow in config.flows()}
    enabled = {flow: one for flow, one in parsed.items() if one.settings.enabled}
    groups = flow_groups({flow: one.group for flow, one in parsed.items()})
    flows = [
        _flow_migration(one.settings, groups[flow].group_id)
        for flow, one in enabled.items()
        if is_valid
    ]
    return JavaMigration(
        config.name,
        tuple(_different_defaults(config, enabled.values())),
        tuple(flows),
        notices,
    )


def _flow_migration(settings: FlowSettings, group: str) -> FlowMigration:
    flow = settings.flow
    names = load_policy(settings.policy, flow)
    topics = internal_topics(settings, names.replication)
    aliases = {Side.SOURCE: flow.source, Side.TARGET: flow.target}
    listed = [(one.name, f"{one.name} on {aliases[one.side]}") for one in topics]
    return FlowMigration(
        flow,
        group,
        settings.internal_topics.offsets,
        tuple(text for name, text in listed if not name.startswith(_OWN_TOPICS)),
        (
            *(text for name, text in listed if name.startswith(_OWN_TOPICS)),
            f"{ledger_topic(names.replication, flow.source)} on {flow.target}",
            f"{dead_letters_topic(names.replication, flow.source)} on {flow.target}",
        ),
        settings.checkpoint.sync_group_offsets_seconds is not None,
    )


def _different_defaults(
    config: MirrorConfig, flows: Iterable[ParsedFlow]
) -> Iterator[DifferentDefault]:
    """Yield one row per key and value, with the lines of all flows that use the default.

    Keys of low importance come last.
    """
    listeners = TOP_LEVEL["listeners"]
    if config.rest is not None and config.rest.allows_any_port:
        yield DifferentDefault(
            listeners.name,
            _LISTENERS_OF_MM2,
            str(listeners.default),
            listeners.mm2_difference_reason,
            ("listeners =",),
        )
    lines: dict[tuple[str, str, str, str], list[str]] = {}
    minor: dict[tuple[str, str, str, str], bool] = {}
    for parsed in flows:
        effective = {(one.section, one.key): one for one in parsed.report.effective}
        for (section, name), value in effective.items():
            key = _key(section, name)
            if key is None or key.mm2_default is None or value.origin.line or value.origin.profile:
                continue
            switch = effective.get((section, key.switch))
            if switch is not None and str(switch.text) == "false":
                continue  # the feature is off
            mm2 = _mm2_value(key, section)
            row = (name, mm2, str(value.text), key.mm2_difference_reason)
            minor[row] = key.importance is Importance.LOW
            line = f"{_written(section, name, parsed.settings.flow)} = {mm2}"
            if line not in lines.setdefault(row, []):
                lines[row].append(line)
    by_importance = sorted(lines, key=lambda row: minor[row])
    yield from (DifferentDefault(*row, tuple(lines[row])) for row in by_importance)


def _key(section: str, name: str) -> ConfigKey | None:
    if section in _ROLES:
        return CLIENT[_ROLES[section]].get(name)
    return (CONNECTOR if section == "connector" else WORKER).get(name)


def _mm2_value(key: ConfigKey, section: str) -> str:
    """Return MM2's default for this client: the table has `65536 (producer: 32768)`."""
    text = str(key.mm2_default)
    general, _, of_producer = text.partition(" (producer: ")
    return of_producer.rstrip(")") if section == "target producer" and of_producer else general


def _written(section: str, name: str, flow: Flow) -> str:
    """Return the key as a line of the file has it."""
    side, _, role = section.partition(" ")
    if role:
        return f"{flow.source if side == 'source' else flow.target}.{role}.{name}"
    if section == "worker":
        return name if "storage" in name else f"{flow.target}.{name}"
    return name if name in GLOBAL_CONNECTOR_NAMES else f"{flow}.{name}"


def steps_to_move(file: str, flows: Sequence[FlowMigration]) -> tuple[tuple[str, str], ...]:
    """Return the steps from Java MM2 to sparkmirror: a sentence, and a command or nothing."""
    groups = ", ".join(f"{one.group} on {one.flow.target}" for one in flows)
    clean_stop = (
        "Stop Java MM2 with SIGTERM on every machine, and wait until it has exited. Then the "
        "stored positions are complete, and copying continues at the next record. After a kill, "
        "records since the last stored position are copied twice."
    )
    metrics = (
        "Replace the JMX exporter: sparkmirror serves metrics for Prometheus if the file has a "
        "line such as metrics.port = 9404."
    )
    start = (
        "Start sparkmirror. It is on standby while a Java MM2 with this file is still a member of "
        f"its group ({groups})."
    )
    return (
        ("Check the file and every broker.", f"sparkmirror check {file} --connect"),
        ("Review what a run would create and change.", f"sparkmirror plan {file}"),
        (metrics, ""),
        (clean_stop, ""),
        (start, f"sparkmirror run {file}"),
        ("Review the positions of the consumer groups.", f"sparkmirror groups {file}"),
    )


def steps_back(file: str) -> tuple[tuple[str, str], ...]:
    """Return the steps from sparkmirror to Java MM2."""
    stop = "Stop sparkmirror with Ctrl-C or SIGTERM. It stores its positions within ten seconds."
    start = (
        "Start Java MM2 with the same file. It continues at the next record, and ignores the "
        "topics that it does not have."
    )
    return (stop, ""), (start, f"connect-mirror-maker.sh {file}")
