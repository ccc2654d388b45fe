# SPDX-License-Identifier: Apache-2.0
"""The one table: every key that sparkmirror knows, by the place where it is written.

The rows stand in the `keys_...` modules beside it; this module joins them and
answers the questions that parsing, `check` and the reference page ask.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from sparkmirror.config.key import Key
from sparkmirror.config.keys_client import (
    ADMIN_KEYS,
    CONSUMER_KEYS,
    IGNORED,
    PRODUCER_KEYS,
)
from sparkmirror.config.keys_connector import (
    CONNECT_KEYS,
    CONNECTOR_KEYS,
    DEPRECATED,
    FLOW_ONLY_KEYS,
    OWN_KEYS,
    REMOVED,
    SHARED_KEYS,
)
from sparkmirror.config.keys_mirror import CHECKPOINT_KEYS, HEARTBEAT_KEYS, SOURCE_KEYS
from sparkmirror.config.keys_policies import POLICY_KEYS
from sparkmirror.config.keys_security import OAUTH_KEYS, REACH_KEYS, SECURITY_KEYS
from sparkmirror.config.keys_worker import DRIVER_KEYS, IGNORED_WORKER, WORKER_KEYS
from sparkmirror.config.keys_worker_file import (
    CONNECT_WORKER_KEYS,
    GROUP_KEYS,
    IGNORED_PREFIXES,
    IGNORED_WORKER_FILE,
    SERVER_KEYS,
    TOPIC_KEYS,
)


def _by_name(keys: Iterable[Key]) -> dict[str, Key]:
    return {key.name: key for key in keys}


DRIVER = _by_name(DRIVER_KEYS)
CONNECTOR = _by_name((*CONNECTOR_KEYS, *FLOW_ONLY_KEYS))
WORKER = _by_name(WORKER_KEYS)
SECURITY = _by_name(REACH_KEYS)
CLIENT = {
    "consumer": _by_name((*REACH_KEYS, *CONSUMER_KEYS)),
    "producer": _by_name((*REACH_KEYS, *PRODUCER_KEYS)),
    "admin": _by_name((*REACH_KEYS, *ADMIN_KEYS)),
}
CLIENT_ROLES = tuple(CLIENT)

# The names that pass from the global level into every flow; MM2 drops all others.
GLOBAL_CONNECTOR_NAMES = frozenset(
    {*(key.name for key in CONNECTOR_KEYS), *SECURITY, *DEPRECATED} - {"bootstrap.servers"}
)


@dataclass(frozen=True, slots=True)
class Section:
    """A part of the reference page: where its keys are written, and the keys."""

    title: str
    written: str
    keys: tuple[Key, ...]
    ignored: tuple[tuple[str, str], ...] = ()  # accepted without effect: name, why


SECTIONS = (
    Section("Top level", "once per file", DRIVER_KEYS),
    Section("All connectors", "`<key>` or `A->B.<key>`", SHARED_KEYS),
    Section("Copying", "`<key>` or `A->B.<key>`", SOURCE_KEYS),
    Section("Consumer groups", "`<key>` or `A->B.<key>`", CHECKPOINT_KEYS),
    Section("Heartbeats", "`<key>` or `A->B.<key>`", HEARTBEAT_KEYS),
    Section("Sparkmirror's own", "`<key>` or `A->B.<key>`", OWN_KEYS),
    Section("When something goes wrong", "`<key>` or `A->B.<key>`", POLICY_KEYS),
    Section("Connect", "`<key>` or `A->B.<key>`", CONNECT_KEYS),
    Section("One flow only", "`A->B.<key>`; does nothing globally", FLOW_ONLY_KEYS),
    Section(
        "Worker",
        "`B.<key>`, B being the target; the storage keys also globally, where they win",
        WORKER_KEYS,
        tuple(sorted(IGNORED_WORKER.items())),
    ),
    Section("Reaching a cluster", "`A.<key>`, or `<key>` for all clusters", SECURITY_KEYS),
    Section(
        "Strimzi's keys for tokens",
        "`A.<key>`, or as options of the line `sasl.jaas.config`, as Strimzi has them",
        OAUTH_KEYS,
    ),
    Section(
        "Reading the source",
        "`A.consumer.<key>`; `A->B.source.consumer.<key>` for one flow",
        CONSUMER_KEYS,
        tuple(sorted(IGNORED["consumer"].items())),
    ),
    Section(
        "Writing the target",
        "`B.producer.<key>`; `A->B.producer.override.<key>` for one flow",
        PRODUCER_KEYS,
        tuple(sorted(IGNORED["producer"].items())),
    ),
    Section(
        "Administrative clients",
        "`A.admin.<key>`; `A->B.source.admin.<key>` or `A->B.target.admin.<key>` for one flow",
        ADMIN_KEYS,
        tuple(sorted(IGNORED["admin"].items())),
    ),
)

# A Connect worker has a file of its own, where keys stand without a cluster before them.
WORKER_SECTIONS = (
    Section("Topics and positions", "`<key>` in the worker's file", TOPIC_KEYS),
    Section("The group of workers", "`<key>` in the worker's file", GROUP_KEYS),
    Section(
        "What connectors may do",
        "`<key>` in the worker's file",
        CONNECT_WORKER_KEYS,
        tuple(sorted(IGNORED_WORKER_FILE.items())),
    ),
    Section(
        "REST and figures",
        "`<key>` in the worker's file",
        SERVER_KEYS,
        tuple((f"{prefix}*", why) for prefix, why in sorted(IGNORED_PREFIXES.items())),
    ),
)


def all_keys() -> Iterator[Key]:
    """Every declared key, each once per section it stands in."""
    for section in (*SECTIONS, *WORKER_SECTIONS):
        yield from section.keys


def differing_defaults() -> tuple[Key, ...]:
    """The keys whose default differs from MM2's on purpose, each with its reason."""
    seen = {key.name: key for key in all_keys() if key.mm2_default is not None}
    return tuple(seen.values())


