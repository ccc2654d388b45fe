# SPDX-License-Identifier: Apache-2.0
"""How a client proves who it is, message by message: no socket, no request.

    client = authenticate_steps(settings, host, token)
    answer = exchange(client.first())
    while (message := client.next(answer)) is not None:
        answer = exchange(message)

where `exchange` sends a SaslAuthenticate request and returns what came back with it. A broker that
refuses says so with the error code of that answer; what is raised here is what a client finds.
"""

from __future__ import annotations

import json
import re
from typing import Protocol

from sparkmirror.errors import AuthenticationError
from sparkmirror.model import HIDDEN, Secret
from sparkmirror.security.kerberos import KerberosClient
from sparkmirror.security.scram import ScramClient
from sparkmirror.security.settings import OAuthSettings, SaslMechanism, SaslSettings
from sparkmirror.security.tokens import Token, redact_oauth_message

_NUL = "\0"
_EXTENSION_NAME = re.compile(r"[A-Za-z]+")
_EXTENSION_VALUE = re.compile(r"[\x21-\x7e \t\r\n]+")  # RFC 7628, as Kafka checks them
_RESERVED = "auth"


class SaslClient(Protocol):
    """One exchange with one broker."""

    def initial_response(self) -> bytes:
        """What the client begins with."""
        ...

    def evaluate_challenge(self, challenge: bytes) -> bytes | None:
        """The answer to what the broker said; None when the client has nothing to add."""
        ...


def create_sasl_client(settings: SaslSettings, host: str, token: Token | None) -> SaslClient:
    """The client's side of the mechanism; `host` is the broker's name, as we call it."""
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
                raise AuthenticationError("OAUTHBEARER needs a token, and there is none.")
            return _OAuthBearer(token, settings.oauth)
        case SaslMechanism.GSSAPI:
            if settings.kerberos is None:
                raise AuthenticationError("GSSAPI needs to know where tickets come from.")
            return KerberosClient(settings.kerberos, host)
        case SaslMechanism.AWS_MSK_IAM:
            from sparkmirror.security.msk_iam import MskIamClient  # noqa: PLC0415 - an extra

            if settings.aws is None:
                raise AuthenticationError("AWS_MSK_IAM needs to know where keys come from.")
            return MskIamClient(settings.aws, host)


def check_extensions(extensions: dict[str, str]) -> None:
    """ValueError if one cannot be sent with OAUTHBEARER; its value is not repeated."""
    for name, value in extensions.items():
        if not _EXTENSION_NAME.fullmatch(name) or name == _RESERVED:
            raise ValueError("the name of an extension has letters only, and is not auth")
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
    """RFC 4616; the one who logs in is the one who acts."""

    def __init__(self, username: str, password: Secret) -> None:
        if _NUL in username or _NUL in password.reveal():
            raise AuthenticationError("PLAIN takes no NUL in username or password.")
        if not username or not password.reveal():
            raise AuthenticationError("PLAIN needs a username and a password.")
        self._username = username
        self._password = password

    def initial_response(self) -> bytes:
        return _NUL.join(("", self._username, self._password.reveal())).encode("utf-8", "replace")

    def evaluate_challenge(self, challenge: bytes) -> bytes | None:  # noqa: ARG002 - brokers say nothing
        return None


class _OAuthBearer:
    """RFC 7628; a broker that refuses says why, and wants an answer before it hangs up."""

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
            retriable=True,  # keys of the issuer change, and brokers learn of it later
        )
        return b"\x01"

    @property
    def _advice(self) -> str:
        if self._settings is None:
            return "Check what the policies of IAM allow to the one whose credentials sign it."
        return (
            "Check the scope of the client, and what the brokers expect of a token (issuer, "
            "audience)."
        )

    def _reason(self, challenge: bytes) -> str:
        try:
            content = json.loads(challenge)
            words = f"{content['status']}" if isinstance(content, dict) else ""
        except (ValueError, KeyError, RecursionError):
            words = ""
        words = words.replace(self._token.text.reveal(), HIDDEN)
        return redact_oauth_message(words, self._settings) or "without a reason"
