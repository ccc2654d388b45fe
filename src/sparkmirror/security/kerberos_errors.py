# SPDX-License-Identifier: Apache-2.0
"""Sentences about Kerberos errors. Pure: error codes of the library go in.

A KDC counts wrong keys and locks accounts, so a refusal is not retried at once. What passes with
time (a KDC that is down, clock skew, a missing kinit) is retried.
"""

from __future__ import annotations

from sparkmirror.errors import AuthenticationError
from sparkmirror.security.settings import KerberosSettings

_BASE = -1765328384  # of the errors of the protocol (RFC 4120) in MIT's library
_CLIENT_UNKNOWN, _SERVICE_UNKNOWN = _BASE + 6, _BASE + 7
_NO_COMMON_CIPHER = _BASE + 14
_CLIENT_REVOKED, _KEY_EXPIRED = _BASE + 18, _BASE + 23
_WRONG_KEY = (_BASE + 24, _BASE + 31)  # preauthentication, integrity
_SKEW = (_BASE + 37, _BASE + 33)  # also a ticket that is not valid yet
_NO_KDC = (-1765328230, -1765328228, -1765328164)  # realm or KDC not found, or silent; no address
_NO_REALM = (-1765328160,)
_NO_CONFIG = range(-1429577728, -1429577690)  # a profile that cannot be opened or read
_KEY_NOT_FOUND = -1765328203
_NO_CREDENTIALS = (7 << 16, 11 << 16)  # GSS_S_NO_CRED, GSS_S_CREDENTIALS_EXPIRED
_MINORS = 1 << 32
_MAJOR_MASK = 0xFF << 16


def kerberos_error(  # noqa: PLR0911 - a list of cases
    major: int, minor: int, said: str, settings: KerberosSettings, service: str
) -> AuthenticationError:
    """Why there is no ticket for a service, by the codes of GSSAPI and of the mechanism."""
    code = minor - _MINORS if minor >= _MINORS >> 1 else minor
    who = settings.principal or "us"
    if code == _CLIENT_UNKNOWN:
        return AuthenticationError(f"Kerberos: the KDC does not know {who} ({said}).")
    if code == _SERVICE_UNKNOWN:
        return AuthenticationError(
            f"Kerberos: the KDC does not know {service} ({said}). It is made of "
            "sasl.kerberos.service.name and the name by which the broker is reached; with "
            "rdns=true in krb5.conf that is the one that its address leads to."
        )
    if code in (_CLIENT_REVOKED, _KEY_EXPIRED):
        return AuthenticationError(f"Kerberos: the KDC does not let {who} in ({said}).")
    if code in _WRONG_KEY:
        return AuthenticationError(
            f"Kerberos: the key of {who} in the keytab is not the one that the KDC has ({said}). "
            "It was changed since: export the keytab anew."
        )
    if code in (_KEY_NOT_FOUND, _NO_COMMON_CIPHER):
        return AuthenticationError(
            f"Kerberos: the keytab has no key for {who} that the KDC takes ({said})."
        )
    if code in _SKEW:
        return AuthenticationError(
            f"Kerberos: the clocks of this machine and of the KDC or the broker differ ({said}).",
            retriable=True,
        )
    if code in _NO_KDC or code in _NO_REALM or code in _NO_CONFIG:
        return AuthenticationError(
            f"Kerberos: no KDC answers ({said}). Check that it is up, and the realm in "
            "/etc/krb5.conf (or KRB5_CONFIG), here and where tasks run.",
            retriable=True,
        )
    if settings.keytab is None and major & _MAJOR_MASK in _NO_CREDENTIALS:
        where = settings.ticket_cache or "the system's cache"
        whose = f" for {settings.principal}" if settings.principal else ""
        return AuthenticationError(
            f"Kerberos: there is no valid ticket{whose} in {where} ({said}): run kinit, or write "
            "useKeyTab=true with keyTab and principal.",
            retriable=True,
        )
    return AuthenticationError(f"Kerberos: no ticket for {service} ({said}).", retriable=True)
