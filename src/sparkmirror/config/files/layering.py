# SPDX-License-Identifier: Apache-2.0
"""MM2's precedence between the lines of a file, in dedicated mode.

Three maps are derived from the file for a flow A->B: the properties of a cluster, the connector
configuration and the worker configuration. The clients' configurations are derived from the
connector's. Every value has the line that it came from and the lines that it overrode. A profile's
values have the lowest precedence (`config/keys/service_profiles.py`).
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace

from sparkmirror.config.files.properties import Property
from sparkmirror.config.keys.connector_classes import ConnectorClass
from sparkmirror.config.keys.connector_keys import DEPRECATED
from sparkmirror.config.keys.security_keys import SECURITY_KEY_NAMES
from sparkmirror.config.keys.service_profiles import (
    FACTOR,
    SOURCE_KEY,
    SYNCS_FACTOR,
    SYNCS_LOCATION,
    TARGET_KEY,
    profile_settings,
)
from sparkmirror.config.keys.table import GLOBAL_CONNECTOR_NAMES
from sparkmirror.config.keys.worker_keys import GLOBAL_WORKER_PREFIXES
from sparkmirror.model import Flow


@dataclass(frozen=True, slots=True)
class Origin:
    """Where a text came from: its key as written and its line.

    Line 0: not from a line, but from `profile` with its `reason`, or else a default.
    """

    key: str
    line: int = 0
    profile: str = ""
    reason: str = ""

    def __str__(self) -> str:
        if self.line:
            return f"line {self.line} '{self.key}'"
        return f"profile {self.profile}" if self.profile else "default"


@dataclass(frozen=True, slots=True)
class LayeredValue:
    """A text, its origin and the origins that it overrode, by descending precedence."""

    text: str = field(repr=False)
    origin: Origin
    overrode: tuple[Origin, ...] = ()
    from_request: bool = False  # it came over REST

    def overriding(self, loser: LayeredValue) -> LayeredValue:
        """Return this value with `loser` among those that it overrode."""
        losers = (*self.overrode, loser.origin, *loser.overrode)
        known = dict.fromkeys(o for o in losers if o != self.origin and (o.line or o.profile))
        return replace(self, overrode=tuple(known))

    def yields_to(self, other: LayeredValue) -> bool:
        """Whether `other` wins in any layer: every line wins over a profile."""
        return bool(self.origin.profile and other.origin.line)


class LayeredConfig(dict[str, LayeredValue]):
    """Key -> value, built layer by layer; values remember what they overrode."""

    def put(self, key: str, value: LayeredValue) -> None:
        """Set the key; the value overrides the present one."""
        present = self.get(key)
        if present is None:
            self[key] = value
        else:
            self[key] = (
                present.overriding(value) if value.yields_to(present) else value.overriding(present)
            )

    def put_if_absent(self, key: str, value: LayeredValue) -> None:
        """Set the key unless it is present; then the present value overrides this one."""
        present = self.get(key)
        if present is None:
            self[key] = value
        else:
            self[key] = (
                value.overriding(present) if present.yields_to(value) else present.overriding(value)
            )

    def put_all(self, layer: Mapping[str, LayeredValue]) -> None:
        for key, value in layer.items():
            self.put(key, value)


RawProperties = Mapping[str, Property]

_CLIENT_LEVEL = re.compile(r"^(consumer|producer|admin)")
_ROLES = ("producer", "consumer", "admin")


def default_value(text: str, key: str = "") -> LayeredValue:
    """Return a value that is not from a line of the file."""
    return LayeredValue(text, Origin(key))


def with_prefix(raw: RawProperties, prefix: str) -> LayeredConfig:
    """Return the entries whose key starts with `prefix`, without it."""
    cut = len(prefix)
    return LayeredConfig(
        (key[cut:], _from_file(entry))
        for key, entry in raw.items()
        if key.startswith(prefix) and len(key) > cut
    )


def _from_file(entry: Property) -> LayeredValue:
    return LayeredValue(entry.text, Origin(entry.key, entry.line), from_request=entry.from_request)


def cluster_properties(raw: RawProperties, alias: str) -> LayeredConfig:
    """Return the properties of a cluster; its clients inherit shared security settings."""
    properties = with_prefix(raw, f"{alias}.")
    for key in sorted(SECURITY_KEY_NAMES & properties.keys()):
        for role in _ROLES:
            properties.put_if_absent(f"{role}.{key}", properties[key])
    for key in sorted(SECURITY_KEY_NAMES & raw.keys()):
        shared = _from_file(raw[key])
        for role in _ROLES:
            properties.put_if_absent(f"{role}.{key}", shared)
        properties.put_if_absent(key, shared)
    return properties


def profile_names(raw: RawProperties, flow: Flow) -> tuple[str, str]:
    """Return the profiles of target and source as written; references are not resolved."""
    target, source = (
        next((raw[name].text.strip() for name in (f"{flow}.{key}", key) if name in raw), "")
        for key in (TARGET_KEY, SOURCE_KEY)
    )
    return target, source


def _profile_layer(raw: RawProperties, flow: Flow, *, is_workers: bool) -> LayeredConfig:
    """Return the values of the flow's profiles: worker keys, or all other keys."""
    return LayeredConfig(
        (key, LayeredValue(setting.value, Origin(key, 0, name, setting.reason)))
        for key, (name, setting) in profile_settings(*profile_names(raw, flow)).items()
        if setting.is_worker_key is is_workers
    )


