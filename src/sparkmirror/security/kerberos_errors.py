# SPDX-License-Identifier: Apache-2.0
"""Explains Kerberos errors by the library's error codes. Pure.

A KDC counts wrong keys and locks accounts, so a refusal is not retried at once. Temporary errors (a
KDC that is down, clock skew, a missing kinit) are retried.
"""

from __future__ import annotations

from sparkmirror.errors import AuthenticationError
from sparkmirror.security.settings import KerberosSettings

_BASE = -1765328384  # MIT's offset for the protocol's error codes (RFC 4120)
_CLIENT_UNKNOWN, _SERVICE_UNKNOWN = _BASE + 6, _BASE + 7
_NO_COMMON_CIPHER = _BASE + 14
_CLIENT_REVOKED, _KEY_EXPIRED = _BASE + 18, _BASE + 23
_WRONG_KEY = (_BASE + 24, _BASE + 31)  # preauthentication failed, integrity check failed
_SKEW = (_BASE + 37, _BASE + 33)  # clock skew, ticket not yet valid
_NO_KDC = (-1765328230, -1765328228, -1765328164)  # no realm, no KDC, no response, no address
_NO_REALM = (-1765328160,)
_NO_CONFIG = range(-1429577728, -1429577690)  # krb5.conf cannot be opened or parsed
_KEY_NOT_FOUND = -1765328203
_NO_CREDENTIALS = (7 << 16, 11 << 16)  # GSS_S_NO_CRED, GSS_S_CREDENTIALS_EXPIRED
_MINORS = 1 << 32
_MAJOR_MASK = 0xFF << 16


def kerberos_error(  # noqa: PLR0911 - a list of cases
    major: int, minor: int, message: str, settings: KerberosSettings, service: str
) -> AuthenticationError:
    """Explain why there is no ticket for a service.

    `major` is GSSAPI's code, `minor` the mechanism's.
    """
    code = minor - _MINORS if minor >= _MINORS >> 1 else minor
    principal = settings.principal or "the principal"
    if code == _CLIENT_UNKNOWN:
        return AuthenticationError(
            f"Kerberos: the KDC does not know {principal} ({message}). Check the principal in "
            "sasl.jaas.config."
        )
    if code == _SERVICE_UNKNOWN:
        return AuthenticationError(
            f"Kerberos: the KDC does not know {service} ({message}). This name consists of "
            "sasl.kerberos.service.name and the broker's host name; with rdns=true in krb5.conf "
            "the host name comes from a reverse lookup of the address."
        )
    if code in (_CLIENT_REVOKED, _KEY_EXPIRED):
        return AuthenticationError(
            f"Kerberos: the account or key of {principal} is disabled or expired ({message}). "
            "Renew it at the KDC."
        )
    if code in _WRONG_KEY:
        return AuthenticationError(
            f"Kerberos: the keytab's key of {principal} differs from the KDC's ({message}). It was "
            "changed after the export: export the keytab again."
        )
    if code in (_KEY_NOT_FOUND, _NO_COMMON_CIPHER):
        return AuthenticationError(
            f"Kerberos: the keytab has no key for {principal} that the KDC accepts ({message}). "
            "Export the keytab again, with an encryption type that the KDC allows."
        )
    if code in _SKEW:
        return AuthenticationError(
            f"Kerberos: the clocks of this machine and of the KDC or broker differ ({message}). "
            "Synchronize them.",
            retriable=True,
        )
    if code in _NO_KDC or code in _NO_REALM or code in _NO_CONFIG:
        return AuthenticationError(
            f"Kerberos: no KDC responds ({message}). Check the KDC, and the realm in "
            "/etc/krb5.conf (or KRB5_CONFIG), on the driver and on every executor.",
            retriable=True,
        )
    if settings.keytab is None and major & _MAJOR_MASK in _NO_CREDENTIALS:
        cache = settings.ticket_cache or "the system's cache"
        owner = f" for {settings.principal}" if settings.principal else ""
        return AuthenticationError(
            f"Kerberos: there is no valid ticket{owner} in {cache} ({message}). Run kinit, or set "
            "useKeyTab=true with keyTab and principal.",
            retriable=True,
        )
    return AuthenticationError(f"Kerberos: no ticket for {service} ({message}).", retriable=True)
