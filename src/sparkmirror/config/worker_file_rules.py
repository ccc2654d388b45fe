# SPDX-License-Identifier: Apache-2.0
"""Remarks about a worker's file: lines that do nothing, lines that contradict each other."""

from __future__ import annotations

from collections.abc import Iterator

from sparkmirror.config.flow_rules import check_times
from sparkmirror.config.keys import CLIENT, CONNECTOR, DEPRECATED, IGNORED, nearest
from sparkmirror.config.keys_rest import HTTPS_PREFIX
from sparkmirror.config.keys_worker import STORAGES
from sparkmirror.config.keys_worker_file import (
    BYTE_ARRAY_CONVERTER,
    IGNORED_PREFIXES,
    IGNORED_WORKER_FILE,
    WORKER_FILE_KEYS,
)
from sparkmirror.config.layering import Origin
from sparkmirror.config.notices import Level, Notice, notice
from sparkmirror.config.placement import Remark, unknown_https_key
from sparkmirror.config.properties import PropertyFile
from sparkmirror.config.providers import undeclared_provider
from sparkmirror.config.reading import Reader, Report
from sparkmirror.config.settings import ExactlyOnce
from sparkmirror.config.worker_settings import OverridePolicy, WorkerSettings

_KNOWN = frozenset(key.name for key in WORKER_FILE_KEYS)
_CONVERTERS = ("key.converter", "value.converter", "header.converter")
_ALLOWLIST = "connector.client.config.override.allowlist"


def line_notices(file: PropertyFile) -> Iterator[Notice]:
    """Everything worth saying about single lines."""
    for entry in file.repeated:
        winner = file.entries[entry.key]
        message = f"{entry.key} is repeated; only the last one, line {winner.line}, counts."
        yield notice(Level.WARNING, entry.key, entry.line, message)
    for entry in file.entries.values():
        remark = _key(file, entry.key)
        if remark is not None:
            yield notice(remark.level, entry.key, entry.line, remark.text)


def _key(file: PropertyFile, key: str) -> Remark | None:  # noqa: PLR0911 - a list of cases
    if (
        key in _KNOWN
        or key in CLIENT["admin"]
        or key.startswith(("spark.", "producer.", *STORAGES))
    ):
        return None
    if key.startswith(HTTPS_PREFIX):
        return unknown_https_key(key)
    if key in IGNORED["admin"]:
        return None  # the worker's own client reports these
    if key in IGNORED_WORKER_FILE:
        return Remark(Level.INFO, f"{key} is ignored: {IGNORED_WORKER_FILE[key]}.")
    if key.startswith("config.providers."):
        sentence = undeclared_provider(file, key)
        return Remark(Level.WARNING, sentence) if sentence else None
    reason = next((IGNORED_PREFIXES[p] for p in IGNORED_PREFIXES if key.startswith(p)), None)
    if reason is not None and key not in CONNECTOR:
        return Remark(Level.INFO, f"{key} is ignored: {reason}.")
    if key == "clusters" or "->" in key:
        return Remark(
            Level.ERROR,
            f"{key} belongs to a file of MirrorMaker's dedicated mode; run such a file with "
            "`sparkmirror run`.",
        )
    if key in CONNECTOR or key in DEPRECATED:
        return Remark(
            Level.WARNING,
            f"{key} does nothing here: it belongs to the configuration of a connector.",
        )
    meant = nearest(key, (*_KNOWN, *CLIENT["admin"]))
    if meant is None:
        return Remark(Level.WARNING, f"{key} is unknown and does nothing.")
    return Remark(Level.WARNING, f"{key} is unknown and does nothing; did you mean {meant}?")