def connector_config(
    raw: RawProperties, flow: Flow, connector: str = "MirrorSourceConnector"
) -> LayeredConfig:
    """Return the configuration that MM2 stores for a connector, references not resolved."""
    config = _profile_layer(raw, flow, is_workers=False)
    for key, entry in raw.items():
        if key in GLOBAL_CONNECTOR_NAMES or key.startswith(
            ("config.providers", "replication.policy")
        ):
            config.put(key, _from_file(entry))
    for side, alias in (("source", flow.source), ("target", flow.target)):
        for key, value in cluster_properties(raw, alias).items():
            level = side if _CLIENT_LEVEL.match(key) else f"{side}.cluster"
            config.put(f"{level}.{key}", value)
    # In MM2 every line overrides these; only global lines and lines of flows can set them.
    derived = {
        "name": connector,
        "connector.class": ConnectorClass(connector).java_name,
        "source.cluster.alias": flow.source,
        "target.cluster.alias": flow.target,
    }
    for key, text in derived.items():
        config.put_if_absent(key, default_value(text, key))
    config.put_all(with_prefix(raw, f"{flow}."))
    config.put_if_absent("enabled", default_value("false", "enabled"))
    _rename(config)
    _apply_syncs_factor(config, raw, flow)
    return config


def _rename(config: LayeredConfig) -> None:
    """Rename deprecated keys; the new name wins if both are set."""
    for old, new in DEPRECATED.items():
        if old in config:
            config.put_if_absent(new, config.pop(old))


def _apply_syncs_factor(config: LayeredConfig, raw: RawProperties, flow: Flow) -> None:
    """Apply the target profile's replication factor to an offset-syncs topic on the target."""
    location = config.get(SYNCS_LOCATION)
    factor = _profile_layer(raw, flow, is_workers=False).get(FACTOR)
    if factor is not None and location is not None and location.text.strip() == "target":
        config.put_if_absent(SYNCS_FACTOR, factor)


