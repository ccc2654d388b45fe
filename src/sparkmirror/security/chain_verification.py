# SPDX-License-Identifier: Apache-2.0
"""Verifies a server's certificate chain by the rules of Java 17.

OpenSSL rejects some certificates that Java accepts and companies use: signed with SHA-1, with RSA
keys of 1,024 bits, or by a private CA that has expired. OpenSSL's only setting is a security level,
and the level that accepts these accepts everything. So with a truststore, OpenSSL at level 0 checks
signatures, names and purposes. After each handshake this module checks the chain OpenSSL built:

- up to the first trusted certificate: RSA and DSA keys of at least 1,024 bits, EC of at least 224
- before that certificate: within its validity, and not signed with MD5

A certificate in the truststore is trusted whatever its dates. While one of them is outside its
validity, OpenSSL's date check is off. Until this check, the client has sent only its certificate.
"""

from __future__ import annotations

import ssl
import sys
from collections.abc import Sequence
from contextlib import suppress
from datetime import UTC, datetime
from typing import Any

from sparkmirror.security.certificates import CertificateFacts, parse_certificate

_NO_CHECK_TIME = 0x200000  # X509_V_FLAG_NO_CHECK_TIME; Python does not export it
_DER = 2  # ENCODING_DER of the _ssl module
# OpenSSL's verify codes and messages.
_NOT_YET = (9, "certificate is not yet valid")
_EXPIRED = (10, "certificate has expired")
_UNKNOWN = (20, "unable to get local issuer certificate")
_SHORT_KEY = (66, "key too small")
_WEAK_DIGEST = (68, "signed with MD5")


class ChainVerifyingContext(ssl.SSLContext):
    """A client's context. Without anchors only OpenSSL verifies."""

    anchors: frozenset[bytes] = frozenset()  # DER
    _anchor_validity: tuple[datetime, datetime] | None = None  # when all anchors are valid

    def set_trust_anchors(self, anchors: Sequence[bytes]) -> None:
        """Set the trusted certificates, which OpenSSL has already loaded."""
        self.anchors = frozenset(anchors)
        with suppress(ValueError):
            facts = [parse_certificate(one) for one in anchors]
            self._anchor_validity = (
                max(one.not_before for one in facts),
                min(one.not_after for one in facts),
            )

    def wrap_socket(self, *args: Any, **kwargs: Any) -> ssl.SSLSocket:
        self._ignore_expired_anchors()
        return super().wrap_socket(*args, **kwargs)

    def wrap_bio(self, *args: Any, **kwargs: Any) -> ssl.SSLObject:
        self._ignore_expired_anchors()
        return super().wrap_bio(*args, **kwargs)

    def _ignore_expired_anchors(self) -> None:
        if self._anchor_validity is not None:
            begin, end = self._anchor_validity
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
    """Raise SSLCertVerificationError as OpenSSL does."""
    anchors = connection.context.anchors
    if not anchors:
        return
    fault = find_chain_fault(_verified_chain(connection), anchors, datetime.now(UTC))
    if fault is not None:
        code, message = fault
        error = ssl.SSLCertVerificationError(1, f"certificate verify failed: {message}")
        error.verify_code, error.verify_message = code, message
        raise error


def _verified_chain(connection: Any) -> list[bytes]:
    """Return the chain that OpenSSL verified as DER, the peer's certificate first."""
    if sys.version_info >= (3, 13):
        return list(connection.get_verified_chain())
    # Python 3.11 and 3.12 have no public method for it.
    chain = connection._sslobj.get_verified_chain()  # noqa: SLF001
    return [one.public_bytes(_DER) for one in chain]


def find_chain_fault(
    chain: Sequence[bytes], anchors: frozenset[bytes], now: datetime
) -> tuple[int, str] | None:
    """Return OpenSSL's code and message for the first fault of a chain; None if it is valid.

    The peer's certificate comes first.
    """
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
    if now > facts.not_after:
        return _EXPIRED
    if now < facts.not_before:
        return _NOT_YET
    return _WEAK_DIGEST if facts.digest == "MD5" else None