def check_worker(settings: WorkerSettings, reader: Reader, report: Report) -> None:
    """Add to the report what the lines say together."""
    check_times(settings.group, reader, report)
    _topics(settings, reader, report)
    _rest(settings, reader, report)
    _converters(reader, report)
    _overrides(settings, reader, report)
    _signing(settings, reader, report)
    if settings.exactly_once is ExactlyOnce.PREPARING:
        support = reader.origin("exactly.once.source.support")
        report.warn(
            support,
            f"{support.key}=preparing changes nothing by itself: records are written without "
            "transactions until it is enabled.",
            Level.INFO,
        )


def _topics(settings: WorkerSettings, reader: Reader, report: Report) -> None:
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
                f"{key} and {other} name the same topic {topic!r}: each needs one of its own.",
            )
    for name in STORAGES:
        policy = reader.resolved(f"{name}.cleanup.policy")
        if policy is not None and policy.strip() != "compact":
            origin = reader.origin(f"{name}.cleanup.policy")
            report.warn(origin, f"{origin.key} is ignored: the topic is always compacted.")
    partitions = reader.origin("config.storage.partitions")
    if partitions.line:
        report.warn(
            partitions,
            "config.storage.partitions is ignored: the topic always has one partition.",
            Level.INFO,
        )


def _rest(settings: WorkerSettings, reader: Reader, report: Report) -> None:
    if not reader.is_set("listeners") and not reader.is_set("rest.host.name"):
        report.warn(
            Origin("listeners"),
            f"listeners is not set: the REST API is served at {settings.rest.listeners[0]}, where "
            "other workers of the group and other machines do not reach it. Connect's default is "
            "listeners=http://:8083, every interface of the machine.",
        )
    for name in ("rest.port", "rest.host.name"):
        if not reader.is_set(name):
            continue
        if reader.is_set("listeners"):
            report.warn(reader.origin(name), f"{name} does nothing: listeners wins.")
        else:
            report.warn(
                reader.origin(name),
                f"{name} is an old spelling: write listeners=http://<host>:<port>.",
                Level.INFO,
            )
    for name in ("rest.advertised.host.name", "rest.host.name", "group.id"):
        text = reader.resolved(name) or ""
        if text.strip()[:1] in ("'", '"'):
            what = "they are left out" if "host" in name else "they are part of the name"
            report.warn(reader.origin(name), f"{name} has quotes around its value: {what}.")


def _converters(reader: Reader, report: Report) -> None:
    for name in _CONVERTERS:
        converter = reader.string(name)
        if converter and converter != BYTE_ARRAY_CONVERTER:
            report.warn(
                reader.origin(name),
                f"{name}={converter} has no effect: records are always copied raw, as "
                "ByteArrayConverter would.",
                Level.INFO,
            )


def converter_notices(connector: Reader, worker: Reader, report: Report) -> None:
    """Warn where a connector's converter in effect, its own or the worker's, is another one."""
    for name in _CONVERTERS:
        holder = connector if connector.is_set(name) else worker
        converter = (holder.resolved(name) or "").strip()
        if converter and converter != BYTE_ARRAY_CONVERTER:
            place = "" if holder is connector else " of the worker"
            report.warn(
                Origin(name),
                f"{name}={converter}{place} is not used: records are always copied raw, as "
                "ByteArrayConverter would.",
            )


def _overrides(settings: WorkerSettings, reader: Reader, report: Report) -> None:
    if reader.is_set(_ALLOWLIST) and settings.overrides.policy is not OverridePolicy.ALLOWLIST:
        report.warn(
            reader.origin(_ALLOWLIST),
            f"{_ALLOWLIST} does nothing without connector.client.config.override.policy=Allowlist.",
        )


def _signing(settings: WorkerSettings, reader: Reader, report: Report) -> None:
    signing, key = settings.signing, "inter.worker.verification.algorithms"
    if signing.signature_algorithm not in signing.accepted_algorithms:
        report.error(
            reader.value(key),
            key,
            f"{key} must hold inter.worker.signature.algorithm "
            f"({signing.signature_algorithm}), or workers refuse each other's requests.",
        )
