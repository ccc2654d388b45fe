# SPDX-License-Identifier: Apache-2.0
"""The one place where kafka-python's exceptions and Kafka's error codes become our errors."""

from __future__ import annotations

import re

from kafka.errors import (
    BrokerResponseError,
    IllegalSaslStateError,
    InvalidReceiveError,
    KafkaConnectionError,
    KafkaError,
    KafkaTimeoutError,
    MetadataEmptyBrokerList,
    NodeNotReadyError,
    RequestTimedOutError,
    SaslAuthenticationFailedError,
    UnknownBrokerIdError,
    UnsupportedSaslMechanismError,
    for_code,
)

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
from sparkmirror.kafka.sasl_adapter import LoginError
from sparkmirror.security.error_hints import no_response_hint, tls_error_hint
from sparkmirror.security.redaction import redact_broker_message
from sparkmirror.security.settings import SecuritySettings
from sparkmirror.wire import error_codes
from sparkmirror.wire.settings import ConnectionSettings

RequestError = ConnectionLostError | UnsupportedVersionError | UndecodableResponseError
REQUEST_ERRORS = (ConnectionLostError, UnsupportedVersionError, UndecodableResponseError)

_NO_ANSWER = (
    KafkaConnectionError,
    KafkaTimeoutError,
    MetadataEmptyBrokerList,
    NodeNotReadyError,
    RequestTimedOutError,
    UnknownBrokerIdError,
)
_UNKNOWN_TOPIC = 3
_TLS_ALERT = 0x1503
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
    kind = for_code(code)
    no_topic = "there is no such topic or partition"
    said = _JAVA_REQUEST.sub("this", message or "")
    reason = no_topic if code == _UNKNOWN_TOPIC else said or kind.description or kind.__name__
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
    connection: ConnectionSettings,
    doing: str,
    error: KafkaError | RequestError,
    advertised: str = "",
) -> ClusterError:
    """The error for users that says what a failed request means."""
    if isinstance(error, ConnectionLostError):
        return _lost_connection_error(connection, doing, error, advertised)
    if isinstance(error, (UnsupportedVersionError, UndecodableResponseError)):
        return _protocol_error(connection, doing, error)
    refused = authentication_error(connection, error)
    if refused is not None:
        return refused
    if isinstance(error, _NO_ANSWER):
        return unreachable_error(connection, doing, str(error), advertised)
    if isinstance(error, BrokerResponseError) and error.errno is not None:
        return broker_error(connection, doing, error.errno, _text(error))
    failure = ClusterError(
        f"Cluster '{connection.alias}' did not complete {doing}: {error}.",
        cluster=connection.alias,
    )
    failure.retriable = bool(error.retriable)
    return failure


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


def _protocol_error(
    connection: ConnectionSettings,
    doing: str,
    error: UnsupportedVersionError | UndecodableResponseError,
) -> ClusterError:
    if isinstance(error, UnsupportedVersionError):
        return broker_error(connection, doing, error_codes.UNSUPPORTED_VERSION, None)
    return ClusterError(
        f"Cluster '{connection.alias}' did not complete {doing}: {error}.",
        cluster=connection.alias,
    )


def authentication_error(
    connection: ConnectionSettings, error: KafkaError
) -> AuthenticationError | None:
    """What a failed TLS handshake or login means; None if it was something else."""
    security = connection.security
    keys = security.keys
    address = getattr(error, "address", "") or ", ".join(connection.bootstrap_servers)
    reason = ""
    if isinstance(error, LoginError):
        return login_error(connection, error.failure)
    if isinstance(error, SaslAuthenticationFailedError):
        said = (_text(error) or "").removeprefix(f"{SaslAuthenticationFailedError.__name__}: ")
        said = redact_broker_message(said, security)
        reason = f"{address} does not let us in ({said}): check {keys.login}"
    elif isinstance(error, UnsupportedSaslMechanismError):
        wanted = security.sasl.mechanism.value if security.sasl else ""
        reason = f"{address} does not offer {wanted}: check {keys.mechanism}"
        if error.args:
            reason += f" ({redact_broker_message(_text(error) or '', security)})"
    elif isinstance(error, IllegalSaslStateError):
        reason = (
            f"{address} asks nobody who they are: {keys.protocol} must be "
            f"{'SSL' if security.protocol.has_tls else 'PLAINTEXT'} for this listener"
        )
    elif isinstance(error, InvalidReceiveError) and _is_tls_alert(error):
        reason = f"{address} speaks TLS: {keys.protocol} must be SSL or SASL_SSL for this listener"
    else:
        reason = _tls_reason(error, address, security)
    if not reason:
        return None
    return AuthenticationError(f"Cluster '{connection.alias}': {reason}.", cluster=connection.alias)


def login_error(
    connection: ConnectionSettings, failure: AuthenticationError
) -> AuthenticationError:
    """What a login of ours could not do, with the cluster's name and the key to look at."""
    keys, sasl = connection.security.keys, connection.security.sasl
    has_endpoint = sasl is not None and sasl.oauth is not None
    key = keys.endpoint if failure.retriable and has_endpoint else keys.login
    return AuthenticationError(
        f"Cluster '{connection.alias}': {failure} Check {key}.",
        cluster=connection.alias,
        retriable=failure.retriable,
    )


def _is_tls_alert(error: KafkaError) -> bool:
    """What was taken for a length is the beginning of a TLS alert: 21, then version 3."""
    found = re.search(r"[0-9]+$", str(error))
    return found is not None and int(found[0]) >> 16 == _TLS_ALERT


def _tls_reason(error: KafkaError, address: str, security: SecuritySettings) -> str:
    """kafka-python keeps what happened as the cause of its error, or inside of it."""
    found = (tls_error_hint(one, address, security) for one in (error.__cause__, *error.args))
    return next(filter(None, found), "") if isinstance(error, KafkaConnectionError) else ""


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


def _text(error: KafkaError) -> str | None:
    return str(error.args[0]) if error.args else None
