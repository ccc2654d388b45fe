# SPDX-License-Identifier: Apache-2.0
"""Map lost connections and Kafka's error codes to errors for users."""

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

# A Java broker quotes the request, whose text always differs; repeated errors must be equal.
_JAVA_REQUEST = re.compile(r"Request Request\(.*\)(?= needs)")
_ADVICE = dict.fromkeys((29, 30, 31, 53, 65), " The principal lacks a permission.") | {
    23: " Clients of another protocol type use this group: choose another group.id.",
    25: " The group has live members, and only they may commit: stop them first.",
    26: " Choose a session.timeout.ms between the brokers' group.min.session.timeout.ms and "
    "group.max.session.timeout.ms.",
}


# In the messages of the two functions that describe an unreachable cluster.
UNREACHABLE = re.compile(
    "cannot be reached at|has stopped answering at"
    "|, but not at the addresses that its brokers|, but does not answer"
)


def unreachable_error(
    connection: ConnectionSettings, doing: str, reason: str, advertised: str = ""
) -> UnreachableError:
    """No broker responded; names the cluster and its addresses.

    `advertised` are the brokers' advertised addresses, once a bootstrap address has responded.
    """
    addresses = ", ".join(connection.bootstrap_servers)
    if advertised and set(advertised.split(", ")) <= set(connection.bootstrap_servers):
        sentence = (
            f"Cluster '{connection.alias}' has stopped answering at {addresses} ({doing}: "
            f"{reason}). Check that its brokers are up and not overloaded."
        )
    elif advertised:
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
    """Map a broker's error code and message to an error."""
    name, description = error_name(code)
    said = _JAVA_REQUEST.sub("this", message or "")
    is_missing = code == error_codes.UNKNOWN_TOPIC_OR_PARTITION
    reason = "there is no such topic or partition" if is_missing else said or description
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
    """Map a failed request to an error for users; `advertised` as in `unreachable_error`."""
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
    """A client was closed permanently, or while a request was running."""
    return UnreachableError(
        f"Cluster '{connection.alias}': the client was closed.", cluster=connection.alias
    )


def silent_listener_error(
    connection: ConnectionSettings, doing: str, reason: str
) -> UnreachableError:
    """The listeners accept connections, but do not respond."""
    addresses = ", ".join(connection.bootstrap_servers)
    return UnreachableError(
        f"Cluster '{connection.alias}' accepts connections at {addresses}, but does not answer "
        f"({doing}: {reason}). {no_response_hint(connection.security)} Otherwise check "
        f"{bootstrap_key(connection)} and that the brokers are up.",
        cluster=connection.alias,
    )


def bootstrap_key(connection: ConnectionSettings) -> str:
    """The key of the bootstrap servers; without an alias, the addresses are the alias."""
    if connection.servers_key:
        return connection.servers_key
    has_alias = connection.alias != ",".join(connection.bootstrap_servers)
    return f"{connection.alias}.bootstrap.servers" if has_alias else "bootstrap.servers"
