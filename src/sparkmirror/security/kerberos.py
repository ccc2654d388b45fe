# SPDX-License-Identifier: Apache-2.0
"""The client's side of SASL with Kerberos (RFC 4752), message by message.

First the tokens of GSSAPI go to and fro until both sides know each other. Then the broker offers,
wrapped, which protection of later messages it can do (a byte) and how long they may be (three); we
choose none, as Kafka has none, and say in whose name we act.
"""

from __future__ import annotations

from typing import Any

from sparkmirror.errors import AuthenticationError
from sparkmirror.security.settings import KerberosSettings
from sparkmirror.security.tickets import library, tickets

_NO_PROTECTION = 1
_OFFER_BYTES = 4
_CHOICE = bytes((_NO_PROTECTION, 0, 0, 0))


class KerberosClient:
    """One exchange with the broker on a host."""

    def __init__(self, settings: KerberosSettings, host: str) -> None:
        self._gssapi = library()
        self._tickets = tickets(settings)
        self._service = f"{settings.service}/{host}"
        self._target = f"{settings.service}@{host}"
        self._context: Any = None
        self._has_chosen = False

    def first(self) -> bytes:
        """The first token, with a ticket for the broker."""
        return self._tickets.use(self._service, self._begin)

    def _begin(self, credentials: Any) -> bytes:
        gssapi = self._gssapi
        name = gssapi.Name(self._target, name_type=gssapi.NameType.hostbased_service)
        self._context = gssapi.SecurityContext(
            name=name, creds=credentials, usage="initiate", mech=gssapi.MechType.kerberos
        )
        return self._context.step() or b""

    def next(self, challenge: bytes) -> bytes | None:
        """The next token; None at the end."""
        if self._has_chosen:
            return None
        try:
            if not self._context.complete:
                return self._context.step(challenge) or b""
            return self._choose(self._context.unwrap(challenge).message)
        except self._gssapi.exceptions.GSSError as error:
            raise self._tickets.trouble(error, self._service) from error

    def _choose(self, offer: bytes) -> bytes:
        if len(offer) != _OFFER_BYTES or not offer[0] & _NO_PROTECTION:
            raise AuthenticationError(
                f"Kerberos: {self._service} insists on protection that Kafka does not have (qop)."
            )
        self._has_chosen = True
        who = str(self._context.initiator_name).encode()
        return bytes(self._context.wrap(_CHOICE + who, False).message)
