# SPDX-License-Identifier: Apache-2.0
"""SASL clients without I/O, one per mechanism.

    client = create_sasl_client(settings, host, token)
    challenge = exchange(client.initial_response())
    while (message := client.evaluate_challenge(challenge)) is not None:
        challenge = exchange(message)

where `exchange` sends a SaslAuthenticate request and returns the response's auth bytes. A broker
refuses with that response's error code; clients raise AuthenticationError for errors they detect.
"""

from __future__ import annotations

import json
import re
from typing import Protocol

from sparkmirror.errors import AuthenticationError
from sparkmirror.model import HIDDEN, Secret
from sparkmirror.security.kerberos import KerberosClient
from sparkmirror.security.redaction import one_line
from sparkmirror.security.scram import ScramClient
from sparkmirror.security.settings import (
    OAuthSettings,
    SaslMechanism,
    SaslSettings,
    SecuritySettings,
)
from sparkmirror.security.token_sources import token_source
from sparkmirror.security.tokens import Token, redact_oauth_message

_NUL = "\0"
_EXTENSION_NAME = re.compile(r"[A-Za-z]+")
_EXTENSION_VALUE = re.compile(r"[\x21-\x7e \t\r\n]+")  # RFC 7628, as Kafka checks them
_RESERVED = "auth"


class SaslClient(Protocol):
    """One authentication with one broker."""

    def initial_response(self) -> bytes: ...

    def evaluate_challenge(self, challenge: bytes) -> bytes | None:
        """Return the next message; None when the client is done."""
        ...


def create_sasl_client(settings: SaslSettings, host: str, token: Token | None) -> SaslClient:
    """Create the mechanism's client; `host` is the broker's host name as configured."""
    match settings.mechanism:
        case SaslMechanism.PLAIN:
            return _Plain(settings.username, _password(settings))
        case SaslMechanism.SCRAM_SHA_256 | SaslMechanism.SCRAM_SHA_512:
            return ScramClient(
                settings.mechanism, _name(settings), _password(settings), is_token=settings.is_token
            )
        case SaslMechanism.OAUTHBEARER:
            if settings.aws is not None:
                from sparkmirror.security.msk_iam import sign_iam_token  # noqa: PLC0415 - an extra

                return _OAuthBearer(sign_iam_token(settings.aws, host), None)
            if token is None or settings.oauth is None:
                raise AuthenticationError("OAUTHBEARER needs a token; none is configured.")
            return _OAuthBearer(token, settings.oauth)
        case SaslMechanism.GSSAPI:
            if settings.kerberos is None:
                raise AuthenticationError("GSSAPI needs a ticket cache or a keytab.")
            return KerberosClient(settings.kerberos, host)
        case SaslMechanism.AWS_MSK_IAM:
            from sparkmirror.security.msk_iam import MskIamClient  # noqa: PLC0415 - an extra

            if settings.aws is None:
                raise AuthenticationError("AWS_MSK_IAM needs AWS credentials.")
            return MskIamClient(settings.aws, host)


def check_extensions(extensions: dict[str, str]) -> None:
    """Raise ValueError if OAUTHBEARER cannot send an extension; values are not quoted."""
    for name, value in extensions.items():
        if not _EXTENSION_NAME.fullmatch(name) or name == _RESERVED:
            raise ValueError("an extension's name must consist of letters and must not be auth")
        if not _EXTENSION_VALUE.fullmatch(value):
            raise ValueError(f"the value of the extension {name} is empty or not ASCII")


def _name(settings: SaslSettings) -> str:
    if not settings.username:
        raise AuthenticationError(f"{settings.mechanism.value} needs a username.")
    return settings.username


def _password(settings: SaslSettings) -> Secret:
    if settings.password is None:
        raise AuthenticationError(f"{settings.mechanism.value} needs a password.")
    return settings.password


class _Plain:
    """RFC 4616, without an authorization identity."""

    def __init__(self, username: str, password: Secret) -> None:
        if _NUL in username or _NUL in password.reveal():
            raise AuthenticationError("PLAIN does not allow NUL in username or password.")
        if not username or not password.reveal():
            raise AuthenticationError("PLAIN needs a username and a password.")
        self._username = username
        self._password = password

    def initial_response(self) -> bytes:
        return _NUL.join(("", self._username, self._password.reveal())).encode("utf-8", "replace")

    def evaluate_challenge(self, challenge: bytes) -> bytes | None:  # noqa: ARG002 - always empty
        return None


class _OAuthBearer:
    """RFC 7628. A broker that refuses sends the reason, and expects a reply before it closes."""

    def __init__(self, token: Token, settings: OAuthSettings | None) -> None:
        self._token = token
        self._settings = settings
        self._extensions = {} if settings is None else dict(settings.extensions)
        self._refusal: AuthenticationError | None = None
        try:
            check_extensions(self._extensions)
        except ValueError as error:
            raise AuthenticationError(f"OAUTHBEARER: {error}.") from error

    def initial_response(self) -> bytes:
        pairs = "".join(f"{name}={value}\x01" for name, value in self._extensions.items())
        return f"n,,\x01auth=Bearer {self._token.text.reveal()}\x01{pairs}\x01".encode()

    def evaluate_challenge(self, challenge: bytes) -> bytes | None:
        if self._refusal is not None:
            raise self._refusal
        if not challenge:
            return None
        self._refusal = AuthenticationError(
            f"The broker refused the token ({self._reason(challenge)}). {self._advice}",
            retriable=True,  # brokers learn of an issuer's new keys later than clients
        )
        return b"\x01"

    @property
    def _advice(self) -> str:
        if self._settings is None:
            return "Check the IAM policies of the identity whose credentials sign it."
        return "Check the client's scope, and the issuer and audience that the brokers expect."

    def _reason(self, challenge: bytes) -> str:
        try:
            content = json.loads(challenge)
            status = f"{content['status']}" if isinstance(content, dict) else ""
        except (ValueError, KeyError, RecursionError):
            status = ""
        status = status.replace(self._token.text.reveal(), HIDDEN)
        return redact_oauth_message(status, self._settings) or "without a reason"


def redact_broker_message(message: str, security: SecuritySettings) -> str:
    """Remove the password and token from a broker's message, which may quote them."""
    sasl = security.sasl
    if sasl is not None and sasl.password is not None and sasl.password.reveal():
        message = message.replace(sasl.password.reveal(), HIDDEN)
    if sasl is not None and sasl.oauth is not None:
        message = token_source(sasl.oauth).redact(message)
    return one_line(message)
