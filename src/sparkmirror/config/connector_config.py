# SPDX-License-Identifier: Apache-2.0
"""The flat configuration of a connector on a Connect worker becomes the settings of a flow.

References are resolved with the config providers that the worker's file declares. Records go where
Connect's producer would send them: `producer.override.bootstrap.servers`, else the worker's
`bootstrap.servers`.
Positions and statuses stay in the worker's topics; but with exactly-once they commit together
with the records and are kept in a topic of the same name on the target, as Connect does.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from sparkmirror.config.client_settings import ServerKeys
from sparkmirror.config.connector_classes import ConnectorClass, find_class, unknown_class
from sparkmirror.config.connector_rules import check_connector
from sparkmirror.config.flow_settings import FlowLayers, ReadLayers, read_layers
from sparkmirror.config.hidden_values import HIDDEN
from sparkmirror.config.keys import CONNECTOR, is_secret
from sparkmirror.config.keys_classes import CLASS_KEYS, FILTER_KEYS
from sparkmirror.config.layering import (
    connect_config,
    connect_worker_config,
    default,
    profile_names,
)
from sparkmirror.config.notices import Level, Notice, notice, raise_errors
from sparkmirror.config.placement import connector_key
from sparkmirror.config.profile_rules import check_profiles
from sparkmirror.config.properties import Entry
from sparkmirror.config.providers import Resolver
from sparkmirror.config.reading import Report
from sparkmirror.config.settings import FlowSettings
from sparkmirror.config.worker_file import WorkerFile
from sparkmirror.errors import ConfigError
from sparkmirror.model import Flow

PLUGIN_VERSION = "4.3.1"  # whose definitions, formats and behaviour ours are

ConnectorTexts = Mapping[str, str | None]


@dataclass(frozen=True, slots=True)
class ConnectorReading:
    """A connector with all that was found on the way; errors make its settings unusable."""

    kind: ConnectorClass
    name: str
    tasks_max: int
    notices: tuple[Notice, ...]
    unchecked: FlowSettings

    @property
    def settings(self) -> FlowSettings:
        """The settings of the connector's flow; ConfigError with every sentence if any is wrong."""
        raise_errors(self.notices, f"Connector {self.name}:")
        return self.unchecked

    @property
    def errors(self) -> tuple[Notice, ...]:
        """What keeps the connector from being run."""
        return tuple(one for one in self.notices if one.level is Level.ERROR)


def connector_class(config: ConnectorTexts) -> ConnectorClass:
    """The class that a configuration names; ConfigError in Connect's words if there is none."""
    key = "connector.class"
    name = config.get(key)
    if name is None:
        shown = ", ".join(f"{k}={_shown(k, text)}" for k, text in config.items())
        raise ConfigError(f"Connector config {{{shown}}} contains no connector type", key=key)
    found = find_class(name)
    if found is None:
        raise ConfigError(unknown_class(name, PLUGIN_VERSION), key=key)
    return found


def _shown(key: str, text: str | None) -> str:
    if text is None:
        return "null"
    return HIDDEN if is_secret(key) else text


def read_connector(config: ConnectorTexts, worker: WorkerFile) -> ConnectorReading:
    """Read a connector's settings; whatever is wrong stands in the notices."""
    kind = connector_class(config)
    raw = {
        key: Entry(key, text, place, from_request=True)
        for place, (key, text) in enumerate(config.items(), 1)
        if text is not None
    }
    report = Report()
    flow = Flow(
        _alias(raw, "source.cluster.alias", worker.resolver),
        _alias(raw, "target.cluster.alias", worker.resolver),
    )
    values = connect_config(raw, flow)
    values.put_if_absent("name", default("", "name"))
    name = values["name"].text.strip()
    is_heartbeat = kind is ConnectorClass.HEARTBEAT
    layers = FlowLayers(
        flow=flow,
        connector=values,
        worker=connect_worker_config(worker.values, raw),
        heartbeat_name=name,
        checkpoint_name=name,
        server_keys=ServerKeys(
            "" if is_heartbeat else "source.cluster.bootstrap.servers",
            "target.cluster.bootstrap.servers",
        ),
        keys=CONNECTOR | CLASS_KEYS[kind],
    )
    read = _with_allowlist(read_layers(layers, worker.resolver, report), worker)
    if "source.cluster.alias" not in raw:
        message = "source.cluster.alias is missing: write how the source cluster is called."
        report.notices.append(notice(Level.ERROR, "source.cluster.alias", 0, message))
    check_connector(kind, read, worker.settings, report)
    check_profiles(profile_names(raw, flow), read.connector, report)
    _remark(kind, raw, report)
    return ConnectorReading(
        kind=kind,
        name=name,
        tasks_max=read.settings.source.tasks_max,
        notices=_about_connector(report, config, worker),
        unchecked=_with_state(read.settings, worker),
    )


def _alias(raw: Mapping[str, Entry], key: str, resolver: Resolver) -> str:
    entry = raw.get(key)
    if entry is None:
        return key.partition(".")[0]
    try:
        return resolver.resolve(entry.text, from_request=True).text.strip()
    except LookupError:
        return entry.text.strip()  # the reading reports it


def _with_allowlist(read: ReadLayers, worker: WorkerFile) -> ReadLayers:
    """Whoever can reach the REST server is not thereby allowed to run code here."""
    policy = replace(read.settings.policy, allowed_classes=worker.settings.allowed_classes)
    return replace(read, settings=replace(read.settings, policy=policy))


def _with_state(settings: FlowSettings, worker: WorkerFile) -> FlowSettings:
    own = worker.settings.connection
    clients = (settings.producer, settings.target_admin)
    is_elsewhere = any(set(c.bootstrap_servers) != set(own.bootstrap_servers) for c in clients)
    if is_elsewhere and not settings.transactions.is_enabled:
        return replace(settings, worker=own)
    return settings


def _remark(kind: ConnectorClass, raw: Mapping[str, Entry], report: Report) -> None:
    """Keys that nothing reads, and keys of the other two classes."""
    for key, entry in raw.items():
        if entry.text == HIDDEN and is_secret(key):
            message = f"{key}: {HIDDEN} stands for a value that is stored, and none is."
            report.notices.append(notice(Level.ERROR, key, entry.line, message))
        remark = connector_key(key)
        if remark is not None:
            report.notices.append(notice(remark.level, key, entry.line, remark.text))
        elif key in CONNECTOR and key not in CLASS_KEYS[kind] and key not in _ALSO_READ[kind]:
            others = [one.value for one in ConnectorClass if key in CLASS_KEYS[one]]
            message = f"{key} does nothing in a {kind.value}: it is for {' and '.join(others)}."
            report.notices.append(notice(Level.INFO, key, entry.line, message))


_ALSO_READ = {
    ConnectorClass.SOURCE: ("use.defaults.from",),
    ConnectorClass.CHECKPOINT: (*FILTER_KEYS, "emit.offset-syncs.enabled"),
    ConnectorClass.HEARTBEAT: (),
}


def _about_connector(
    report: Report, config: ConnectorTexts, worker: WorkerFile
) -> tuple[Notice, ...]:
    """Remarks on the worker's lines were made when its file was read; no key has a line here."""
    workers = worker.values.keys() - config.keys()
    mine = (n for n in report.notices if n.key not in workers or not n.where)
    return tuple(dict.fromkeys(replace(n, where="") for n in mine))
