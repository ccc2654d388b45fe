# SPDX-License-Identifier: Apache-2.0
"""Reads a connector's flat configuration, as Connect stores it, into the settings of a flow.

References are resolved with the config providers of the worker's file. Records go to
`producer.override.bootstrap.servers`, else to the worker's `bootstrap.servers`. Positions and
statuses stay in the worker's topics. With exactly-once, positions commit together with the records
and are kept in a topic of the same name on the target, as in Connect.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from sparkmirror.config.files.config_providers import ReferenceResolver
from sparkmirror.config.files.config_reader import SettingsAndReaders
from sparkmirror.config.files.layering import (
    connect_worker_config,
    default_value,
    profile_names,
    rest_connector_config,
)
from sparkmirror.config.files.notices import (
    ConfigReport,
    Notice,
    NoticeLevel,
    notice_at_line,
    raise_errors,
)
from sparkmirror.config.files.properties import Property
from sparkmirror.config.flows.client_settings import BootstrapKeys
from sparkmirror.config.flows.flow_settings import FlowLayers, read_flow_layers
from sparkmirror.config.keys.connector_classes import (
    CONNECTOR_CLASS_KEYS,
    FILTER_KEYS,
    ConnectorClass,
    resolve_class_name,
    unknown_class_message,
)
from sparkmirror.config.keys.secret_keys import is_secret
from sparkmirror.config.keys.table import CONNECTOR
from sparkmirror.config.rules.connector_rules import check_connector
from sparkmirror.config.rules.flow_rules import check_profiles
from sparkmirror.config.rules.key_placement import check_connector_key
from sparkmirror.config.settings import FlowSettings
from sparkmirror.config.worker_config import WorkerConfig
from sparkmirror.errors import ConfigError
from sparkmirror.model import HIDDEN, Flow

PLUGIN_VERSION = "4.3.1"  # the MM2 version that sparkmirror is compatible with

ConnectorTexts = Mapping[str, str | None]


@dataclass(frozen=True, slots=True)
class ParsedConnector:
    """A connector's settings and notices; with errors the settings are unusable."""

    kind: ConnectorClass
    name: str
    tasks_max: int
    notices: tuple[Notice, ...]
    unchecked_settings: FlowSettings

    @property
    def settings(self) -> FlowSettings:
        """The settings of the connector's flow. Raises one ConfigError with all errors."""
        raise_errors(self.notices, f"Connector {self.name}:")
        return self.unchecked_settings

    @property
    def errors(self) -> tuple[Notice, ...]:
        return tuple(one for one in self.notices if one.level is NoticeLevel.ERROR)


def connector_class(config: ConnectorTexts) -> ConnectorClass:
    """Return the class that a configuration names. Raises ConfigError with Connect's message."""
    key = "connector.class"
    name = config.get(key)
    if name is None:
        shown = ", ".join(f"{k}={_shown(k, text)}" for k, text in config.items())
        raise ConfigError(f"Connector config {{{shown}}} contains no connector type", key=key)
    found = resolve_class_name(name)
    if found is None:
        raise ConfigError(unknown_class_message(name, PLUGIN_VERSION), key=key)
    return found


def _shown(key: str, text: str | None) -> str:
    if text is None:
        return "null"
    return HIDDEN if is_secret(key) else text


