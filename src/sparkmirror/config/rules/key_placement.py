# SPDX-License-Identifier: Apache-2.0
"""Notices about keys at the wrong level, and about unknown keys.

MM2 reads a file by prefixes and silently drops unknown keys. Each function here checks one key at
one level: a flow, a cluster, or the whole file.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass

from sparkmirror.config.files.notices import NoticeLevel
from sparkmirror.config.keys.client_keys import IGNORED_CLIENT_KEYS
from sparkmirror.config.keys.config_def import NO_JAVA_PLUGIN
from sparkmirror.config.keys.connector_keys import DEPRECATED, REMOVED
from sparkmirror.config.keys.rest_keys import HTTPS_KEYS, HTTPS_PREFIX
from sparkmirror.config.keys.table import (
    CLIENT,
    CLIENT_ROLES,
    CONNECTOR,
    GLOBAL_CONNECTOR_NAMES,
    SECURITY,
    TOP_LEVEL,
    WORKER,
    nearest_name,
)
from sparkmirror.config.keys.worker_keys import IGNORED_WORKER_KEYS, STORAGES
from sparkmirror.model import Flow

_CLIENT_PREFIXES = tuple(f"{role}." for role in CLIENT_ROLES)
_SIDE_PREFIXES = tuple(f"{side}.{role}." for side in ("source", "target") for role in CLIENT_ROLES)
_CLUSTER_KEYS = frozenset(
    f"{side}.cluster.{name}" for side in ("source", "target") for name in SECURITY
)
# Only Connect's Java plugins read keys with these prefixes.
_PLUGIN_PREFIXES = (
    "transforms.",
    "predicates.",
    "topic.creation.",
    "key.converter.",
    "value.converter.",
    "header.converter.",
    "internal.key.converter",
    "internal.value.converter",
)


@dataclass(frozen=True, slots=True)
class KeyNotice:
    """A notice about a key, without the line."""

    level: NoticeLevel
    text: str


def check_flow_key(flow: Flow, rest: str) -> KeyNotice | None:  # noqa: PLR0911 - a list of cases
    """Check `A->B.<rest>`."""
    key = f"{flow}.{rest}"
    if rest in CONNECTOR or rest.startswith(("config.providers", "producer.override.")):
        return None
    if (outdated := _old_name_notice(key, rest)) is not None:
        return outdated
    if rest.startswith(("producer.", "source.producer.", "target.producer.")):
        name = rest.partition("producer.")[2]
        return KeyNotice(
            NoticeLevel.WARNING,
            f"{key} reaches only MM2's producer of offset syncs; for records write "
            f"{flow.target}.producer.{name} or {flow}.producer.override.{name}.",
        )
    if rest.startswith("target.consumer."):
        return KeyNotice(
            NoticeLevel.INFO, f"{key} has no effect: nothing consumes from the target yet."
        )
    if rest.startswith((*_CLIENT_PREFIXES, *_SIDE_PREFIXES)):
        return None  # reported when the client is read
    if rest.removeprefix("source.cluster.").removeprefix("target.cluster.") in SECURITY:
        return None
    if rest in WORKER or rest in IGNORED_WORKER_KEYS or rest.startswith(STORAGES):
        return KeyNotice(
            NoticeLevel.WARNING,
            f"{key} does nothing for one flow: it is a worker key, write {flow.target}.{rest}.",
        )
    return _plugin(key, rest) or _unknown(key, rest, f"{flow}.", CONNECTOR)


def check_connector_key(key: str) -> KeyNotice | None:  # noqa: C901, PLR0911 - a list of cases
    """Check a key in the configuration of a connector on a Connect worker."""
    if key.startswith("config.providers"):
        return KeyNotice(
            NoticeLevel.INFO, f"{key} has no effect: the worker's file declares config providers."
        )
    if key in CONNECTOR or key.startswith(("producer.override.", "task.")):
        return None
    if (outdated := _old_name_notice(key, key)) is not None:
        return outdated
    if key.startswith(("consumer.override.", "admin.override.")):
        return KeyNotice(
            NoticeLevel.INFO,
            f"{key} has no effect: in Connect it applies to the worker's clients; for those of the "
            "connector write source.consumer., source.admin. or target.admin.",
        )
    if key.startswith(("producer.", "source.producer.", "target.producer.")):
        name = key.partition("producer.")[2]
        return KeyNotice(
            NoticeLevel.WARNING,
            f"{key} reaches only MM2's producer of offset syncs; for records write "
            f"producer.override.{name}.",
        )
    if key.startswith("target.consumer."):
        return KeyNotice(
            NoticeLevel.INFO, f"{key} has no effect: nothing consumes from the target yet."
        )
    if key.startswith((*_CLIENT_PREFIXES, *_SIDE_PREFIXES)):
        return None  # reported when the client is read
    if key in SECURITY:
        return KeyNotice(
            NoticeLevel.WARNING,
            f"{key} does nothing: a connector has two clusters, write source.cluster.{key} and "
            f"target.cluster.{key}.",
        )
    if key in _CLUSTER_KEYS:
        return None
    if key in WORKER or key in IGNORED_WORKER_KEYS or key.startswith(STORAGES):
        return KeyNotice(
            NoticeLevel.WARNING,
            f"{key} does nothing for one connector: set it in the worker's file.",
        )
    return _plugin(key, key) or _unknown(key, key, "", (*CONNECTOR, *_CLUSTER_KEYS))


def check_cluster_key(alias: str, rest: str) -> KeyNotice | None:
    """Check `A.<rest>`."""
    key = f"{alias}.{rest}"
    if rest in SECURITY or rest in WORKER or rest.startswith(STORAGES):
        return None
    if rest in IGNORED_WORKER_KEYS:
        return KeyNotice(NoticeLevel.INFO, f"{key} has no effect: {IGNORED_WORKER_KEYS[rest]}.")
    if rest in CONNECTOR or rest in DEPRECATED or rest.startswith("replication.policy."):
        return KeyNotice(
            NoticeLevel.WARNING,
            f"{key} does nothing for a cluster: write {rest} for all flows or "
            f"{alias}->B.{rest} for one.",
        )
    if rest.startswith(_CLIENT_PREFIXES):
        return None  # reported when the client is read
    return _plugin(key, rest) or _unknown(key, rest, f"{alias}.", (*SECURITY, *WORKER))


def check_global_key(key: str, aliases: Collection[str]) -> KeyNotice | None:  # noqa: PLR0911 - a list of cases
    """Check a key without the prefix of a cluster or flow."""
    if key in TOP_LEVEL:
        reason = TOP_LEVEL[key].no_effect
        return KeyNotice(NoticeLevel.INFO, f"{key} has no effect: {reason}.") if reason else None
    if key.startswith(HTTPS_PREFIX):
        return check_https_key(key)
    if (outdated := _old_name_notice(key, key)) is not None:
        return outdated
    if key in GLOBAL_CONNECTOR_NAMES or key in SECURITY or key.startswith("config.providers."):
        return None
    if key in WORKER or key in IGNORED_WORKER_KEYS or key.startswith(STORAGES):
        return _global_worker_key(key, aliases)
    if key in CONNECTOR:
        return KeyNotice(
            NoticeLevel.WARNING,
            f"{key} does nothing for the whole file: write A->B.{key} for each flow.",
        )
    if key.startswith(_CLIENT_PREFIXES):
        return KeyNotice(
            NoticeLevel.WARNING,
            f"{key} does nothing for the whole file: write {_prefixed_keys(aliases, key)}.",
        )
    return (
        _plugin(key, key)
        or _unknown_cluster(key, aliases)
        or _unknown(key, key, "", (*GLOBAL_CONNECTOR_NAMES, *TOP_LEVEL, *WORKER))
    )


def _global_worker_key(key: str, aliases: Collection[str]) -> KeyNotice | None:
    if key.startswith(STORAGES):
        return None
    if key in IGNORED_WORKER_KEYS:
        return KeyNotice(NoticeLevel.INFO, f"{key} has no effect: {IGNORED_WORKER_KEYS[key]}.")
    return KeyNotice(
        NoticeLevel.WARNING,
        f"{key} does nothing for the whole file: it is a worker key of a target, write "
        f"{_prefixed_keys(aliases, key)}.",
    )


def _prefixed_keys(aliases: Collection[str], key: str) -> str:
    return " and ".join(f"{alias}.{key}" for alias in aliases) or f"A.{key}"


def _old_name_notice(key: str, rest: str) -> KeyNotice | None:
    if rest in DEPRECATED:
        new = key.removesuffix(rest) + DEPRECATED[rest]
        return KeyNotice(NoticeLevel.WARNING, f"{key} is deprecated: write {new}.")
    if rest in REMOVED:
        return KeyNotice(NoticeLevel.INFO, f"{key} has no effect: {REMOVED[rest]}.")
    return None


def _plugin(key: str, rest: str) -> KeyNotice | None:
    if rest.startswith(_PLUGIN_PREFIXES):
        return KeyNotice(NoticeLevel.INFO, f"{key} has no effect: {NO_JAVA_PLUGIN}.")
    return None


def _unknown_cluster(key: str, aliases: Collection[str]) -> KeyNotice | None:
    """Warn about `C.bootstrap.servers` if `clusters` does not name C."""
    for known in (*SECURITY, *WORKER, *(f"{r}.{name}" for r in CLIENT for name in CLIENT[r])):
        alias = key.removesuffix(f".{known}")
        if alias != key:
            meant = nearest_name(alias, aliases)
            hint = f"did you mean {meant}.{known}?" if meant else "add it there or remove the line."
            return KeyNotice(
                NoticeLevel.WARNING,
                f"{key} does nothing: clusters does not name {alias}; {hint}",
            )
    return None


def _unknown(key: str, rest: str, prefix: str, known: Iterable[str]) -> KeyNotice:
    meant = nearest_name(rest, known)
    if meant is None:
        return KeyNotice(
            NoticeLevel.WARNING, f"{key} is unknown; only a custom class could read it."
        )
    return KeyNotice(
        NoticeLevel.WARNING, f"{key} is unknown and does nothing; did you mean {prefix}{meant}?"
    )


def check_https_key(key: str) -> KeyNotice | None:
    """Check a key that starts with `listeners.https.`."""
    name = key.removeprefix(HTTPS_PREFIX)
    known = {one.name: one for one in HTTPS_KEYS}
    return None if name in known else _unknown(key, name, HTTPS_PREFIX, known)


def unused_client_key_notice(key: str, name: str, role: str) -> KeyNotice:
    """Return the notice about a client key without effect; `name` is the key without its prefix."""
    reason = IGNORED_CLIENT_KEYS[role].get(name)
    if reason is not None:
        return KeyNotice(NoticeLevel.INFO, f"{key} is ignored: {reason}.")
    return _unknown(key, name, key.removesuffix(name), (*CLIENT[role], *IGNORED_CLIENT_KEYS[role]))
