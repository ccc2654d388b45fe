# SPDX-License-Identifier: Apache-2.0
"""The client's side of SASL with Kerberos (RFC 4752), and its tickets, by gssapi (an extra).

GSSAPI tokens are exchanged until both sides are authenticated. Then the broker offers, wrapped,
protection levels (a byte) and the longest message (three bytes). The client chooses none, as Kafka
has none, and names the identity that it acts for.

Each principal has a cache in memory, for all connections of the process. No environment variable is
used: clusters may know us by different principals. The library fetches tickets with the keytab, and
again after half of their life. It needs a path to the keytab and gets that of an anonymous file in
memory.

One caller asks the KDC; the others wait for the ticket or the same error. An error about the
principal holds for all callers, one about a service for callers of that service. KDCs lock
accounts, so later callers get the error, too, for a time that grows.
"""

from __future__ import annotations

import base64
import itertools
import os
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Any, TypeVar

from sparkmirror.errors import AuthenticationError
from sparkmirror.security.circuit_breaker import MAX_PAUSE_SECONDS, CircuitBreaker
from sparkmirror.security.kerberos_errors import kerberos_error
from sparkmirror.security.settings import KerberosSettings
from sparkmirror.security.source_cache import SourceCache

_NO_PROTECTION = 1
_OFFER_BYTES = 4
_CHOICE = bytes((_NO_PROTECTION, 0, 0, 0))

T = TypeVar("T")
_MOST_WORDS = 300
_OURSELVES = ""  # in the place of a service
_numbers = itertools.count(1)


class KerberosClient:
    """One exchange with the broker on a host."""

    def __init__(self, settings: KerberosSettings, host: str) -> None:
        self._gssapi = import_gssapi()
        self._tickets = ticket_source(settings)
        self._service = f"{settings.service}/{host}"
        self._target = f"{settings.service}@{host}"
        self._context: Any = None
        self._has_chosen = False

    def initial_response(self) -> bytes:
        """The first token, with a ticket for the broker."""
        return self._tickets.with_credentials(self._service, self._begin)

    def _begin(self, credentials: Any) -> bytes:
        gssapi = self._gssapi
        name = gssapi.Name(self._target, name_type=gssapi.NameType.hostbased_service)
        self._context = gssapi.SecurityContext(
            name=name, creds=credentials, usage="initiate", mech=gssapi.MechType.kerberos
        )
        return self._context.step() or b""

    def evaluate_challenge(self, challenge: bytes) -> bytes | None:
        """The next token; None at the end."""
        if self._has_chosen:
            return None
        try:
            if not self._context.complete:
                return self._context.step(challenge) or b""
            return self._select_protection(self._context.unwrap(challenge).message)
        except self._gssapi.exceptions.GSSError as error:
            raise self._tickets.to_authentication_error(error, self._service) from error

    def _select_protection(self, offer: bytes) -> bytes:
        if len(offer) != _OFFER_BYTES or not offer[0] & _NO_PROTECTION:
            raise AuthenticationError(
                f"Kerberos: {self._service} insists on protection that Kafka does not have (qop)."
            )
        self._has_chosen = True
        who = str(self._context.initiator_name).encode()
        return bytes(self._context.wrap(_CHOICE + who, False).message)


def import_gssapi() -> Any:
    """The package; AuthenticationError says how to get it."""
    try:
        import gssapi  # noqa: PLC0415 - an extra
    except (ImportError, OSError) as error:
        raise AuthenticationError(
            "GSSAPI (Kerberos) needs the package gssapi and the system's Kerberos library, on the "
            "driver and on every executor: pip install 'sparkmirror[kerberos]'."
        ) from error
    return gssapi


def ticket_source(settings: KerberosSettings) -> TicketSource:
    """The tickets for these settings; any thread may ask."""
    return _tickets.get(settings)


