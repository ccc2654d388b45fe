# SPDX-License-Identifier: Apache-2.0
"""Sentences about failed TLS handshakes and logins that name the key to check.

Pure: an error and the client's settings go in. Errors that only need a retry, such as a broker that
closes the connection, have no sentence.
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
# What a broker says about our certificate, or about that we have none.
_NOT_WELCOME = (
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
    """Why TLS to an address failed, and what to do; empty: nobody's fault, try again."""
    keys = security.keys
    if isinstance(error, ssl.SSLCertVerificationError):
        return _untrusted(error, address, keys)
    if not isinstance(error, ssl.SSLError) or isinstance(error, ssl.SSLEOFError):
        return ""
    reason = (error.reason or "").upper()
    said = reason.lower().replace("_", " ") or str(error)
    if any(one in reason for one in _NO_TLS):
        return (
            f"{address} does not speak TLS ({said}): check {keys.protocol} and the port in the "
            "address"
        )
    if any(one in reason for one in _NO_COMMON_VERSION):
        return (
            f"{address} speaks no version of TLS that is enabled here ({said}): check "
            f"{keys.versions}"
        )
    if any(one in reason for one in _NOT_WELCOME):
        has_one = security.tls is not None and bool(security.tls.chain)
        what = "does not accept our certificate" if has_one else "asks for a certificate"
        return f"{address} {what} ({said}): check {keys.identity}"
    if any(one in reason for one in _NO_COMMON_SUITE):
        return (
            f"{address} accepts none of our cipher suites, or wants a certificate ({said}): check "
            f"{keys.identity}, and {keys.suites} if it is set"
        )
    return ""


def _untrusted(error: ssl.SSLCertVerificationError, address: str, keys: SecurityKeyNames) -> str:
    whose = f"the certificate of {address}"
    if error.verify_code == _EXPIRED:
        return (
            f"{whose}, or of who signed it, has expired: the brokers need a new one, and "
            f"{keys.trust} needs the one that signs it"
        )
    if error.verify_code == _NOT_YET:
        return (
            f"{whose}, or of who signed it, is not valid yet: compare the clocks of both machines, "
            f"and check {keys.trust}"
        )
    if error.verify_code in (_OTHER_HOST, _OTHER_ADDRESS):
        return (
            f"{whose} is made out to another host: reach the broker by the name in it, or set "
            f"{keys.host_check} to nothing if that is what you want"
        )
    if error.verify_code in _TOO_WEAK:
        return (
            f"{whose}, or of who signed it, is too weak ({error.verify_message}): the brokers need "
            f"a new one, and {keys.trust} the one that signs it"
        )
    if error.verify_code in _UNKNOWN_AUTHORITY:
        return (
            f"{whose} was signed by nobody we trust ({error.verify_message}): put the "
            f"certificate of who signed it into {keys.trust}"
        )
    return f"{whose} is not trusted ({error.verify_message}): check {keys.trust}"


def no_response_hint(security: SecuritySettings) -> str:
    """What to look at when somebody accepts connections and then does not talk to us."""
    key = security.keys.protocol
    if security.protocol is SecurityProtocol.PLAINTEXT:
        return f"If this is a listener with TLS or SASL, {key} must say so."
    return f"Check that {key}={security.protocol.value} is what this listener speaks."
