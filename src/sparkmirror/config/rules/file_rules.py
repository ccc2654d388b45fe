# SPDX-License-Identifier: Apache-2.0
"""Notices about a mirror's or a worker's file.

They report repeated keys, unknown clusters, keys without effect, and contradictions.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator

from sparkmirror.config.files.config_providers import undeclared_provider_warning
from sparkmirror.config.files.config_reader import ConfigReader
from sparkmirror.config.files.layering import Origin
from sparkmirror.config.files.notices import ConfigReport, Notice, NoticeLevel, notice_at_line
from sparkmirror.config.files.properties import PropertiesFile, Property
from sparkmirror.config.keys.client_keys import IGNORED_CLIENT_KEYS
from sparkmirror.config.keys.connector_keys import DEPRECATED
from sparkmirror.config.keys.rest_keys import HTTPS_PREFIX
from sparkmirror.config.keys.table import CLIENT, CONNECTOR, TOP_LEVEL, nearest_name
from sparkmirror.config.keys.value_types import InvalidValueError, valid_topic_characters
from sparkmirror.config.keys.worker_keys import (
    BYTE_ARRAY_CONVERTER,
    GLOBAL_WORKER_PREFIXES,
    IGNORED_PREFIXES,
    IGNORED_WORKER_CONFIG_KEYS,
    STORAGES,
    WORKER_CONFIG_KEYS,
)
from sparkmirror.config.rules.flow_rules import check_group_timeouts, note_preparing
from sparkmirror.config.rules.key_placement import (
    KeyNotice,
    check_cluster_key,
    check_flow_key,
    check_global_key,
    check_https_key,
)
from sparkmirror.config.settings import FlowSettings
from sparkmirror.config.worker_settings import OverridePolicy, WorkerSettings
from sparkmirror.model import Flow

_ARROW = "->"

_KNOWN = frozenset(key.name for key in WORKER_CONFIG_KEYS)
_CONVERTERS = ("key.converter", "value.converter", "header.converter")
_ALLOWLIST = "connector.client.config.override.allowlist"


def alias_notices(aliases: Collection[str], entry: Property) -> list[Notice]:
    """Report invalid aliases in `clusters`."""
    found = []
    for alias in aliases:
        try:
            valid_topic_characters(alias)
        except InvalidValueError as error:
            message = f"clusters: an alias {error}."
            found.append(notice_at_line(NoticeLevel.ERROR, "clusters", entry.line, message))
    return found


def file_notices(file: PropertiesFile, aliases: Collection[str]) -> Iterator[Notice]:
    """Return the notices about single lines of a mirror's file."""
    yield from _repeated_keys(file)
    for entry in file.entries.values():
        if entry.key.startswith("spark.") or (_ARROW not in entry.key and not aliases):
            continue  # prefixes cannot be checked without clusters
        yield from _top_level_value(entry)
        for notice in _key_notices(file, entry, aliases):
            yield notice_at_line(notice.level, entry.key, entry.line, notice.text)


def _repeated_keys(file: PropertiesFile) -> Iterator[Notice]:
    for entry in file.repeated:
        winner = file.entries[entry.key]
        message = f"{entry.key} is repeated; the last one, line {winner.line}, is used."
        yield notice_at_line(NoticeLevel.WARNING, entry.key, entry.line, message)


def unused_consumer_notices(
    file: PropertiesFile, aliases: Collection[str], enabled: Collection[Flow]
) -> Iterator[Notice]:
    """Report consumer keys of clusters that no enabled flow reads."""
    sources = {flow.source for flow in enabled}
    for entry in file.entries.values():
        alias, _, rest = entry.key.partition(".consumer.")
        if enabled and rest and alias in aliases and alias not in sources:
            message = f"{entry.key} does nothing: no enabled flow reads from {alias}."
            yield notice_at_line(NoticeLevel.INFO, entry.key, entry.line, message)


