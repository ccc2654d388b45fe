# SPDX-License-Identifier: Apache-2.0
"""Reads the keys of Kafka clients into settings of connections, fetches and produce requests."""

from __future__ import annotations

from dataclasses import dataclass, replace

from sparkmirror.config.files.config_providers import ReferenceResolver
from sparkmirror.config.files.config_reader import ConfigReader
from sparkmirror.config.files.layering import (
    LayeredConfig,
    LayeredValue,
    Origin,
    client_config,
    record_producer_config,
)
from sparkmirror.config.files.notices import ConfigReport
from sparkmirror.config.keys.client_keys import MAX_IN_FLIGHT
from sparkmirror.config.keys.table import CLIENT, SECURITY
from sparkmirror.config.keys.value_types import bootstrap_address
from sparkmirror.config.rules.key_placement import unused_client_key_notice
from sparkmirror.config.security.security_settings import (
    applies_to_protocol,
    read_security,
    warn_unused_security_keys,
)
from sparkmirror.model import Flow
from sparkmirror.security.settings import SecurityProtocol
from sparkmirror.wire.settings import ConnectionSettings, FetchSettings, ProduceSettings


@dataclass(frozen=True, slots=True)
class FlowClients:
    """The clients of a flow."""

    source_admin: ConnectionSettings
    target_admin: ConnectionSettings
    consumer: ConnectionSettings
    producer: ConnectionSettings
    fetch: FetchSettings
    produce: ProduceSettings
    producer_reader: ConfigReader


@dataclass(frozen=True, slots=True)
class BootstrapKeys:
    """The keys of a flow's bootstrap servers, for the error about a missing one.

    Empty: not required.
    """

    source: str
    target: str

    @classmethod
    def of(cls, flow: Flow) -> BootstrapKeys:
        """Return the keys of an MM2 file."""
        return cls(f"{flow.source}.bootstrap.servers", f"{flow.target}.bootstrap.servers")


@dataclass(frozen=True, slots=True)
class _Client:
    """A client: its role, its heading in `check`, its cluster and client id."""

    role: str
    section: str
    alias: str
    client_id: str
    servers_key: str
    shares_tls: bool = False  # whether a REST server uses the same `ssl.` keys


def read_clients(
    connector: LayeredConfig,
    worker: LayeredConfig,
    flow: Flow,
    resolver: ReferenceResolver,
    report: ConfigReport,
    keys: BootstrapKeys,
) -> FlowClients:
    """Read the four clients that a flow uses."""
    entity = f"{flow}|{connector['name'].text.strip()}"
    consumer = _Client(
        "consumer", "source consumer", flow.source, f"{entity}|replication-consumer", keys.source
    )
    producer = _Client(
        "producer",
        "target producer",
        flow.target,
        f"connector-producer-{connector['name'].text.strip()}",
        keys.target,
    )
    source_admin = _Client(
        "admin", "source admin", flow.source, f"{entity}|replication-source-admin", keys.source
    )
    target_admin = _Client(
        "admin", "target admin", flow.target, f"{entity}|replication-target-admin", keys.target
    )
    read = {}
    for client, values in (
        (consumer, client_config(connector, "source", "consumer")),
        (producer, record_producer_config(connector, worker)),
        (source_admin, client_config(connector, "source", "admin")),
        (target_admin, client_config(connector, "target", "admin")),
    ):
        read[client.section] = _read(client, values, resolver, report)
    produce = _produce(read["target producer"], report)
    max_bytes = produce.max_request_bytes if produce.enforces_max_request_bytes else None
    to_target = _connection(target_admin, read["target admin"], report)
    return FlowClients(
        source_admin=_connection(source_admin, read["source admin"], report),
        target_admin=replace(to_target, max_request_bytes=max_bytes),
        consumer=_connection(consumer, read["source consumer"], report),
        producer=_connection(producer, read["target producer"], report),
        fetch=FetchSettings(**read["source consumer"].filled(FetchSettings)),
        produce=produce,
        producer_reader=read["target producer"],
    )


