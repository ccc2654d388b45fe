# SPDX-License-Identifier: Apache-2.0
"""Turns lost connections and Kafka's error codes into errors for users."""

from __future__ import annotations

import re

from sparkmirror.errors import (
    AuthenticationError,
    BrokerError,
    ClusterError,
    ConnectionLostError,
    LossKind,
    UndecodableResponseError,
    UnreachableError,
    UnsupportedVersionError,
)
from sparkmirror.security.error_hints import no_response_hint
from sparkmirror.wire import error_codes
from sparkmirror.wire.error_names import error_name, is_retriable_for_clients
from sparkmirror.wire.settings import ConnectionSettings

RequestError = ConnectionLostError | UnsupportedVersionError | UndecodableResponseError
REQUEST_ERRORS = (ConnectionLostError, UnsupportedVersionError, UndecodableResponseError)

_UNKNOWN_TOPIC = 3
# A Java broker names what it refuses, each time differently; a repetition must look like one.
_JAVA_REQUEST = re.compile(r"Request Request\(.*\)(?= needs)")
_ADVICE = dict.fromkeys((29, 30, 31, 53, 65), " The principal lacks a permission.") | {
    23: " Another kind of client uses this group: choose another group.id.",
    25: " The group has live members, and only they may commit: stop them first.",
    26: " Choose a session.timeout.ms between the brokers' group.min.session.timeout.ms and "
    "group.max.session.timeout.ms.",
}


def unreachable_error(
    connection: ConnectionSettings, doing: str, reason: str, advertised: str = ""
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
            f"Check {bootstrap_key(connection)} and that the brokers are up."
        )
    return UnreachableError(sentence, cluster=connection.alias)


def broker_error(
    connection: ConnectionSettings,
    doing: str,
    code: int,
    message: str | None,
    topic: str | None = None,
) -> BrokerError:
    """A broker's error code about one thing, as a sentence."""
    name, description = error_name(code)
    no_topic = "there is no such topic or partition"
    said = _JAVA_REQUEST.sub("this", message or "")
    reason = no_topic if code == _UNKNOWN_TOPIC else said or description
    about = f" (topic '{topic}')" if topic else ""
    return BrokerError(
        f"Cluster '{connection.alias}' refused {doing}{about}: "
        f"{name} ({code}), {reason.rstrip('.')}.{_ADVICE.get(code, '')}",
        cluster=connection.alias,
        code=code,
        retriable=is_retriable_for_clients(code),
        topic=topic,
    )


def cluster_error(
    connection: ConnectionSettings, doing: str, error: RequestError, advertised: str = ""
) -> ClusterError:
    """The error for users that says what a failed request means.

    `advertised` is where the brokers said they are, once a bootstrap address has answered.
    """
    if isinstance(error, ConnectionLostError):
        return _lost_connection_error(connection, doing, error, advertised)
    if isinstance(error, UnsupportedVersionError):
        return broker_error(connection, doing, error_codes.UNSUPPORTED_VERSION, None)
    return ClusterError(
        f"Cluster '{connection.alias}' did not complete {doing}: {error}.",
        cluster=connection.alias,
    )


def _lost_connection_error(
    connection: ConnectionSettings, doing: str, error: ConnectionLostError, advertised: str
) -> ClusterError:
    if error.kind in (LossKind.REFUSED, LossKind.NOT_READY):
        return AuthenticationError(
            f"Cluster '{connection.alias}': {error.reason.rstrip('.')}.",
            cluster=connection.alias,
            retriable=error.retriable,
        )
    reason = f"{error.address}: {error.reason}"
    if error.kind is LossKind.SILENT and not advertised:
        return silent_listener_error(connection, doing, reason)
    return unreachable_error(connection, doing, reason, advertised)


def closed_client_error(connection: ConnectionSettings) -> UnreachableError:
    """A client was closed while a request ran, or for good."""
    return UnreachableError(
        f"Cluster '{connection.alias}': the client was closed.", cluster=connection.alias
    )


def silent_listener_error(
    connection: ConnectionSettings, doing: str, reason: str
) -> UnreachableError:
    """Somebody accepts connections at the addresses, and does not talk to us."""
    addresses = ", ".join(connection.bootstrap_servers)
    return UnreachableError(
        f"Cluster '{connection.alias}' accepts connections at {addresses}, but does not answer "
        f"({doing}: {reason}). {no_response_hint(connection.security)} Otherwise check "
        f"{bootstrap_key(connection)} and that the brokers are up.",
        cluster=connection.alias,
    )


def bootstrap_key(connection: ConnectionSettings) -> str:
    """The key that gave the addresses; a client without an alias is called by its addresses."""
    if connection.servers_key:
        return connection.servers_key
    has_alias = connection.alias != ",".join(connection.bootstrap_servers)
    return f"{connection.alias}.bootstrap.servers" if has_alias else "bootstrap.servers"