def shared_transactional_id_notices(enabled: Collection[FlowSettings]) -> Iterator[Notice]:
    """Report exactly-once flows that would fence each other: their transactional ids are equal."""
    holders: dict[tuple[str, str], Flow] = {}
    for settings in enabled:
        if not settings.transactions.is_enabled:
            continue
        flow = settings.flow
        other = holders.setdefault((flow.target, settings.transactions.id_prefix), flow)
        if other != flow:
            key = f"{flow.target}.group.id"
            message = (
                f"{key} is the same for {other} and {flow}: their transactional ids would be the "
                "same, and each would fence the other. Remove the line."
            )
            yield notice_at_line(NoticeLevel.ERROR, key, 0, message)


def _key_notices(
    file: PropertiesFile, entry: Property, aliases: Collection[str]
) -> Iterator[KeyNotice]:
    key = entry.key
    if _ARROW in key:
        yield from _flow_line(file, entry, aliases)
        return
    if entry.text.startswith(_ARROW):
        yield KeyNotice(
            NoticeLevel.ERROR,
            f"{key} {entry.text.partition('=')[0]}: a space ends a key; write "
            f"{key}{_ARROW}B.<key> without spaces.",
        )
        return
    if key.startswith("config.providers."):
        sentence = undeclared_provider_warning(file, key)
        if sentence:
            yield KeyNotice(NoticeLevel.WARNING, sentence)
        return
    alias = max((a for a in aliases if key.startswith(f"{a}.")), key=len, default=None)
    notice = check_global_key(key, aliases)
    if alias is not None and notice is not None:
        rest = key.removeprefix(f"{alias}.")
        notice = check_cluster_key(alias, rest)
        if rest.startswith(GLOBAL_WORKER_PREFIXES) and rest in file.entries and notice is None:
            winner = file.entries[rest]
            notice = KeyNotice(
                NoticeLevel.WARNING,
                f"{key} is overridden by {rest} on line {winner.line}: for these keys the global "
                "line wins.",
            )
    if notice is not None:
        yield notice


def _flow_line(
    file: PropertiesFile, entry: Property, aliases: Collection[str]
) -> Iterator[KeyNotice]:
    key = entry.key
    for source in aliases:
        for target in aliases:
            flow = Flow(source, target)
            if not key.startswith(f"{flow}."):
                continue
            rest = key.removeprefix(f"{flow}.")
            if source == target:
                yield _self_flow_notice(flow, key, rest, entry.text)
                return
            notice = (
                check_flow_key(flow, rest)
                or _overridden(file, flow, rest)
                or _trailing_space(key, rest, entry)
            )
            if notice is not None:
                yield notice
            return
    yield KeyNotice(NoticeLevel.ERROR, f"{key}: {_unknown_alias(key, aliases)}")


def _self_flow_notice(flow: Flow, key: str, rest: str, text: str) -> KeyNotice:
    if rest == "enabled" and text.strip().lower() == "true":
        return KeyNotice(
            NoticeLevel.ERROR,
            f"{key}=true: a flow cannot copy {flow.source} to itself; name another target or "
            "remove the line.",
        )
    return KeyNotice(
        NoticeLevel.WARNING, f"{key} does nothing: a flow cannot copy a cluster to itself."
    )


def _overridden(file: PropertiesFile, flow: Flow, rest: str) -> KeyNotice | None:
    """Warn about `A->B.consumer.x` if `A.consumer.x` is set, which wins in MM2."""
    for role, side, alias in (
        ("consumer", "source", flow.source),
        ("admin", "source", flow.source),
        ("admin", "target", flow.target),
    ):
        winner = file.entries.get(f"{alias}.{rest}")
        if rest.startswith(f"{role}.") and winner is not None:
            return KeyNotice(
                NoticeLevel.WARNING,
                f"{flow}.{rest} is overridden by {winner.key} on line {winner.line}; write "
                f"{flow}.{side}.{rest} instead.",
            )
    return None


def _trailing_space(key: str, rest: str, entry: Property) -> KeyNotice | None:
    """Warn about spaces around `true`: MM2 compares the text of `enabled` untrimmed."""
    text = entry.text.lower()
    if rest == "enabled" and text != "true" and text.strip() == "true":
        return KeyNotice(NoticeLevel.WARNING, f"{key}: there is a space after true; remove it.")
    return None


