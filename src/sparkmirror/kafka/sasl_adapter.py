# SPDX-License-Identifier: Apache-2.0
"""Lets kafka-python's connections use our SASL: the same steps as on the data path.

kafka-python looks a mechanism up by name and hands it its settings, of which one may be any object.
Connections that come without our object, such as those of a user's own program, get kafka-python's
mechanisms as ever.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from functools import partial
from typing import Any

from kafka.errors import KafkaError
from kafka.net.sasl import SASL_MECHANISMS, register_sasl_mechanism
from kafka.net.sasl.oauth import AbstractTokenProvider
from kafka.protocol.sasl import (
    SaslAuthenticateRequest,
    SaslAuthenticateResponse,
    SaslBytesRequest,
)

from sparkmirror.errors import AuthenticationError
from sparkmirror.security.kerberos import ticket_source
from sparkmirror.security.msk_iam import prefetch_credentials
from sparkmirror.security.sasl import SaslClient, create_sasl_client
from sparkmirror.security.settings import SaslMechanism, SaslSettings
from sparkmirror.security.token_sources import token_source
from sparkmirror.security.tokens import Token

_BYTES = ("Send: %r", "Recv: %r", "byte buffer: %r")
_LOGIN_MESSAGES = (SaslAuthenticateRequest, SaslAuthenticateResponse, SaslBytesRequest)


class LoginError(KafkaError):  # type: ignore[misc] # kafka-python has no types
    """Carries our error through kafka-python."""

    def __init__(self, failure: AuthenticationError) -> None:
        super().__init__(str(failure))
        self.failure = failure
        self.retriable = failure.retriable


class SaslAdapter(AbstractTokenProvider):  # type: ignore[misc] # kafka-python has no types
    """Who we are; travels through kafka-python's settings in the place of a token provider."""

    def __init__(self, settings: SaslSettings) -> None:
        super().__init__()
        self.settings = settings

    def prepare(self, hosts: Sequence[str]) -> None:
        """Get the token, ticket or keys that logins at these brokers will need.

        AuthenticationError if there are none.
        """
        self.token()
        kerberos, aws = self.settings.kerberos, self.settings.aws
        if kerberos is not None:
            ticket_source(kerberos).acquire()
        if aws is not None:
            prefetch_credentials(aws, hosts)

    def token(self) -> Token | None:
        """A token that is good now, where the mechanism needs one; AuthenticationError if not."""
        oauth = self.settings.oauth
        return None if oauth is None else token_source(oauth).token()


class _SaslMechanism:
    """Looks like one of kafka-python's mechanisms."""

    def __init__(self, login: SaslAdapter, host: str) -> None:
        self._login = login
        self._host = host
        self._client: SaslClient | None = None
        self._message = b""
        self._is_over = False

    def auth_bytes(self) -> bytes:
        if self._client is None:
            try:
                settings, token = self._login.settings, self._login.token()
                self._client = create_sasl_client(settings, self._host, token)
                self._message = self._client.initial_response()
            except AuthenticationError as error:
                raise LoginError(error) from error
        return self._message

    def receive(self, auth_bytes: bytes) -> None:
        if self._client is None:
            raise AssertionError("a broker answers what it was sent")
        try:
            message = self._client.evaluate_challenge(bytes(auth_bytes))
        except AuthenticationError as error:
            raise LoginError(error) from error
        self._message = message or b""
        self._is_over = message is None

    def is_done(self) -> bool:
        return self._is_over

    def is_authenticated(self) -> bool:
        return self._is_over

    def auth_details(self) -> str:
        return f"Authenticated via SASL / {self._login.settings.mechanism.value}"


def _mechanism(original: Any, **config: Any) -> Any:
    login = config.get("sasl_oauth_token_provider")
    return (
        _SaslMechanism(login, config["host"])
        if isinstance(login, SaslAdapter)
        else original(**config)
    )


class _NoCredentials(logging.Filter):
    """kafka-python's log would show logins: as requests, and as the bytes that are sent.

    Nor do we want all bytes of an answer that is none, which may be megabytes.
    """

    def filter(self, record: logging.LogRecord) -> bool:
        arguments = record.args if isinstance(record.args, tuple) else (record.args,)
        is_login = any(isinstance(one, _LOGIN_MESSAGES) for one in arguments)
        return not is_login and not str(record.msg).endswith(_BYTES)


for _logger in ("kafka.protocol.parser", "kafka.net.connection"):
    logging.getLogger(_logger).addFilter(_NoCredentials())

for _name in (one.value for one in SaslMechanism):
    register_sasl_mechanism(_name, partial(_mechanism, SASL_MECHANISMS[_name]), overwrite=True)