def nearest(name: str, known: Iterable[str]) -> str | None:
    """The known name that `name` was probably meant to be."""
    close = difflib.get_close_matches(name, list(known), n=1, cutoff=0.75)
    return close[0] if close else None


def is_secret(name: str) -> bool:
    """Whether a key holds a secret, under whatever prefix it is written.

    A key of the table says so itself. One that nobody knows, misspelt or of somebody's plugin, is
    taken for what it sounds like.
    """
    parts = name.split(".")
    endings = (".".join(parts[at:]) for at in range(len(parts)))
    known = next((_KNOWN[one] for one in endings if one in _KNOWN), None)
    if known is not None:
        return known
    return _SOUNDS_SECRET.search(name) is not None and not _SOUNDS_HARMLESS.search(name)


_KNOWN = {key.name: key.is_secret for key in all_keys()}
_SOUNDS_SECRET = re.compile(
    r"passw|passphrase|pwd|secret|token|credential|jaas|user.?info|authorization|keystore.?key"
    r"|(private|api|access|account|shared).?key",
    re.IGNORECASE,
)
_SOUNDS_HARMLESS = re.compile(
    r"\.(class|url|uri|location|path|file|type|source|algorithm|enabled?|ms|seconds)$",
    re.IGNORECASE,
)


__all__ = [
    "CLIENT",
    "CLIENT_ROLES",
    "CONNECTOR",
    "DEPRECATED",
    "DRIVER",
    "GLOBAL_CONNECTOR_NAMES",
    "IGNORED",
    "IGNORED_WORKER",
    "REMOVED",
    "SECTIONS",
    "SECURITY",
    "WORKER",
    "WORKER_SECTIONS",
    "Section",
    "all_keys",
    "differing_defaults",
    "is_secret",
    "nearest",
]