def _unknown_alias(key: str, aliases: Collection[str]) -> str:
    source, _, rest = key.partition(_ARROW)
    target = rest.partition(".")[0]
    unknown = [name for name in dict.fromkeys((source, target)) if name not in aliases]
    if not unknown:
        return f"there is no key after the flow; write for example {source}{_ARROW}{target}.topics."
    names = " and ".join(repr(name) for name in unknown)
    meant = nearest_name(unknown[0], aliases)
    if meant:
        hint = f"did you mean {meant!r}?"
    else:
        hint = f"it names {', '.join(aliases) or 'nothing'}. Add it there or remove the line."
    return f"clusters does not name {names}; {hint}"


def _top_level_value(entry: Property) -> Iterator[Notice]:
    declared = TOP_LEVEL.get(entry.key)
    if declared is None or entry.key == "clusters" or "${" in entry.text:
        return
    try:
        declared.parse(entry.text)
    except InvalidValueError as error:
        yield notice_at_line(NoticeLevel.ERROR, entry.key, entry.line, f"{entry.key} {error}.")


def worker_file_notices(file: PropertiesFile) -> Iterator[Notice]:
    """Return the notices about single lines of a worker's file."""
    yield from _repeated_keys(file)
    for entry in file.entries.values():
        notice = _check_worker_key(file, entry.key)
        if notice is not None:
            yield notice_at_line(notice.level, entry.key, entry.line, notice.text)


def _check_worker_key(file: PropertiesFile, key: str) -> KeyNotice | None:  # noqa: PLR0911 - a list of cases
    if (
        key in _KNOWN
        or key in CLIENT["admin"]
        or key.startswith(("spark.", "producer.", *STORAGES))
    ):
        return None
    if key.startswith(HTTPS_PREFIX):
        return check_https_key(key)
    if key in IGNORED_CLIENT_KEYS["admin"]:
        return None  # reported when the worker's client is read
    if key in IGNORED_WORKER_CONFIG_KEYS:
        return KeyNotice(NoticeLevel.INFO, f"{key} is ignored: {IGNORED_WORKER_CONFIG_KEYS[key]}.")
    if key.startswith("config.providers."):
        sentence = undeclared_provider_warning(file, key)
        return KeyNotice(NoticeLevel.WARNING, sentence) if sentence else None
    reason = next((IGNORED_PREFIXES[p] for p in IGNORED_PREFIXES if key.startswith(p)), None)
    if reason is not None and key not in CONNECTOR:
        return KeyNotice(NoticeLevel.INFO, f"{key} is ignored: {reason}.")
    if key == "clusters" or "->" in key:
        return KeyNotice(
            NoticeLevel.ERROR,
            f"{key} is a key of MirrorMaker's dedicated mode; start a mirror with "
            "`sparkmirror run`.",
        )
    if key in CONNECTOR or key in DEPRECATED:
        return KeyNotice(
            NoticeLevel.WARNING,
            f"{key} does nothing here: it is a key of a connector's configuration.",
        )
    meant = nearest_name(key, (*_KNOWN, *CLIENT["admin"]))
    if meant is None:
        return KeyNotice(NoticeLevel.WARNING, f"{key} is unknown and does nothing.")
    return KeyNotice(
        NoticeLevel.WARNING, f"{key} is unknown and does nothing; did you mean {meant}?"
    )


def check_worker(settings: WorkerSettings, reader: ConfigReader, report: ConfigReport) -> None:
    """Report contradictions between the keys of a worker."""
    check_group_timeouts(settings.group, reader, report)
    _topics(settings, reader, report)
    _rest(settings, reader, report)
    _converters(reader, report)
    _overrides(settings, reader, report)
    _signing(settings, reader, report)
    note_preparing(settings.exactly_once, reader, report)