def read_connection_settings(
    role: str,
    alias: str,
    values: LayeredConfig,
    resolver: ReferenceResolver,
    report: ConfigReport,
    *,
    client_id: str = "",
    servers_key: str = "",
    shares_tls: bool = False,
) -> ConnectionSettings:
    """Read a client that belongs to no flow; `role` is admin, consumer or producer."""
    client = _Client(
        role,
        role,
        alias,
        client_id or f"sparkmirror-client|{role}",
        servers_key or f"{alias}.bootstrap.servers",
        shares_tls,
    )
    return _connection(client, _read(client, values, resolver, report), report)


def check_producer(
    alias: str,
    values: LayeredConfig,
    resolver: ReferenceResolver,
    report: ConfigReport,
    servers_key: str,
) -> None:
    """Report errors of a producer before a flow uses it."""
    client = _Client("producer", "producer", alias, "", servers_key)
    reader = _read(client, values, resolver, report)
    _connection(client, reader, report)
    _produce(reader, report)


def _read(
    client: _Client, values: LayeredConfig, resolver: ReferenceResolver, report: ConfigReport
) -> ConfigReader:
    reader = ConfigReader(client.section, values, resolver, report)
    reader.read_all(CLIENT[client.role].values())
    _report_unused_keys(client, values, report)
    _drop_unused_security_values(client, reader, report)
    warn_unused_security_keys(reader, report, has_other_tls=client.shares_tls)
    return reader


def _drop_unused_security_values(
    client: _Client, reader: ConfigReader, report: ConfigReport
) -> None:
    """Remove defaults of TLS and SASL from the report if the protocol does not use them."""
    protocol = SecurityProtocol(reader.string("security.protocol").upper())
    report.effective[:] = [
        one
        for one in report.effective
        if one.section != client.section
        or one.origin.line
        or one.key not in SECURITY
        or applies_to_protocol(SECURITY[one.key], protocol)
    ]


def _connection(client: _Client, reader: ConfigReader, report: ConfigReport) -> ConnectionSettings:
    servers = reader.strings("bootstrap.servers")
    if client.servers_key and not servers and not reader.is_in_file("bootstrap.servers"):
        report.error(
            LayeredValue("", Origin(client.servers_key)),
            client.servers_key,
            f"{client.servers_key} is missing: set it to the host:port of some brokers of cluster "
            f"{client.alias}.",
        )
    own_id = reader.string("client.id")
    return ConnectionSettings(
        alias=client.alias,
        bootstrap_servers=tuple(bootstrap_address(server) for server in servers),
        client_id=_client_id(client, own_id),
        **reader.filled(ConnectionSettings),
        servers_key=reader.origin("bootstrap.servers").key,
        security=read_security(reader, report),
    )


def _client_id(client: _Client, own_id: str) -> str:
    if not own_id:
        return client.client_id
    # The record producer is the worker's, and Connect appends nothing to its client.id.
    return own_id if client.role == "producer" else f"{own_id}|{client.client_id}"


def _produce(reader: ConfigReader, report: ConfigReport) -> ProduceSettings:
    if reader.string("acks") == "0":
        report.error(
            reader.value("acks"),
            "acks",
            f"{reader.origin('acks').key} must be all or 1: with 0 the position of a record would "
            "be stored although the record may be lost.",
        )
    if reader.integer("max.in.flight.requests.per.connection") > MAX_IN_FLIGHT:
        origin = reader.origin("max.in.flight.requests.per.connection")
        report.warn(
            origin,
            f"{origin.key} is limited to {MAX_IN_FLIGHT}: a broker remembers only the last "
            f"{MAX_IN_FLIGHT} record batches of a producer, so more could get out of order.",
        )
    return ProduceSettings(**reader.filled(ProduceSettings))


def _report_unused_keys(client: _Client, values: LayeredConfig, report: ConfigReport) -> None:
    """Report unknown keys, and keys of Java's client that have no effect here."""
    for name, value in values.items():
        line = next((o for o in (value.origin, *value.overrode) if o.line), None)
        if line is not None and name not in CLIENT[client.role]:
            remark = unused_client_key_notice(line.key, name, client.role)
            report.warn(line, remark.text, remark.level)
