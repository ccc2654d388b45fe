# SPDX-License-Identifier: Apache-2.0
"""Explains failed TLS handshakes and logins, and names the config key to check.

Pure. Errors that only need a retry, such as a broker that closes the connection, have no hint.
"""

from __future__ import annotations

import ssl
from collections.abc import Callable
from dataclasses import dataclass

from sparkmirror.security.settings import SecurityKeyNames, SecurityProtocol, SecuritySettings

_EXPIRED, _NOT_YET = 10, 9
_OTHER_HOST, _OTHER_ADDRESS = 62, 64
_TOO_WEAK = frozenset({66, 67, 68})
_UNKNOWN_AUTHORITY = frozenset({2, 18, 19, 20, 21, 27})

_NO_TLS = ("WRONG_VERSION_NUMBER", "RECORD_LAYER_FAILURE", "HTTP_REQUEST", "PACKET_LENGTH_TOO_LONG")
_NO_COMMON_VERSION = ("PROTOCOL_VERSION", "UNSUPPORTED_PROTOCOL", "NO_PROTOCOLS_AVAILABLE")
_NO_COMMON_SUITE = ("NO_SHARED_CIPHER", "ALERT_HANDSHAKE_FAILURE", "ALERT_INSUFFICIENT_SECURITY")
# TLS alerts about the client certificate, or about a missing one.
_CLIENT_CERTIFICATE = (
    "CERTIFICATE_REQUIRED",
    "ALERT_BAD_CERTIFICATE",
    "ALERT_CERTIFICATE",
    "ALERT_UNKNOWN_CA",
    "ALERT_UNSUPPORTED_CERTIFICATE",
    "ALERT_ACCESS_DENIED",
    "ALERT_DECRYPT_ERROR",
)


@dataclass(frozen=True, slots=True)
class Refusal:
    """Why TLS or SASL with a broker failed.

    `explain` returns the reason with the key names of any client, without a final dot.
    """

    explain: Callable[[SecuritySettings], str]
    retriable: bool = False


def tls_listener_hint(address: str, security: SecuritySettings) -> str:
    """Explain that a listener answered a plaintext request with TLS."""
    key = security.keys.protocol
    return f"{address} speaks TLS: {key} must be SSL or SASL_SSL for this listener"


def tls_error_hint(  # noqa: PLR0911 - a list of cases
    error: BaseException, address: str, security: SecuritySettings
) -> str:
    """Return why TLS to an address failed and the remedy; empty if a retry may succeed."""
    keys = security.keys
    if isinstance(error, ssl.SSLCertVerificationError):
        return _untrusted(error, address, keys)
    if not isinstance(error, ssl.SSLError) or isinstance(error, ssl.SSLEOFError):
        return ""
    reason = (error.reason or "").upper()
    detail = reason.lower().replace("_", " ") or str(error)
    if any(one in reason for one in _NO_TLS):
        return (
            f"{address} does not speak TLS ({detail}): check {keys.protocol} and the port in the "
            "address"
        )
    if any(one in reason for one in _NO_COMMON_VERSION):
        return (
            f"{address} supports no TLS version that is enabled here ({detail}): check "
            f"{keys.versions}"
        )
    if any(one in reason for one in _CLIENT_CERTIFICATE):
        has_one = security.tls is not None and bool(security.tls.chain)
        what = "rejects the client certificate" if has_one else "requires a client certificate"
        return f"{address} {what} ({detail}): check {keys.identity}"
    if any(one in reason for one in _NO_COMMON_SUITE):
        return (
            f"{address} accepts none of the client's cipher suites, or requires a client "
            f"certificate ({detail}): check {keys.identity}, and {keys.suites} if it is set"
        )
    return ""


def _untrusted(error: ssl.SSLCertVerificationError, address: str, keys: SecurityKeyNames) -> str:
    certificate = f"the certificate of {address}"
    if error.verify_code == _EXPIRED:
        return (
            f"{certificate}, or of its issuer, has expired: renew it on the brokers, and add the "
            f"certificate of the new issuer to {keys.trust}"
        )
    if error.verify_code == _NOT_YET:
        return (
            f"{certificate}, or of its issuer, is not valid yet: compare the clocks of both "
            f"machines, and check {keys.trust}"
        )
    if error.verify_code in (_OTHER_HOST, _OTHER_ADDRESS):
        return (
            f"{certificate} is for another host name: use a name from the certificate in "
            f"bootstrap.servers and advertised.listeners, or set {keys.host_check} to an empty "
            "value to disable the check"
        )
    if error.verify_code in _TOO_WEAK:
        return (
            f"{certificate}, or of its issuer, is too weak ({error.verify_message}): replace it on "
            f"the brokers, and add the certificate of the new issuer to {keys.trust}"
        )
    if error.verify_code in _UNKNOWN_AUTHORITY:
        return (
            f"{certificate} has an untrusted issuer ({error.verify_message}): add the issuer's "
            f"certificate to {keys.trust}"
        )
    return f"{certificate} is not trusted ({error.verify_message}): check {keys.trust}"


def no_response_hint(security: SecuritySettings) -> str:
    """Return the key to check when a listener accepts connections but does not respond."""
    key = security.keys.protocol
    if security.protocol is SecurityProtocol.PLAINTEXT:
        return f"If this listener uses TLS or SASL, set {key} accordingly."
    return f"Check that this listener uses {key}={security.protocol.value}."
