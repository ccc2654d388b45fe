# SPDX-License-Identifier: Apache-2.0
"""The last word on a server's certificate: what Java 17 takes, and no more.

Companies have brokers with certificates that OpenSSL refuses by default and Java does not: signed
with SHA-1, or with RSA keys of 1,024 bits, by an authority of their own, which may have expired.
OpenSSL knows only levels, and the one that lets these pass lets all pass. So a client that has a
truststore asks OpenSSL for signatures, names and purposes, and after each handshake looks at the
chain that OpenSSL has built:

- up to the first certificate that is trusted: no RSA or DSA key below 1,024 bits, no EC below 224
- below that one: valid by its dates, and not signed with MD5

What is in the truststore is trusted as it is, whatever its dates: while one of them is out of date
OpenSSL is told to look at none. Nothing was sent by then but our own certificate.
"""

from __future__ import annotations

import ssl
import sys
from collections.abc import Sequence
from contextlib import suppress
from datetime import UTC, datetime
from typing import Any

from sparkmirror.security.certificates import CertificateFacts, parse_certificate

_NO_CHECK_TIME = 0x200000  # OpenSSL's flag, which Python has no name for
_DER = 2  # as the ssl module's C part calls it
# The codes and words of OpenSSL.
_NOT_YET = (9, "certificate is not yet valid")
_EXPIRED = (10, "certificate has expired")
_UNKNOWN = (20, "unable to get local issuer certificate")
_SHORT_KEY = (66, "key too small")
_WEAK_DIGEST = (68, "signed with MD5")


class ChainVerifyingContext(ssl.SSLContext):
    """Of a client; without anchors OpenSSL has the last word."""

    anchors: frozenset[bytes] = frozenset()  # DER
    _are_valid: tuple[datetime, datetime] | None = None  # from when to when all anchors are

    def set_trust_anchors(self, anchors: Sequence[bytes]) -> None:
        """These, which OpenSSL has taken already."""
        self.anchors = frozenset(anchors)
        with suppress(ValueError):
            facts = [parse_certificate(one) for one in anchors]
            self._are_valid = max(one.begins for one in facts), min(one.ends for one in facts)

    def wrap_socket(self, *given: Any, **named: Any) -> ssl.SSLSocket:
        """As Python's own."""
        self._ignore_expired_anchors()
        return super().wrap_socket(*given, **named)

    def wrap_bio(self, *given: Any, **named: Any) -> ssl.SSLObject:
        """As Python's own."""
        self._ignore_expired_anchors()
        return super().wrap_bio(*given, **named)

    def _ignore_expired_anchors(self) -> None:
        if self._are_valid is not None:
            begin, end = self._are_valid
            if not begin < datetime.now(UTC) < end:
                self.verify_flags |= _NO_CHECK_TIME


class _Socket(ssl.SSLSocket):
    def do_handshake(self, block: bool = False) -> None:
        super().do_handshake(block)
        _verify_chain(self)


class _Object(ssl.SSLObject):
    def do_handshake(self) -> None:
        super().do_handshake()
        _verify_chain(self)


ChainVerifyingContext.sslsocket_class = _Socket
ChainVerifyingContext.sslobject_class = _Object


def _verify_chain(connection: Any) -> None:
    """SSLCertVerificationError, as from OpenSSL itself."""
    anchors = connection.context.anchors
    if not anchors:
        return
    fault = find_chain_fault(_verified_chain(connection), anchors, datetime.now(UTC))
    if fault is not None:
        code, words = fault
        error = ssl.SSLCertVerificationError(1, f"certificate verify failed: {words}")
        error.verify_code, error.verify_message = code, words
        raise error


def _verified_chain(connection: Any) -> list[bytes]:
    """The certificates of the chain that OpenSSL verified, in DER, the peer's own first."""
    if sys.version_info >= (3, 13):
        return list(connection.get_verified_chain())
    # Python 3.11 and 3.12 have no public way to it.
    chain = connection._sslobj.get_verified_chain()  # noqa: SLF001
    return [one.public_bytes(_DER) for one in chain]


def find_chain_fault(
    chain: Sequence[bytes], anchors: frozenset[bytes], now: datetime
) -> tuple[int, str] | None:
    """What is wrong with a chain, the peer's own certificate first; None: nothing."""
    end = next((at for at, one in enumerate(chain) if one in anchors), None)
    if end is None:
        return _UNKNOWN
    try:
        facts = [parse_certificate(one) for one in chain[: end + 1]]
    except ValueError:
        return _UNKNOWN
    if any(one.is_key_rejected for one in facts):
        return _SHORT_KEY
    faults = (_fault(one, now) for one in facts[:end])
    return next((one for one in faults if one is not None), None)


def _fault(facts: CertificateFacts, now: datetime) -> tuple[int, str] | None:
    if now > facts.ends:
        return _EXPIRED
    if now < facts.begins:
        return _NOT_YET
    return _WEAK_DIGEST if facts.digest == "MD5" else None