def worker_config(raw: RawProperties, flow: Flow) -> LayeredConfig:
    """Return the configuration of the flow's Connect worker, references not resolved."""
    config = _profile_layer(raw, flow, is_workers=True)
    config.put_all(cluster_properties(raw, flow.target))
    for key, entry in raw.items():
        if key.startswith(GLOBAL_WORKER_PREFIXES):
            config.put(key, _from_file(entry))
    for key, entry in raw.items():
        if key.startswith("config.providers"):
            config.put(key, _from_file(entry))
    byte_array = "org.apache.kafka.connect.converters.ByteArrayConverter"
    derived = {
        "client.id": str(flow),
        "group.id": f"{flow.source}-mm2",
        "offset.storage.topic": f"mm2-offsets.{flow.source}.internal",
        "status.storage.topic": f"mm2-status.{flow.source}.internal",
        "config.storage.topic": f"mm2-configs.{flow.source}.internal",
        "key.converter": byte_array,
        "value.converter": byte_array,
        "header.converter": byte_array,
    }
    for key, text in derived.items():
        config.put_if_absent(key, default_value(text, key))
    return config


def rest_connector_config(raw: RawProperties, flow: Flow) -> LayeredConfig:
    """Return the configuration of a connector on a Connect worker, references not resolved.

    `config.providers` keys are dropped: config providers are the worker's.
    """
    config = _profile_layer(raw, flow, is_workers=False)
    for key, entry in raw.items():
        if not key.startswith("config.providers"):
            config.put(key, _from_file(entry))
    config.put_if_absent("enabled", default_value("true", "enabled"))
    _rename(config)
    _apply_syncs_factor(config, raw, flow)
    return config


def connect_worker_config(worker: LayeredConfig, raw: RawProperties | None = None) -> LayeredConfig:
    """Return the worker's keys that apply to a connector; `raw` is the connector's configuration.

    A connector's producer does not inherit the security of the worker's client, and a profile
    that a connector names does not apply to the worker's topics.
    """
    config = LayeredConfig()
    if raw is not None:
        flow = Flow("", "")  # a connector's configuration has no keys with a flow's prefix
        for key, value in _profile_layer(raw, flow, is_workers=True).items():
            if key.startswith("producer."):
                config.put(key, value)
    for key, value in worker.items():
        if key not in SECURITY_KEY_NAMES or key == "bootstrap.servers":
            config.put(key, value)
    return config


def client_config(connector: LayeredConfig, side: str, role: str) -> LayeredConfig:
    """Return the keys of a connector's client.

    `side` is source or target, `role` consumer, producer or admin.
    """
    config = LayeredConfig()
    for key in SECURITY_KEY_NAMES:
        value = connector.get(f"{side}.cluster.{key}")
        if value is not None:
            config.put(key, value)
    for prefix in (f"{role}.", f"{side}.{role}."):
        config.put_all(_with_prefix(connector, prefix))
    for key in [key for key in config if key.startswith("override.")]:
        del config[key]  # `consumer.override.` applies to the worker's clients
    if role == "consumer":
        # `consumer.poll.timeout.ms` and `admin.timeout.ms` are connector keys, not client keys.
        config.pop("poll.timeout.ms", None)
        config.put("enable.auto.commit", default_value("false"))
        config.put_if_absent("auto.offset.reset", default_value("earliest"))
    if role == "admin":
        config.pop("timeout.ms", None)
    return config


def record_producer_config(connector: LayeredConfig, worker: LayeredConfig) -> LayeredConfig:
    """Return the keys of the records' producer: the worker's, then the connector's overrides."""
    config = LayeredConfig()
    for key in SECURITY_KEY_NAMES:
        if key in worker:
            config.put(key, worker[key])
    config.put_all(_with_prefix(worker, "producer."))
    config.put_all(_with_prefix(connector, "producer.override."))
    return config


def _with_prefix(layered: LayeredConfig, prefix: str) -> dict[str, LayeredValue]:
    cut = len(prefix)
    return {key[cut:]: value for key, value in layered.items() if key.startswith(prefix)}


def all_flows(aliases: Iterable[str]) -> list[Flow]:
    """Return every ordered pair of distinct clusters, enabled or not."""
    names = list(aliases)
    return [Flow(a, b) for a in names for b in names if a != b]
