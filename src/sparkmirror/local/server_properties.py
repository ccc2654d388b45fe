# SPDX-License-Identifier: Apache-2.0
"""What a local broker is told in its server.properties, and why."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from sparkmirror.local.ports import HOST

_MOST_REPLICAS = 3


@dataclass(frozen=True, slots=True)
class Listener:
    """A further listener, what it speaks, and the port to which its clients are sent.

    Another port than its own is one where a proxy forwards to it.
    """

    name: str
    protocol: str
    port: int
    advertised: int


def server_properties(
    *,
    node_id: int,
    port: int,
    controllers: Mapping[int, int],
    data: Path,
    extra: Mapping[str, str],
    listeners: Sequence[Listener] = (),
) -> str:
    """A combined broker and controller; `controllers` maps node ids to ports, `extra` overrides."""
    replicas = str(min(_MOST_REPLICAS, len(controllers)))
    clients = [Listener("PLAINTEXT", "PLAINTEXT", port, port), *listeners]
    protocols = [f"{one.name}:{one.protocol}" for one in clients]
    places = [f"{one.name}://{HOST}:{one.port}" for one in clients]
    voters = ",".join(f"{node}@{HOST}:{number}" for node, number in controllers.items())
    settings = {
        "process.roles": "broker,controller",
        "node.id": str(node_id),
        "controller.quorum.voters": voters,
        "controller.listener.names": "CONTROLLER",
        "listeners": ",".join([*places, f"CONTROLLER://{HOST}:{controllers[node_id]}"]),
        "advertised.listeners": ",".join(
            f"{one.name}://{HOST}:{one.advertised}" for one in clients
        ),
        "listener.security.protocol.map": ",".join([*protocols, "CONTROLLER:PLAINTEXT"]),
        "log.dirs": str(data),
        "auto.create.topics.enable": "false",
        "group.initial.rebalance.delay.ms": "0",
        "offsets.topic.replication.factor": replicas,
        "transaction.state.log.replication.factor": replicas,
        "transaction.state.log.min.isr": "1",
        "share.coordinator.state.topic.replication.factor": replicas,
        "share.coordinator.state.topic.min.isr": "1",
        # The first use of a group or transaction creates these topics: 50 partitions take seconds.
        "offsets.topic.num.partitions": "5",
        "transaction.state.log.num.partitions": "5",
        "share.coordinator.state.topic.num.partitions": "5",
        # The default would take a quarter of a small heap.
        "log.cleaner.dedupe.buffer.size": "16777216",
        # A killed broker that starts again is let in only after its old session has ended (9 s).
        "broker.session.timeout.ms": "3000",
        "broker.heartbeat.interval.ms": "500",
        **extra,
    }
    return "".join(f"{key}={_escaped(value)}\n" for key, value in settings.items())


def _escaped(value: str) -> str:
    return value.replace("\\", "\\\\").replace("\n", "\\n")
