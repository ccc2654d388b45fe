# SPDX-License-Identifier: Apache-2.0
"""All keys, by the place where they are written.

The rows are in the `*_keys` modules. This module joins them for parsing, `check` and the reference
page.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from sparkmirror.config.keys.client_keys import (
    ADMIN_KEYS,
    CONSUMER_KEYS,
    IGNORED_CLIENT_KEYS,
    PRODUCER_KEYS,
)
from sparkmirror.config.keys.config_def import ConfigKey
from sparkmirror.config.keys.connector_keys import (
    CONNECT_KEYS,
    CONNECTOR_KEYS,
    DEPRECATED,
    FLOW_ONLY_KEYS,
    INCIDENT_POLICY_KEYS,
    SHARED_KEYS,
    SPARKMIRROR_KEYS,
)
from sparkmirror.config.keys.mirror_keys import CHECKPOINT_KEYS, HEARTBEAT_KEYS, SOURCE_KEYS
from sparkmirror.config.keys.security_keys import (
    ALL_SECURITY_KEYS,
    KAFKA_SECURITY_KEYS,
    STRIMZI_OAUTH_KEYS,
)
from sparkmirror.config.keys.worker_keys import (
    CONNECTOR_PERMISSION_KEYS,
    GROUP_KEYS,
    IGNORED_PREFIXES,
    IGNORED_WORKER_CONFIG_KEYS,
    IGNORED_WORKER_KEYS,
    SERVER_KEYS,
    TOP_LEVEL_KEYS,
    TOPIC_KEYS,
    WORKER_KEYS,
)


def by_name(keys: Iterable[ConfigKey]) -> dict[str, ConfigKey]:
    """Return a table of keys by name."""
    return {key.name: key for key in keys}


TOP_LEVEL = by_name(TOP_LEVEL_KEYS)
CONNECTOR = by_name((*CONNECTOR_KEYS, *FLOW_ONLY_KEYS))
WORKER = by_name(WORKER_KEYS)
SECURITY = by_name(ALL_SECURITY_KEYS)
CLIENT = {
    "consumer": by_name((*ALL_SECURITY_KEYS, *CONSUMER_KEYS)),
    "producer": by_name((*ALL_SECURITY_KEYS, *PRODUCER_KEYS)),
    "admin": by_name((*ALL_SECURITY_KEYS, *ADMIN_KEYS)),
}
CLIENT_ROLES = tuple(CLIENT)

# The names that flows inherit from the global level; MM2 drops all others.
GLOBAL_CONNECTOR_NAMES = frozenset(
    {*(key.name for key in CONNECTOR_KEYS), *SECURITY, *DEPRECATED} - {"bootstrap.servers"}
)


@dataclass(frozen=True, slots=True)
class Section:
    """A section of the reference page: where its keys are written, and the keys."""

    title: str
    written: str
    keys: tuple[ConfigKey, ...]
    ignored: tuple[tuple[str, str], ...] = ()  # accepted without effect: name, reason


SECTIONS = (
    Section("Top level", "once per file", TOP_LEVEL_KEYS),
    Section("All connectors", "`<key>` or `A->B.<key>`", SHARED_KEYS),
    Section("Copying", "`<key>` or `A->B.<key>`", SOURCE_KEYS),
    Section("Consumer groups", "`<key>` or `A->B.<key>`", CHECKPOINT_KEYS),
    Section("Heartbeats", "`<key>` or `A->B.<key>`", HEARTBEAT_KEYS),
    Section("Sparkmirror's own", "`<key>` or `A->B.<key>`", SPARKMIRROR_KEYS),
    Section("When something goes wrong", "`<key>` or `A->B.<key>`", INCIDENT_POLICY_KEYS),
    Section("Connect", "`<key>` or `A->B.<key>`", CONNECT_KEYS),
    Section("One flow only", "`A->B.<key>`; does nothing globally", FLOW_ONLY_KEYS),
    Section(
        "Worker",
        "`B.<key>`, B being the target; the storage keys also globally, where they win",
        WORKER_KEYS,
        tuple(sorted(IGNORED_WORKER_KEYS.items())),
    ),
    Section("Reaching a cluster", "`A.<key>`, or `<key>` for all clusters", KAFKA_SECURITY_KEYS),
    Section(
        "Strimzi's keys for tokens",
        "`A.<key>`, or as options of the line `sasl.jaas.config`, as Strimzi has them",
        STRIMZI_OAUTH_KEYS,
    ),
    Section(
        "Reading the source",
        "`A.consumer.<key>`; `A->B.source.consumer.<key>` for one flow",
        CONSUMER_KEYS,
        tuple(sorted(IGNORED_CLIENT_KEYS["consumer"].items())),
    ),
    Section(
        "Writing the target",
        "`B.producer.<key>`; `A->B.producer.override.<key>` for one flow",
        PRODUCER_KEYS,
        tuple(sorted(IGNORED_CLIENT_KEYS["producer"].items())),
    ),
    Section(
        "Administrative clients",
        "`A.admin.<key>`; `A->B.source.admin.<key>` or `A->B.target.admin.<key>` for one flow",
        ADMIN_KEYS,
        tuple(sorted(IGNORED_CLIENT_KEYS["admin"].items())),
    ),
)

# The sections of a Connect worker's file, whose keys have no prefix of a cluster.
WORKER_SECTIONS = (
    Section("Topics and positions", "`<key>` in the worker's file", TOPIC_KEYS),
    Section("The group of workers", "`<key>` in the worker's file", GROUP_KEYS),
    Section(
        "What connectors may do",
        "`<key>` in the worker's file",
        CONNECTOR_PERMISSION_KEYS,
        tuple(sorted(IGNORED_WORKER_CONFIG_KEYS.items())),
    ),
    Section(
        "REST and metrics",
        "`<key>` in the worker's file",
        SERVER_KEYS,
        tuple((f"{prefix}*", why) for prefix, why in sorted(IGNORED_PREFIXES.items())),
    ),
)


def all_keys() -> Iterator[ConfigKey]:
    """Return every declared key, once per section."""
    for section in (*SECTIONS, *WORKER_SECTIONS):
        yield from section.keys


def differing_defaults() -> tuple[ConfigKey, ...]:
    """Return the keys whose default differs from MM2's, each with its reason."""
    seen = {key.name: key for key in all_keys() if key.mm2_default is not None}
    return tuple(seen.values())


def nearest_name(name: str, known: Iterable[str]) -> str | None:
    """Return the known name most similar to `name`, or None."""
    close = difflib.get_close_matches(name, list(known), n=1, cutoff=0.75)
    return close[0] if close else None