def _topics(settings: WorkerSettings, reader: ConfigReader, report: ConfigReport) -> None:
    storage = settings.internal_topics
    holders: dict[str, str] = {}
    for key, topic in (
        ("config.storage.topic", storage.configs),
        ("offset.storage.topic", storage.offsets),
        ("status.storage.topic", storage.status),
    ):
        other = holders.setdefault(topic, key)
        if topic and other != key:
            report.error(
                reader.value(key),
                key,
                f"{key} and {other} name the same topic {topic!r}: they must differ.",
            )
    for name in STORAGES:
        policy = reader.resolved_text(f"{name}.cleanup.policy")
        if policy is not None and policy.strip() != "compact":
            origin = reader.origin(f"{name}.cleanup.policy")
            report.warn(origin, f"{origin.key} is ignored: the topic is always compacted.")
    partitions = reader.origin("config.storage.partitions")
    if partitions.line:
        report.warn(
            partitions,
            "config.storage.partitions is ignored: the topic always has one partition.",
            NoticeLevel.INFO,
        )


def _rest(settings: WorkerSettings, reader: ConfigReader, report: ConfigReport) -> None:
    if not reader.is_in_file("listeners") and not reader.is_in_file("rest.host.name"):
        report.warn(
            Origin("listeners"),
            f"listeners is not set: the REST API is served at {settings.rest.listeners[0]}, which "
            "other machines, and workers of the group on them, cannot reach. Connect's default is "
            "listeners=http://:8083, every interface of the machine.",
        )
    for name in ("rest.port", "rest.host.name"):
        if not reader.is_in_file(name):
            continue
        if reader.is_in_file("listeners"):
            report.warn(reader.origin(name), f"{name} does nothing: listeners wins.")
        else:
            report.warn(
                reader.origin(name),
                f"{name} is deprecated: set listeners=http://<host>:<port>.",
                NoticeLevel.INFO,
            )
    for name in ("rest.advertised.host.name", "rest.host.name", "group.id"):
        text = reader.resolved_text(name) or ""
        if text.strip()[:1] in ("'", '"'):
            effect = "they are removed" if "host" in name else "they are part of the name"
            report.warn(reader.origin(name), f"{name} has quotes around its value: {effect}.")


def _converters(reader: ConfigReader, report: ConfigReport) -> None:
    for name in _CONVERTERS:
        converter = reader.string(name)
        if converter and converter != BYTE_ARRAY_CONVERTER:
            report.warn(
                reader.origin(name),
                f"{name}={converter} has no effect: records are always copied raw, as "
                "ByteArrayConverter would.",
                NoticeLevel.INFO,
            )


def check_converters(connector: ConfigReader, worker: ConfigReader, report: ConfigReport) -> None:
    """Warn if the converter in effect, of connector or worker, is no ByteArrayConverter."""
    for name in _CONVERTERS:
        holder = connector if connector.is_in_file(name) else worker
        converter = (holder.resolved_text(name) or "").strip()
        if converter and converter != BYTE_ARRAY_CONVERTER:
            place = "" if holder is connector else " of the worker"
            report.warn(
                Origin(name),
                f"{name}={converter}{place} is not used: records are always copied raw, as "
                "ByteArrayConverter would.",
            )


def _overrides(settings: WorkerSettings, reader: ConfigReader, report: ConfigReport) -> None:
    if reader.is_in_file(_ALLOWLIST) and settings.overrides.policy is not OverridePolicy.ALLOWLIST:
        report.warn(
            reader.origin(_ALLOWLIST),
            f"{_ALLOWLIST} does nothing without connector.client.config.override.policy=Allowlist.",
        )


def _signing(settings: WorkerSettings, reader: ConfigReader, report: ConfigReport) -> None:
    signing, key = settings.signing, "inter.worker.verification.algorithms"
    if signing.signature_algorithm not in signing.accepted_algorithms:
        report.error(
            reader.value(key),
            key,
            f"{key} must contain inter.worker.signature.algorithm "
            f"({signing.signature_algorithm}), or workers reject each other's requests.",
        )
