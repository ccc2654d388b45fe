# SPDX-License-Identifier: Apache-2.0
"""A Connect worker's file (`connect-distributed.properties`): its settings and notices."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path

from sparkmirror.config.files.config_providers import ReferenceResolver, create_resolver
from sparkmirror.config.files.config_reader import ConfigReader
from sparkmirror.config.files.layering import (
    LayeredConfig,
    connect_worker_config,
    record_producer_config,
    with_prefix,
)
from sparkmirror.config.files.notices import (
    ConfigReport,
    NoticeLevel,
    error_notices,
    notice_at_line,
    raise_errors,
    sorted_notices,
)
from sparkmirror.config.files.properties import (
    PropertiesFile,
    parse_properties,
    read_properties,
    reject_swallowed_secrets,
)
from sparkmirror.config.files.spark_conf import read_spark_conf
from sparkmirror.config.flows.client_settings import check_producer, read_connection_settings
from sparkmirror.config.flows.flow_settings import read_internal_topics, read_metrics
from sparkmirror.config.keys.client_keys import IGNORED_CLIENT_KEYS
from sparkmirror.config.keys.rest_keys import strip_quotes
from sparkmirror.config.keys.table import CLIENT
from sparkmirror.config.keys.worker_keys import (
    REQUIRED_WORKER_KEYS,
    WORKER_CONFIG_KEYS,
)
from sparkmirror.config.rest_settings import https_tls_keys, read_listeners, read_rest
from sparkmirror.config.rules.file_rules import check_worker, worker_file_notices
from sparkmirror.config.settings import LogSettings
from sparkmirror.config.worker_settings import (
    ClientOverrides,
    GroupSettings,
    RestListener,
    RestSettings,
    SigningSettings,
    WorkerSettings,
)

WORKER_CLUSTER_ALIAS = "worker"  # the name of a worker's cluster in messages


def is_worker_file(file: PropertiesFile) -> bool:
    """Whether this is a Connect worker's file, rather than MirrorMaker's; it may be incomplete."""
    if "clusters" in file.entries or any("->" in key for key in file.entries):
        return False
    return any(key in file.entries for key in REQUIRED_WORKER_KEYS)


@dataclass(frozen=True, slots=True)
class CredentialsReload:
    """Which credentials changed; `needs_restart`: so did settings that a restart must apply."""

    connection: bool
    rest: bool
    needs_restart: bool


class WorkerConfig:
    """A worker's file. Invalid content does not fail the reading; `notices` lists it.

    Raises ConfigError only for a secret that has become part of another key's value.
    """

    def __init__(self, file: PropertiesFile, resolver: ReferenceResolver | None = None) -> None:
        """`resolver` replaces the config providers that the file declares."""
        reject_swallowed_secrets(file)
        self._file = file
        self.name = file.name
        declared, provider_errors = create_resolver(file.entries)
        self.resolver: ReferenceResolver = declared if resolver is None else resolver
        self.values: LayeredConfig = with_prefix(file.entries, "")
        report = ConfigReport()
        report.notices += error_notices(provider_errors)
        report.notices += worker_file_notices(file)
        self._settings = _read(self.values, self.resolver, report)
        self.effective = tuple(report.effective)
        self.notices = sorted_notices(report.notices)

    @classmethod
    def load(cls, path: Path) -> WorkerConfig:
        """Read the file. Raises ConfigError if it cannot be read or is not a properties file."""
        return cls(read_properties(path))

    @classmethod
    def parse(cls, text: str) -> WorkerConfig:
        return cls(parse_properties(text, "connect-distributed.properties"))

    def reload_credentials(self) -> CredentialsReload:
        """Resolve references and read stores again, and use the credentials found there.

        The text of the file is not read again, as in Connect. Raises ConfigError for invalid
        values; the settings are unchanged then.
        """
        found, old = WorkerConfig(self._file).settings, self._settings
        newer = replace(
            old,
            connection=replace(old.connection, security=found.connection.security),
            rest=replace(old.rest, tls=found.rest.tls, users=found.rest.users),
        )
        self._settings = newer
        return CredentialsReload(
            connection=newer.connection != old.connection,
            rest=newer.rest != old.rest,
            needs_restart=newer != found,
        )

    @property
    def log(self) -> LogSettings:
        """What is logged, and where; defaults for invalid values, which `notices` lists."""
        return self._settings.log

    @property
    def settings(self) -> WorkerSettings:
        """The typed settings. Raises one ConfigError with all errors."""
        raise_errors(self.notices, self.name)
        return self._settings


def _read(
    values: LayeredConfig, resolver: ReferenceResolver, report: ConfigReport
) -> WorkerSettings:
    reader = ConfigReader("worker", values, resolver, report)
    reader.read_all(WORKER_CONFIG_KEYS)
    for name in REQUIRED_WORKER_KEYS:
        if name not in values:
            message = f"{name} is missing: {_REMEDIES[name]}."
            report.notices.append(notice_at_line(NoticeLevel.ERROR, name, 0, message))
    group = GroupSettings(**reader.filled(GroupSettings))
    rest = _rest(values, reader, resolver, report)
    connection = read_connection_settings(
        "admin",
        WORKER_CLUSTER_ALIAS,
        _own_client(values, reader, rest),
        resolver,
        report,
        client_id=f"connect-{group.group_id}",
        servers_key="bootstrap.servers",
        shares_tls=True,
    )
    _check_producer(values, resolver, report)
    settings = WorkerSettings(
        connection=connection,
        group=group,
        signing=SigningSettings(**reader.filled(SigningSettings)),
        rest=rest,
        internal_topics=read_internal_topics(reader),
        overrides=ClientOverrides(**reader.filled(ClientOverrides)),
        metrics=read_metrics(reader),
        log=LogSettings(**reader.filled(LogSettings)),
        spark=read_spark_conf(values, resolver, report),
        **reader.filled(WorkerSettings),
    )
    check_worker(settings, reader, report)
    return settings


_REMEDIES = {
    "group.id": "workers of one group share connectors; set for example group.id=connect-cluster",
    "config.storage.topic": "set for example config.storage.topic=connect-configs",
    "offset.storage.topic": "set for example offset.storage.topic=connect-offsets",
    "status.storage.topic": "set for example status.storage.topic=connect-status",
}


def _own_client(values: LayeredConfig, reader: ConfigReader, rest: RestSettings) -> LayeredConfig:
    """Select the keys of the worker's client, which have no prefix in the file.

    `ssl.` keys may be for https listeners only.
    """
    known = CLIENT["admin"].keys() | IGNORED_CLIENT_KEYS["admin"].keys()
    protocol = reader.resolved_text("security.protocol") or ""
    if rest.tls.chain and "SSL" not in protocol.upper():
        known -= https_tls_keys(values).keys()
    return LayeredConfig((name, values[name]) for name in values if name in known)


def _check_producer(
    values: LayeredConfig, resolver: ReferenceResolver, report: ConfigReport
) -> None:
    """Report errors of the producer keys once, rather than for each connector."""
    producer = record_producer_config(LayeredConfig(), connect_worker_config(values))
    check_producer(WORKER_CLUSTER_ALIAS, producer, resolver, report, "bootstrap.servers")


def _rest(
    values: LayeredConfig, reader: ConfigReader, resolver: ReferenceResolver, report: ConfigReport
) -> RestSettings:
    listeners = read_listeners(reader, "listeners")
    port = reader.optional_integer("rest.port")
    host = strip_quotes(reader.string("rest.host.name"))
    if not reader.is_in_file("listeners") and (port is not None or host):
        first = listeners[0]
        origin = reader.origin("rest.host.name" if port is None else "rest.port")
        port = first.port if port is None else port
        listeners = (RestListener(first.scheme, host or first.host, port),)
        report.effective[:] = [
            replace(one, text=str(listeners[0]), origin=origin, is_default=False)
            if one.key == "listeners"
            else one
            for one in report.effective
        ]
    admin = reader.is_in_file("admin.listeners")
    return read_rest(
        values,
        reader,
        resolver,
        report,
        listeners,
        read_listeners(reader, "admin.listeners") if admin else None,
    )
