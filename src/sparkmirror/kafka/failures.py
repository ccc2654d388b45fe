# SPDX-License-Identifier: Apache-2.0
"""The one place where kafka-python's exceptions and Kafka's error codes become our errors."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kafka.errors import (
    BrokerResponseError,
    KafkaConnectionError,
    KafkaError,
    KafkaTimeoutError,
    MetadataEmptyBrokerList,
    NodeNotReadyError,
    RequestTimedOutError,
    UnknownBrokerIdError,
    for_code,
)

from sparkmirror.errors import BrokerError, ClusterError, UnreachableError

if TYPE_CHECKING:
    from sparkmirror.kafka.clients import Connection

_NO_ANSWER = (
    KafkaConnectionError,
    KafkaTimeoutError,
    MetadataEmptyBrokerList,
    NodeNotReadyError,
    RequestTimedOutError,
    UnknownBrokerIdError,
)
_UNKNOWN_TOPIC = 3
_ADVICE = dict.fromkeys((29, 30, 31, 53, 65), " The principal lacks a permission.") | {
    23: " Another kind of client uses this group: choose another group.id.",
    25: " The group has live members, and only they may commit: stop them first.",
    26: " Choose a session.timeout.ms between the brokers' group.min.session.timeout.ms and "
    "group.max.session.timeout.ms.",
}


def no_answer(
    connection: Connection, doing: str, reason: str, advertised: str = ""
) -> UnreachableError:
    """No broker did what was asked; names the cluster and where we looked for it.

    `advertised` is where the brokers said they are, once a bootstrap address has answered.
    """
    addresses = ", ".join(connection.bootstrap_servers)
    if advertised:
        sentence = (
            f"Cluster '{connection.alias}' answered at {addresses}, but not at the addresses that "
            f"its brokers advertise ({advertised}; {doing}: {reason}). Check that they are up and "
            f"that their advertised.listeners can be reached from here."
        )
    else:
        sentence = (
            f"Cluster '{connection.alias}' cannot be reached at {addresses} ({doing}: {reason}). "
            f"Check {addresses_key(connection)} and that the brokers are up."
        )
    return UnreachableError(sentence, cluster=connection.alias)


def code_error(
    connection: Connection, doing: str, code: int, message: str | None, topic: str | None = None
) -> BrokerError:
    """A broker's error code about one thing, as a sentence."""
    kind = for_code(code)
    no_topic = "there is no such topic or partition"
    reason = no_topic if code == _UNKNOWN_TOPIC else message or kind.description or kind.__name__
    about = f" (topic '{topic}')" if topic else ""
    return BrokerError(
        f"Cluster '{connection.alias}' refused {doing}{about}: "
        f"{kind.message} ({code}), {reason.rstrip('.')}.{_ADVICE.get(code, '')}",
        cluster=connection.alias,
        code=code,
        retriable=bool(kind.retriable),
        topic=topic,
    )


def cluster_error(
    connection: Connection, doing: str, error: KafkaError, advertised: str = ""
) -> ClusterError:
    """The error of ours that says what a kafka-python exception means."""
    if isinstance(error, _NO_ANSWER):
        return no_answer(connection, doing, str(error), advertised)
    if isinstance(error, BrokerResponseError) and error.errno is not None:
        return code_error(connection, doing, error.errno, _text(error))
    failure = ClusterError(
        f"Cluster '{connection.alias}' did not complete {doing}: {error}.",
        cluster=connection.alias,
    )
    failure.retriable = bool(error.retriable)
    return failure


def addresses_key(connection: Connection) -> str:
    """The key that gave the addresses; a client without an alias is called by its addresses."""
    if connection.servers_key:
        return connection.servers_key
    has_alias = connection.alias != ",".join(connection.bootstrap_servers)
    return f"{connection.alias}.bootstrap.servers" if has_alias else "bootstrap.servers"


def _text(error: KafkaError) -> str | None:
    return str(error.args[0]) if error.args else None
