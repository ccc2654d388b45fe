# SPDX-License-Identifier: Apache-2.0
"""Kerberos (GSSAPI) with the package gssapi, which is an extra: it needs the system's libraries.

Tickets come from where the system's Kerberos has them: the credential cache of `kinit`, or the
keytab that KRB5_CLIENT_KTNAME names.
"""

from __future__ import annotations

import struct

from kafka.net.sasl.gssapi import SaslMechanismGSSAPI

from sparkmirror.errors import AuthenticationError
from sparkmirror.security.settings import SaslSettings


class KerberosClient:
    """kafka-python's client; its errors become ours."""

    def __init__(self, settings: SaslSettings, host: str) -> None:
        try:
            from gssapi.exceptions import GSSError  # noqa: PLC0415 - an extra
        except (ImportError, OSError) as error:
            raise AuthenticationError(
                "GSSAPI (Kerberos) needs the package gssapi, on the driver and on every executor: "
                "pip install 'sparkmirror[kerberos]'."
            ) from error
        self._failures = (GSSError, ValueError, struct.error)
        self._service = f"{settings.kerberos_service}@{host}"
        try:
            self._mechanism = SaslMechanismGSSAPI(
                sasl_kerberos_service_name=settings.kerberos_service, host=host
            )
        except self._failures as error:
            raise self._refusal(error) from error

    def first(self) -> bytes:
        """The first token."""
        return bytes(self._mechanism.auth_bytes())

    def next(self, challenge: bytes) -> bytes | None:
        """The next token; None at the end."""
        try:
            self._mechanism.receive(challenge)
            return None if self._mechanism.is_done() else bytes(self._mechanism.auth_bytes())
        except self._failures as error:
            raise self._refusal(error) from error

    def _refusal(self, error: Exception) -> AuthenticationError:
        return AuthenticationError(
            f"Kerberos gave no ticket for {self._service}, or the broker did not take it: {error}. "
            "Check the ticket (klist), KRB5_CLIENT_KTNAME and sasl.kerberos.service.name.",
            retriable=True,
        )
