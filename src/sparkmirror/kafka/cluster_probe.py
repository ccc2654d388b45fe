# SPDX-License-Identifier: Apache-2.0
"""Connect to every broker of a cluster, and check the permissions that a run needs.

After bootstrapping, a client uses the addresses that brokers advertise. These are a frequent source
of errors (an address that resolves only inside a container), so the probe tries each one.
"""

from __future__ import annotations

import socket
from collections.abc import Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field, replace
from functools import partial

from kafka.protocol.broker_version_data import BrokerVersionData

from sparkmirror.errors import ClusterError
from sparkmirror.kafka.acls import Operation
from sparkmirror.kafka.admin import ClusterAdmin
from sparkmirror.kafka.cluster_client import ClusterClient
from sparkmirror.kafka.descriptions import NewTopic
from sparkmirror.kafka.error_mapping import bootstrap_key
from sparkmirror.kafka.topic_requests import metadata_request
from sparkmirror.wire.settings import ConnectionSettings

_ALREADY_EXISTS = 36


@dataclass(frozen=True, slots=True)
class BrokerProbe:
    """One advertised address and the broker found there."""

    node_id: int
    address: str
    version: str = ""  # the newest Kafka release whose protocol it supports; empty: no response
    error: str = ""
    api_versions: Mapping[int, tuple[int, int]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class ClusterProbe:
    """The result for one cluster."""

    alias: str
    security: str = "PLAINTEXT"
    brokers: tuple[BrokerProbe, ...] = ()
    topics: tuple[str, ...] = ()
    silent_bootstrap: tuple[str, ...] = ()  # bootstrap addresses without a response
    error: str = ""  # why the whole cluster cannot be reached

    @property
    def reachable(self) -> bool:
        """Whether every broker of the cluster responded."""
        return not self.error and all(broker.version for broker in self.brokers)


def probe_cluster(connection: ConnectionSettings, timeout_seconds: float = 5.0) -> ClusterProbe:
    """Connect to the bootstrap addresses, then to each broker at its advertised address."""
    security = connection.security.protocol.value
    silent = {}
    for address in connection.bootstrap_servers:
        reason = _connect_error(address, timeout_seconds)
        if reason:
            silent[address] = reason
    answering = tuple(a for a in connection.bootstrap_servers if a not in silent)
    if not answering:
        reasons = "; ".join(f"{address}: {reason}" for address, reason in silent.items())
        return ClusterProbe(
            connection.alias,
            security,
            error=f"no bootstrap address responds ({reasons}); check "
            f"{bootstrap_key(connection)} and that the brokers are up",
        )
    reach = _probe_connection(connection, answering, timeout_seconds)
    with closing(ClusterClient(reach)) as client:
        try:
            advertised = client.retry("connecting", client.addresses)
        except ClusterError as error:
            return ClusterProbe(connection.alias, security, error=_reason(error))
        brokers = tuple(
            _probe_broker(client, node_id, str(address))
            for node_id, address in sorted(advertised.items())
        )
    topics: tuple[str, ...] = ()
    if any(broker.version for broker in brokers):
        topics = _topics(reach, tuple(b.address for b in brokers if b.version))
    return ClusterProbe(connection.alias, security, brokers, topics, tuple(silent))


def missing_permissions(
    connection: ConnectionSettings,
    reads: Sequence[str],
    writes: Sequence[str],
    timeout_seconds: float = 5.0,
) -> list[str]:
    """Return a sentence for each missing permission: to read, write and create topics.

    For topics of `writes` that do not exist, validates their creation without creating them.
    """
    reach = _probe_connection(connection, connection.bootstrap_servers, timeout_seconds)
    missing: list[str] = []
    topics = [*reads, *writes]
    with closing(ClusterClient(reach)) as client:
        step = partial(_operations, client, topics)
        allowed = client.retry("checking permissions", step) if topics else {}
    for topic in reads:
        needed = (Operation.READ, Operation.DESCRIBE_CONFIGS)
        missing.extend(_missing_operations(allowed.get(topic), needed, topic))
    for topic in writes:
        missing.extend(_missing_operations(allowed.get(topic), (Operation.WRITE,), topic))
    with ClusterAdmin(reach) as admin:
        described = admin.topic_configs(reads)
        missing.extend(str(error) for error in described.failed.values())
        absent = [NewTopic(t, 1, -1) for t in writes if allowed.get(t) is None]
        outcomes = admin.create_topics(absent, validate_only=True) if absent else {}
        missing.extend(
            str(error)
            for error in outcomes.values()
            if error is not None and error.code != _ALREADY_EXISTS
        )
    return list(dict.fromkeys(missing))


def _missing_operations(
    allowed: frozenset[Operation] | None, needed: Sequence[Operation], topic: str
) -> list[str]:
    # Brokers before 2.3 do not report operations.
    if not allowed:
        return []
    return [
        f"{operation.name} on topic '{topic}' is not granted."
        for operation in needed
        if operation not in allowed
    ]


def _operations(
    client: ClusterClient, topics: Sequence[str]
) -> dict[str, frozenset[Operation] | None]:
    """The allowed operations by topic; None if the topic does not exist or is not visible."""
    found = client.send(metadata_request(topics, with_operations=True)).topics
    known = {one.value for one in Operation}
    return {
        topic.name: None
        if topic.error_code
        else frozenset(Operation(bit) for bit in topic.authorized_operations or () if bit in known)
        for topic in found
    }


def _probe_broker(client: ClusterClient, node_id: int, address: str) -> BrokerProbe:
    reach = client.connection
    reason = _connect_error(address, reach.connect_timeout_seconds)
    if reason:
        return BrokerProbe(
            node_id,
            address,
            error=f"broker {node_id} of cluster {reach.alias} advertises {address}, which cannot "
            f"be reached from here ({reason}); check the broker's advertised.listeners",
        )
    try:
        known = client.retry("connecting", partial(client.api_versions, node_id))
    except ClusterError as error:
        return BrokerProbe(node_id, address, error=_reason(error))
    version = str(BrokerVersionData(api_versions=known).broker_version_str)
    return BrokerProbe(node_id, address, version, api_versions=known)


def _topics(reach: ConnectionSettings, addresses: tuple[str, ...]) -> tuple[str, ...]:
    with ClusterAdmin(_probe_connection(reach, addresses, reach.connect_timeout_seconds)) as admin:
        return tuple(sorted(t.name for t in admin.topics().found.values() if not t.is_internal))


def _probe_connection(
    connection: ConnectionSettings, addresses: tuple[str, ...], timeout_seconds: float
) -> ConnectionSettings:
    return replace(
        connection,
        bootstrap_servers=addresses,
        request_timeout_seconds=timeout_seconds,
        connect_timeout_seconds=timeout_seconds,
        max_idle_seconds=None,
    )


def _connect_error(address: str, timeout_seconds: float) -> str:
    """The reason why a TCP connection fails; empty if it succeeds."""
    host, _, port = address.rpartition(":")
    try:
        socket.create_connection((host.strip("[]"), int(port)), timeout_seconds).close()
    except OSError as error:
        return error.strerror or str(error)
    return ""


def _reason(error: ClusterError) -> str:
    return str(error).rstrip(".")
