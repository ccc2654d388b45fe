# SPDX-License-Identifier: Apache-2.0
"""Warns about cleartext credentials, and about weak or expired certificates in stores.

Both are allowed, as in Java; brokers may refuse such a certificate.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from datetime import UTC, datetime
from functools import lru_cache
from typing import NamedTuple
from urllib.parse import urlsplit

from cryptography import x509

from sparkmirror.config.files.config_reader import ConfigReader
from sparkmirror.config.files.notices import ConfigReport
from sparkmirror.config.security.oauth_settings import ENDPOINT, ENDPOINT_KEYS
from sparkmirror.config.security.security_options import PROTOCOL
from sparkmirror.config.worker_settings import is_loopback
from sparkmirror.quantities import and_more
from sparkmirror.security.certificates import CertificateFacts, parse_certificate, split_pem
from sparkmirror.security.settings import (
    SaslMechanism,
    SecurityProtocol,
    SecuritySettings,
    TlsSettings,
)

_READABLE = {SaslMechanism.PLAIN: "password", SaslMechanism.OAUTHBEARER: "token"}

_MAX_NAMED = 3
_MAX_NAME_LENGTH = 100
_TRUST = ("ssl.truststore.location", "ssl.truststore.certificates")
_IDENTITY = ("ssl.keystore.location", "ssl.keystore.certificate.chain")


def warn_cleartext_credentials(
    security: SecuritySettings, reader: ConfigReader, report: ConfigReport
) -> None:
    """Warn about credentials that leave this machine unencrypted."""
    sasl = security.sasl
    if sasl is None:
        return
    what = _READABLE.get(sasl.mechanism)
    servers = (one.rpartition(":")[0] for one in reader.strings("bootstrap.servers"))
    if (
        what
        and security.protocol is SecurityProtocol.SASL_PLAINTEXT
        and not all(is_loopback(one.rpartition("/")[2]) for one in servers)
    ):
        origin = reader.origin(PROTOCOL)
        report.warn(
            origin,
            f"{origin.key} is SASL_PLAINTEXT: with {sasl.mechanism.value} the {what} is sent to "
            "brokers unencrypted. Set SASL_SSL.",
        )
    if sasl.oauth is not None and sasl.oauth.static_token is None:
        parts = urlsplit(sasl.oauth.endpoint)
        if parts.scheme.lower() == "http" and not is_loopback(parts.hostname or ""):
            origin = reader.origin(next(filter(reader.is_configured, ENDPOINT_KEYS), ENDPOINT))
            report.warn(
                origin,
                f"{origin.key}: the client's secret and its tokens are sent unencrypted between "
                "this client and the token endpoint. Use https.",
            )


class _Certificate(NamedTuple):
    name: str
    is_self_signed: bool  # then the signature algorithm does not matter
    facts: CertificateFacts


def warn_weak_certificates(
    security: SecuritySettings, reader: ConfigReader, report: ConfigReport
) -> None:
    """Warn about weak or expired certificates by name."""
    settings = security.tls or TlsSettings()
    for keys, pem, outcome in (
        (_TRUST, settings.trusted or "", "trusted nevertheless, as in Java"),
        (_IDENTITY, settings.chain, "brokers may refuse it"),
    ):
        found = [
            f"{one.name} ({', '.join(faults)})"
            for one in _known(pem)
            if (faults := list(_faults(one, datetime.now(UTC))))
        ]
        if found:
            origin = reader.origin(next(filter(reader.is_configured, keys), keys[0]))
            more = and_more(len(found) - _MAX_NAMED)
            named = ", ".join(found[:_MAX_NAMED]) + more
            report.warn(origin, f"{origin.key}: weak or out of date, and {outcome}: {named}.")


def _faults(known: _Certificate, now: datetime) -> Iterator[str]:
    facts = known.facts
    if now > facts.not_after:
        yield f"expired on {facts.not_after:%Y-%m-%d}"
    if now < facts.not_before:
        yield f"valid from {facts.not_before:%Y-%m-%d} on"
    if facts.is_key_weak:
        refused = ": rejected" if facts.is_key_rejected else ""
        yield f"{facts.kind} key of {facts.bits} bits{refused}"
    if facts.digest and not known.is_self_signed:
        yield f"signed with {facts.digest}"


@lru_cache(maxsize=64)
def _known(pem: str) -> tuple[_Certificate, ...]:
    """Return the certificates of a PEM, except unreadable ones, which OpenSSL reports."""
    found = []
    for number, der in enumerate(split_pem(pem), start=1):
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # cryptography warns about unusual certificates
                certificate, facts = x509.load_der_x509_certificate(der), parse_certificate(der)
                name = certificate.subject.rfc4514_string()
                is_self_signed = certificate.subject == certificate.issuer
        except (ValueError, x509.InvalidVersion):
            continue
        shown = "".join(letter for letter in name if letter.isprintable())[:_MAX_NAME_LENGTH]
        found.append(_Certificate(shown or f"certificate {number}", is_self_signed, facts))
    return tuple(found)