class TicketSource:
    """The tickets of one principal."""

    def __init__(self, settings: KerberosSettings) -> None:
        self._settings = settings
        self._gssapi = import_gssapi()
        self._cache = f"MEMORY:sparkmirror-{os.getpid()}-{next(_numbers)}"
        self._one_asks = threading.Lock()
        self._refusals = CircuitBreaker[str, AuthenticationError]()

    def with_credentials(self, service: str, work: Callable[[Any], T]) -> T:
        """What `work` makes of our credentials; AuthenticationError if there is no ticket."""
        came_at = time.monotonic()
        with self._one_asks, ExitStack() as stack:
            credentials = self._acquire_credentials(stack, came_at)
            self._check(service, came_at)
            try:
                return work(credentials)
            except self._gssapi.exceptions.GSSError as error:
                raise self._record_failure(
                    service, self.to_authentication_error(error, service)
                ) from error

    def _acquire_credentials(self, stack: ExitStack, came_at: float) -> Any:
        self._check(_OURSELVES, came_at)
        try:
            return stack.enter_context(self._credentials())
        except self._gssapi.exceptions.GSSError as error:
            raise self._record_failure(
                _OURSELVES, self.to_authentication_error(error, self._settings.service)
            ) from error

    def _check(self, key: str, came_at: float) -> None:
        failure = self._refusals.current_error(key, came_at)
        if failure is not None:
            raise AuthenticationError(str(failure), retriable=failure.retriable)

    def _record_failure(self, key: str, failure: AuthenticationError) -> AuthenticationError:
        """What time heals is only told to those who have waited for it."""
        longest = 0.0 if failure.retriable else MAX_PAUSE_SECONDS
        self._refusals.record_failure(key, failure, time.monotonic(), longest)
        return failure

    def to_authentication_error(self, error: Any, service: str) -> AuthenticationError:
        """What an error of the library means."""
        return kerberos_error(
            int(error.maj_code), int(error.min_code), _words(error), self._settings, service
        )

    @contextmanager
    def _credentials(self) -> Iterator[Any]:
        if self._settings.uses_ticket_cache:
            store = {"ccache": self._settings.ticket_cache} if self._settings.ticket_cache else {}
            try:
                found = self._acquire(store)
            except self._gssapi.exceptions.GSSError:
                if self._settings.keytab is None:
                    raise
            else:
                yield found
                return
        with self._keytab() as path:
            yield self._acquire({"ccache": self._cache, "client_keytab": path})

    def _acquire(self, store: dict[str, str]) -> Any:
        gssapi, principal = self._gssapi, self._settings.principal
        name = None
        if principal:
            name = gssapi.Name(principal, name_type=gssapi.NameType.kerberos_principal)
        found = gssapi.Credentials(
            name=name, usage="initiate", mechs=[gssapi.MechType.kerberos], store=store or None
        )
        if not found.lifetime:  # asked here, so that a ticket is fetched now if one is to be
            raise gssapi.exceptions.ExpiredCredentialsError(11 << 16, 0)
        return found

    @contextmanager
    def _keytab(self) -> Iterator[str]:
        if self._settings.keytab is None:
            raise AuthenticationError("GSSAPI needs a ticket cache or a keytab.")
        descriptor = os.memfd_create("sparkmirror-keytab")
        try:
            with os.fdopen(os.dup(descriptor), "wb") as file:
                file.write(base64.b64decode(self._settings.keytab.reveal()))
            yield f"FILE:/proc/self/fd/{descriptor}"
        finally:
            os.close(descriptor)


def _words(error: Any) -> str:
    """The library's own reason: that of the mechanism, or else the general one."""
    reasons = error.get_all_statuses(error.min_code, False) if error.min_code else []
    words = reasons[0] if reasons else error.get_all_statuses(error.maj_code, True)[0]
    words = "".join(char if char.isprintable() else " " for char in str(words))
    return words[:_MOST_WORDS].strip().rstrip(".")


_tickets = SourceCache[KerberosSettings, TicketSource](TicketSource)
