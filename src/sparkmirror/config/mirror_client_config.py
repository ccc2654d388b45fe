# SPDX-License-Identifier: Apache-2.0
"""The configuration of a MirrorClient: a program's own properties, or one cluster of an MM2 file.

The keys are those of Java's MirrorClientConfig. Behind `admin.` and `consumer.` Java reads only the
keys that reach the cluster; here all keys of our connections count, such as
`admin.request.timeout.ms`.
"""

from __future__ import annotations

import logging
from collections.abc import Collection, Mapping
from dataclasses import replace

from sparkmirror.config.files.config_providers import ReferenceResolver, create_resolver
from sparkmirror.config.files.config_reader import ConfigReader
from sparkmirror.config.files.layering import (
    LayeredConfig,
    RawProperties,
    cluster_properties,
    with_prefix,
)
from sparkmirror.config.files.notices import (
    ConfigReport,
    Notice,
    NoticeLevel,
    error_notices,
    raise_errors,
)
from sparkmirror.config.files.properties import Property
from sparkmirror.config.flows.client_settings import read_connection_settings
from sparkmirror.config.keys.security_keys import SECURITY_KEY_NAMES
from sparkmirror.config.keys.table import CLIENT_ROLES, CONNECTOR, SECURITY, nearest_name
from sparkmirror.config.settings import MirrorClientSettings
from sparkmirror.errors import ArgumentError, ConfigError
from sparkmirror.model import Secret
from sparkmirror.policy.settings import ReplicationPolicySettings
from sparkmirror.wire.settings import ConnectionSettings

log = logging.getLogger(__name__)

_OWN = (
    "replication.policy.class",
    "replication.policy.separator",
    "replication.policy.internal.topic.separator.enabled",
    "forwarding.admin.class",
)
_KNOWN = (*_OWN, *SECURITY, "source.cluster.alias", "config.providers")
# Connector keys of an MM2 file with the prefix of a client.
_NOT_CLIENT = {"consumer": "poll.timeout.ms", "admin": "timeout.ms"}
_PROPERTIES = "The properties of a MirrorClient:"


def read_client_properties(properties: Mapping[str, object]) -> MirrorClientSettings:
    """Read a program's properties. Raises one ConfigError with all errors."""
    raw = _entries(properties)
    resolver, provider_errors = create_resolver(raw)
    notices = [replace(one, where="") for one in error_notices(provider_errors)]
    values = with_prefix(raw, "")
    servers = values.get("bootstrap.servers")
    if servers is None or not servers.text.strip():
        raise ConfigError(
            f"{_PROPERTIES} bootstrap.servers is missing: set it to the host:port of some brokers.",
            key="bootstrap.servers",
        )
    settings, report = _read(values, None, resolver)
    notices += _unknown(raw)
    notices += [replace(one, where="") for one in report.notices]
    raise_errors(notices, _PROPERTIES)
    for text in dict.fromkeys(n.message for n in notices if n.level is NoticeLevel.WARNING):
        log.warning(f"{_PROPERTIES} {text}")
    return settings


def read_client_of_cluster(
    raw: RawProperties, alias: str, clusters: Collection[str], resolver: ReferenceResolver
) -> tuple[MirrorClientSettings, list[Notice]]:
    """Read the settings for a cluster of an MM2 file, and return them with notices.

    The cluster's lines win over global lines. Lines of other clusters and of flows are ignored:
    their secrets may be on another machine.
    """
    others = tuple(f"{cluster}." for cluster in clusters)
    shared = {
        key: entry for key, entry in raw.items() if "->" not in key and not key.startswith(others)
    }
    values = with_prefix(shared, "")
    values.put_all(cluster_properties(raw, alias))
    settings, report = _read(values, alias, resolver)
    return settings, report.notices


def _read(
    values: LayeredConfig, alias: str | None, resolver: ReferenceResolver
) -> tuple[MirrorClientSettings, ConfigReport]:
    report = ConfigReport()
    reader = ConfigReader("client", values, resolver, report)
    reader.read_all(CONNECTOR[name] for name in _OWN)
    naming = ReplicationPolicySettings(
        **reader.filled(ReplicationPolicySettings), options=reader.resolve_all()
    )
    name = alias or reader.resolved_text("bootstrap.servers") or ""
    admin, consumer = (
        _named(read_connection_settings(role, name, _client(values, role), resolver, report), alias)
        for role in ("admin", "consumer")
    )
    return MirrorClientSettings(naming, admin, consumer), report


def _client(values: LayeredConfig, role: str) -> LayeredConfig:
    """Return a client's keys: the shared ones, overridden by those with the role's prefix."""
    config = LayeredConfig(
        (name, values[name]) for name in sorted(SECURITY_KEY_NAMES & values.keys())
    )
    prefix = f"{role}."
    for name, value in values.items():
        short = name.removeprefix(prefix)
        if short not in (name, _NOT_CLIENT[role]):
            config.put(short, value)
    return config


def _named(connection: ConnectionSettings, alias: str | None) -> ConnectionSettings:
    """Name a cluster without an alias by its addresses."""
    return (
        connection if alias else replace(connection, alias=",".join(connection.bootstrap_servers))
    )


def _unknown(raw: RawProperties) -> list[Notice]:
    """Warn about keys similar to known ones; others may be options of a custom policy."""
    prefixes = tuple(f"{role}." for role in CLIENT_ROLES)
    found = []
    for key in raw:
        meant = None if key in _KNOWN or key.startswith(prefixes) else nearest_name(key, _KNOWN)
        if meant is not None and not key.startswith("config.providers."):
            text = f"{key} is unknown and does nothing; did you mean {meant}?"
            found.append(Notice(NoticeLevel.WARNING, key, "", text))
    return found


def _entries(properties: Mapping[str, object]) -> dict[str, Property]:
    """Convert values to texts as in a file; None means absent, as in Java."""
    if not isinstance(properties, Mapping):
        raise ArgumentError(
            f"The properties of a MirrorClient must be a mapping such as a dict, not "
            f"{type(properties).__name__}."
        )
    given = ((key, value) for key, value in properties.items() if value is not None)
    return {
        key: Property(key, _text(key, value), place) for place, (key, value) in enumerate(given, 1)
    }


def _text(key: object, value: object) -> str:
    if not isinstance(key, str):
        raise ArgumentError(f"The key {key!r} of a MirrorClient's properties must be a str.")
    if isinstance(value, str):
        return value
    if isinstance(value, Secret):
        return value.reveal()
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, int | float):
        return str(value)
    if isinstance(value, list | tuple) and all(isinstance(item, str) for item in value):
        return ",".join(value)
    raise ConfigError(
        f"{_PROPERTIES} {key} must be a str, a number, a bool, or a list of str, "
        f"not {type(value).__name__}.",
        key=key,
    )