def read_connector(config: ConnectorTexts, worker: WorkerConfig) -> ParsedConnector:
    """Read a connector's settings; errors are among its notices."""
    kind = connector_class(config)
    raw = {
        key: Property(key, text, place, from_request=True)
        for place, (key, text) in enumerate(config.items(), 1)
        if text is not None
    }
    report = ConfigReport()
    flow = Flow(
        _alias(raw, "source.cluster.alias", worker.resolver),
        _alias(raw, "target.cluster.alias", worker.resolver),
    )
    values = rest_connector_config(raw, flow)
    values.put_if_absent("name", default_value("", "name"))
    name = values["name"].text.strip()
    is_heartbeat = kind is ConnectorClass.HEARTBEAT
    layers = FlowLayers(
        flow=flow,
        connector=values,
        worker=connect_worker_config(worker.values, raw),
        heartbeat_name=name,
        checkpoint_name=name,
        server_keys=BootstrapKeys(
            "" if is_heartbeat else "source.cluster.bootstrap.servers",
            "target.cluster.bootstrap.servers",
        ),
        keys=CONNECTOR | CONNECTOR_CLASS_KEYS[kind],
    )
    read = _with_allowlist(read_flow_layers(layers, worker.resolver, report), worker)
    if "source.cluster.alias" not in raw:
        message = "source.cluster.alias is missing: set it to the name of the source cluster."
        report.notices.append(notice_at_line(NoticeLevel.ERROR, "source.cluster.alias", 0, message))
    check_connector(kind, read, worker.settings, report)
    check_profiles(profile_names(raw, flow), read.connector, report)
    _warn_unused_keys(kind, raw, report)
    return ParsedConnector(
        kind=kind,
        name=name,
        tasks_max=read.settings.source.tasks_max,
        notices=_connector_notices(report, config, worker),
        unchecked_settings=_with_state(read.settings, worker),
    )


def _alias(raw: Mapping[str, Property], key: str, resolver: ReferenceResolver) -> str:
    entry = raw.get(key)
    if entry is None:
        return key.partition(".")[0]
    try:
        return resolver.resolve(entry.text, from_request=True).text.strip()
    except LookupError:
        return entry.text.strip()  # read_flow_layers reports the error


def _with_allowlist(read: SettingsAndReaders, worker: WorkerConfig) -> SettingsAndReaders:
    """Restrict Python classes to the worker's allowlist: REST clients must not run other code."""
    policy = replace(read.settings.policy, allowed_classes=worker.settings.allowed_classes)
    return replace(read, settings=replace(read.settings, policy=policy))


def _with_state(settings: FlowSettings, worker: WorkerConfig) -> FlowSettings:
    own = worker.settings.connection
    clients = (settings.producer, settings.target_admin)
    is_elsewhere = any(set(c.bootstrap_servers) != set(own.bootstrap_servers) for c in clients)
    if is_elsewhere and not settings.transactions.is_enabled:
        return replace(settings, worker_cluster=own)
    return settings


def _warn_unused_keys(
    kind: ConnectorClass, raw: Mapping[str, Property], report: ConfigReport
) -> None:
    """Warn about unknown keys and keys of the other two classes."""
    for key, entry in raw.items():
        if entry.text == HIDDEN and is_secret(key):
            message = f"{key}: {HIDDEN} means the stored value, and none is stored."
            report.notices.append(notice_at_line(NoticeLevel.ERROR, key, entry.line, message))
        remark = check_connector_key(key)
        if remark is not None:
            report.notices.append(notice_at_line(remark.level, key, entry.line, remark.text))
        elif (
            key in CONNECTOR
            and key not in CONNECTOR_CLASS_KEYS[kind]
            and key not in _ALSO_READ[kind]
        ):
            others = [one.value for one in ConnectorClass if key in CONNECTOR_CLASS_KEYS[one]]
            message = f"{key} has no effect in a {kind.value}: it is for {' and '.join(others)}."
            report.notices.append(notice_at_line(NoticeLevel.INFO, key, entry.line, message))


_ALSO_READ = {
    ConnectorClass.SOURCE: ("use.defaults.from",),
    ConnectorClass.CHECKPOINT: (*FILTER_KEYS, "emit.offset-syncs.enabled"),
    ConnectorClass.HEARTBEAT: (),
}


def _connector_notices(
    report: ConfigReport, config: ConnectorTexts, worker: WorkerConfig
) -> tuple[Notice, ...]:
    """Drop notices about the worker's file, and line numbers: a connector has no lines."""
    workers = worker.values.keys() - config.keys()
    mine = (n for n in report.notices if n.key not in workers or not n.where)
    return tuple(dict.fromkeys(replace(n, where="") for n in mine))
