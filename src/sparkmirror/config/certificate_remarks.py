# SPDX-License-Identifier: Apache-2.0
"""Warnings about certificates in one's own stores that are weak or out of date, as keytool gives.

They are used all the same, as in Java; whoever shows one may be refused by brokers.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from datetime import UTC, datetime
from functools import lru_cache
from typing import NamedTuple

from cryptography import x509

from sparkmirror.config.reading import Reader, Report
from sparkmirror.security.certificates import Facts, all_certificates, read_facts
from sparkmirror.security.settings import Security, TlsSettings

_MOST_NAMED = 3
_MOST_LETTERS = 100
_TRUST = ("ssl.truststore.location", "ssl.truststore.certificates")
_IDENTITY = ("ssl.keystore.location", "ssl.keystore.certificate.chain")


class _Known(NamedTuple):
    name: str
    vouches_for_itself: bool  # then it does not matter what it is signed with
    facts: Facts


def remark_certificates(security: Security, reader: Reader, report: Report) -> None:
    """Name the key and each certificate."""
    settings = security.tls or TlsSettings()
    for keys, pem, outcome in (
        (_TRUST, settings.trusted or "", "trusted all the same, as in Java"),
        (_IDENTITY, settings.chain, "brokers may refuse it"),
    ):
        found = [
            f"{one.name} ({', '.join(faults)})"
            for one in _known(pem)
            if (faults := list(_faults(one, datetime.now(UTC))))
        ]
        if found:
            origin = reader.origin(next(filter(reader.is_given, keys), keys[0]))
            more = f" and {len(found) - _MOST_NAMED} more" if len(found) > _MOST_NAMED else ""
            named = ", ".join(found[:_MOST_NAMED]) + more
            report.warn(origin, f"{origin.key}: weak or out of date, and {outcome}: {named}.")


def _faults(known: _Known, now: datetime) -> Iterator[str]:
    facts = known.facts
    if now > facts.ends:
        yield f"expired on {facts.ends:%Y-%m-%d}"
    if now < facts.begins:
        yield f"valid from {facts.begins:%Y-%m-%d} on"
    if facts.is_short:
        refused = ": not taken" if facts.is_too_short else ""
        yield f"{facts.kind} key of {facts.bits} bits{refused}"
    if facts.digest and not known.vouches_for_itself:
        yield f"signed with {facts.digest}"


@lru_cache(maxsize=64)
def _known(pem: str) -> tuple[_Known, ...]:
    """Without those that cannot be read, which OpenSSL has to say."""
    found = []
    for number, der in enumerate(all_certificates(pem), start=1):
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # odd ones are no fault of ours
                certificate, facts = x509.load_der_x509_certificate(der), read_facts(der)
                name = certificate.subject.rfc4514_string()
                vouches_for_itself = certificate.subject == certificate.issuer
        except (ValueError, x509.InvalidVersion):
            continue
        shown = "".join(letter for letter in name if letter.isprintable())[:_MOST_LETTERS]
        found.append(_Known(shown or f"certificate {number}", vouches_for_itself, facts))
    return tuple(found)
