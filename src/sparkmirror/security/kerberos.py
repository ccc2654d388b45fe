# SPDX-License-Identifier: Apache-2.0
"""The SASL client for Kerberos (GSSAPI, RFC 4752) and its tickets, from gssapi (an extra).

GSSAPI tokens are exchanged until both sides are authenticated. Then the broker sends a wrapped
offer: protection levels (one byte) and the maximum message size (three bytes). The client selects
no protection, because Kafka supports none, and sends its authorization identity.

Each principal has an in-memory credential cache for all connections of the process. No environment
variable is used, because each cluster may need another principal. The Kerberos library gets tickets
with the keytab, and renews them after half of their lifetime. It needs a keytab path and gets that
of an anonymous in-memory file.

One caller contacts the KDC; concurrent callers wait for the same ticket or error. An error about
the principal applies to all callers, an error about a service to callers of that service. KDCs lock
accounts, so later callers also get the error, for a growing time.
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
from sparkmirror.security.redaction import one_line
from sparkmirror.security.settings import KerberosSettings
from sparkmirror.security.source_cache import SourceCache

_NO_PROTECTION = 1
_OFFER_BYTES = 4
_CHOICE = bytes((_NO_PROTECTION, 0, 0, 0))

T = TypeVar("T")
_PRINCIPAL = ""  # the circuit breaker's key for errors about the principal, not a service
_numbers = itertools.count(1)


class KerberosClient:
    """One authentication with the broker on a host."""

    def __init__(self, settings: KerberosSettings, host: str) -> None:
        self._gssapi = import_gssapi()
        self._tickets = ticket_source(settings)
        self._service = f"{settings.service}/{host}"
        self._target = f"{settings.service}@{host}"
        self._context: Any = None
        self._has_chosen = False

    def initial_response(self) -> bytes:
        return self._tickets.with_credentials(self._service, self._begin)

    def _begin(self, credentials: Any) -> bytes:
        gssapi = self._gssapi
        name = gssapi.Name(self._target, name_type=gssapi.NameType.hostbased_service)
        self._context = gssapi.SecurityContext(
            name=name, creds=credentials, usage="initiate", mech=gssapi.MechType.kerberos
        )
        return self._context.step() or b""

    def evaluate_challenge(self, challenge: bytes) -> bytes | None:
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
                f"Kerberos: {self._service} requires a protection level (qop) that Kafka does not "
                "support. Is it a Kafka broker?"
            )
        self._has_chosen = True
        identity = str(self._context.initiator_name).encode()
        return bytes(self._context.wrap(_CHOICE + identity, False).message)


def import_gssapi() -> Any:
    """Import the extra. Raises AuthenticationError if it is missing."""
    try:
        import gssapi  # noqa: PLC0415 - an extra
    except (ImportError, OSError) as error:
        raise AuthenticationError(
            "GSSAPI (Kerberos) needs the package gssapi and the system's Kerberos library, on the "
            "driver and on every executor: pip install 'sparkmirror[kerberos]'."
        ) from error
    return gssapi


def ticket_source(settings: KerberosSettings) -> TicketSource:
    """Return the process-wide tickets for these settings. Thread-safe."""
    return _tickets.get(settings)


class TicketSource:
    """The tickets of one principal. Thread-safe."""

    def __init__(self, settings: KerberosSettings) -> None:
        self._settings = settings
        self._gssapi = import_gssapi()
        self._cache = f"MEMORY:sparkmirror-{os.getpid()}-{next(_numbers)}"
        self._lock = threading.Lock()
        self._refusals = CircuitBreaker[str, AuthenticationError]()

    def with_credentials(self, service: str, work: Callable[[Any], T]) -> T:
        """Call `work` with the principal's credentials; one caller at a time.

        Raises AuthenticationError if there is no ticket.
        """
        called_at = time.monotonic()
        with self._lock, ExitStack() as stack:
            credentials = self._acquire_credentials(stack, called_at)
            self._check(service, called_at)
            try:
                return work(credentials)
            except self._gssapi.exceptions.GSSError as error:
                raise self._record_failure(
                    service, self.to_authentication_error(error, service)
                ) from error

    def _acquire_credentials(self, stack: ExitStack, called_at: float) -> Any:
        self._check(_PRINCIPAL, called_at)
        try:
            return stack.enter_context(self._credentials())
        except self._gssapi.exceptions.GSSError as error:
            raise self._record_failure(
                _PRINCIPAL, self.to_authentication_error(error, self._settings.service)
            ) from error

    def _check(self, key: str, called_at: float) -> None:
        failure = self._refusals.current_error(key, called_at)
        if failure is not None:
            raise AuthenticationError(str(failure), retriable=failure.retriable)

    def _record_failure(self, key: str, failure: AuthenticationError) -> AuthenticationError:
        # A retriable error is returned only to callers that waited for this attempt.
        longest = 0.0 if failure.retriable else MAX_PAUSE_SECONDS
        self._refusals.record_failure(key, failure, time.monotonic(), longest)
        return failure

    def to_authentication_error(self, error: Any, service: str) -> AuthenticationError:
        return kerberos_error(
            int(error.maj_code), int(error.min_code), _message(error), self._settings, service
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
        if not found.lifetime:  # reading it makes the library fetch a ticket now
            raise gssapi.exceptions.ExpiredCredentialsError(11 << 16, 0)
        return found

    @contextmanager
    def _keytab(self) -> Iterator[str]:
        if self._settings.keytab is None:
            raise AuthenticationError(
                "GSSAPI needs a ticket cache or a keytab: set useTicketCache or keyTab in "
                "sasl.jaas.config."
            )
        descriptor = os.memfd_create("sparkmirror-keytab")
        try:
            with os.fdopen(os.dup(descriptor), "wb") as file:
                file.write(base64.b64decode(self._settings.keytab.reveal()))
            yield f"FILE:/proc/self/fd/{descriptor}"
        finally:
            os.close(descriptor)


def _message(error: Any) -> str:
    """Return the library's message: the mechanism's, else GSSAPI's."""
    reasons = error.get_all_statuses(error.min_code, False) if error.min_code else []
    message = reasons[0] if reasons else error.get_all_statuses(error.maj_code, True)[0]
    return one_line(str(message))


_tickets = SourceCache[KerberosSettings, TicketSource](TicketSource)
