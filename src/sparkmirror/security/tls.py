# SPDX-License-Identifier: Apache-2.0
"""Creates TLS contexts from PEM text, without files on disk.

As in Java 17: a certificate in the truststore is trusted even if a CA signed it or it has expired.
The server's chain is always verified, its host name unless the config disables that. TLS 1.1 and
older and suites with broken ciphers are off whatever the config says. A client without configured
suites offers Java's, and accepts the certificates that Java accepts (`chain_verification`).
"""

from __future__ import annotations

import os
import re
import ssl

from sparkmirror.model import Secret
from sparkmirror.security.certificates import split_pem
from sparkmirror.security.chain_verification import ChainVerifyingContext
from sparkmirror.security.settings import TlsSettings

CLIENT_AUTH = {
    "none": ssl.CERT_NONE,
    "requested": ssl.CERT_OPTIONAL,
    "required": ssl.CERT_REQUIRED,
}

_VERSIONS = {"TLSv1.2": ssl.TLSVersion.TLSv1_2, "TLSv1.3": ssl.TLSVersion.TLSv1_3}
_OUTDATED = ("TLSv1.1", "TLSv1", "SSLv3", "SSLv2Hello", "SSLv2")
_SUITES_OF_TLS13 = (
    "TLS_AES_256_GCM_SHA384",
    "TLS_CHACHA20_POLY1305_SHA256",
    "TLS_AES_128_GCM_SHA256",
)
_NO_SUITE = "TLS_EMPTY_RENEGOTIATION_INFO_SCSV"  # Java lists it among the suites
_OUTDATED_SUITE = re.compile(r"_(anon|3DES|DES40|DES|NULL|RC4|MD5|ECDH|KRB5|EXPORT|SEED|IDEA)_")
_KEY_EXCHANGES = {
    "ECDHE_ECDSA": "ECDHE-ECDSA-",
    "ECDHE_RSA": "ECDHE-RSA-",
    "DHE_RSA": "DHE-RSA-",
    "DHE_DSS": "DHE-DSS-",
    "RSA": "",
}
# Java 17's suites for TLS 1.2, in its order.
_SUITES_OF_JAVA = (
    "ECDHE-ECDSA-AES256-GCM-SHA384",
    "ECDHE-ECDSA-AES128-GCM-SHA256",
    "ECDHE-ECDSA-CHACHA20-POLY1305",
    "ECDHE-RSA-AES256-GCM-SHA384",
    "ECDHE-RSA-CHACHA20-POLY1305",
    "ECDHE-RSA-AES128-GCM-SHA256",
    "DHE-RSA-AES256-GCM-SHA384",
    "DHE-RSA-CHACHA20-POLY1305",
    "DHE-DSS-AES256-GCM-SHA384",
    "DHE-RSA-AES128-GCM-SHA256",
    "DHE-DSS-AES128-GCM-SHA256",
    "ECDHE-ECDSA-AES256-SHA384",
    "ECDHE-RSA-AES256-SHA384",
    "ECDHE-ECDSA-AES128-SHA256",
    "ECDHE-RSA-AES128-SHA256",
    "DHE-RSA-AES256-SHA256",
    "DHE-DSS-AES256-SHA256",
    "DHE-RSA-AES128-SHA256",
    "DHE-DSS-AES128-SHA256",
    "ECDHE-ECDSA-AES256-SHA",
    "ECDHE-RSA-AES256-SHA",
    "ECDHE-ECDSA-AES128-SHA",
    "ECDHE-RSA-AES128-SHA",
    "DHE-RSA-AES256-SHA",
    "DHE-DSS-AES256-SHA",
    "DHE-RSA-AES128-SHA",
    "DHE-DSS-AES128-SHA",
    "AES256-GCM-SHA384",
    "AES128-GCM-SHA256",
    "AES256-SHA256",
    "AES128-SHA256",
    "AES256-SHA",
    "AES128-SHA",
)
_ANY_STRENGTH = 0  # `chain_verification` checks instead
_PUBLIC_STRENGTH = 1  # no SHA-1, which Java rejects below its built-in CAs


def client_context(settings: TlsSettings) -> ssl.SSLContext:
    """Create a client's context. Raises ValueError if OpenSSL rejects the settings."""
    context = ChainVerifyingContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = settings.verifies_hostname
    context.verify_mode = ssl.CERT_REQUIRED
    level = _PUBLIC_STRENGTH if settings.trusted is None else _ANY_STRENGTH
    context.set_ciphers(f"{':'.join(_SUITES_OF_JAVA)}:@SECLEVEL={level}")
    _set_up(context, settings)
    if settings.trusted is not None:
        context.set_trust_anchors(split_pem(settings.trusted))
    return context


def server_context(settings: TlsSettings, client_auth: str) -> ssl.SSLContext:
    """Create a listener's context; `client_auth` is the value of `ssl.client.auth`."""
    if client_auth not in CLIENT_AUTH:
        raise ValueError(f"client authentication must be one of {', '.join(CLIENT_AUTH)}")
    if not settings.chain or settings.key is None:
        raise ValueError("a TLS listener needs a keystore with a private key")
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.verify_mode = CLIENT_AUTH[client_auth]
    _set_up(context, settings)
    return context


def load_certificate_and_key(context: ssl.SSLContext, chain: str, key: Secret) -> None:
    """Load a certificate and key into a context.

    Python's ssl needs a path: it gets that of an anonymous in-memory file, which is then closed.
    """
    descriptor = os.memfd_create("sparkmirror-key")
    try:
        with os.fdopen(os.dup(descriptor), "wb") as file:
            file.write(f"{key.reveal()}\n{chain}".encode())
        context.load_cert_chain(f"/proc/self/fd/{descriptor}", password=_no_password)
    except ssl.SSLError as error:
        raise ValueError(
            f"OpenSSL rejects the private key and its certificate ({_reason(error)})"
        ) from error
    finally:
        os.close(descriptor)


def openssl_suite(name: str) -> str | None:
    """Return OpenSSL's name for Java's name of a TLS 1.2 suite; None if there is none."""
    exchange, separator, cipher = name.removeprefix("TLS_").partition("_WITH_")
    if not separator or exchange not in _KEY_EXCHANGES:
        return None
    if cipher == "CHACHA20_POLY1305_SHA256":
        suffix = "CHACHA20-POLY1305"
    else:
        suffix = cipher.replace("AES_", "AES").replace("_CBC", "").replace("_", "-")
    return _KEY_EXCHANGES[exchange] + suffix


def _set_up(context: ssl.SSLContext, settings: TlsSettings) -> None:
    versions = _versions(settings.protocols)
    if settings.ciphers:
        versions = _choose_suites(context, settings.ciphers, versions)
    context.minimum_version = min(versions)
    context.maximum_version = max(versions)
    _trust(context, settings.trusted)
    if settings.chain and settings.key is not None:
        load_certificate_and_key(context, settings.chain, settings.key)


def _versions(protocols: tuple[str, ...]) -> list[ssl.TLSVersion]:
    unknown = [name for name in protocols if name not in _VERSIONS and name not in _OUTDATED]
    if unknown:
        raise ValueError(f"{unknown[0]} is not a TLS version; use TLSv1.2 or TLSv1.3")
    versions = [_VERSIONS[name] for name in protocols if name in _VERSIONS]
    if not versions:
        raise ValueError("TLS 1.1 and older are disabled, as in Java: use TLSv1.2 or TLSv1.3")
    return versions


def _choose_suites(
    context: ssl.SSLContext, names: tuple[str, ...], versions: list[ssl.TLSVersion]
) -> list[ssl.TLSVersion]:
    """Enable these suites, for TLS 1.2 no others. Returns the versions that have a suite."""
    newer = [name for name in names if name in _SUITES_OF_TLS13]
    older = [name for name in names if name not in _SUITES_OF_TLS13 and name != _NO_SUITE]
    left = [
        version for version in versions if (newer if version is ssl.TLSVersion.TLSv1_3 else older)
    ]
    if not left:
        raise ValueError("none of the cipher suites belongs to an enabled TLS version")
    if ssl.TLSVersion.TLSv1_2 in left:
        _choose_tls12_suites(context, older)
    return left


def unlisted_tls13_suites(settings: TlsSettings) -> tuple[str, ...]:
    """Return the TLS 1.3 suites that stay enabled although they are not listed.

    Python cannot select TLS 1.3 suites; all of them are strong.
    """
    listed = [name for name in settings.ciphers if name in _SUITES_OF_TLS13]
    if not listed or "TLSv1.3" not in settings.protocols:
        return ()
    return tuple(name for name in _SUITES_OF_TLS13 if name not in listed)


def _choose_tls12_suites(context: ssl.SSLContext, names: list[str]) -> None:
    suites = []
    for name in names:
        if _OUTDATED_SUITE.search(name):
            continue
        suite = openssl_suite(name)
        if suite is None:
            raise ValueError(f"OpenSSL has no equivalent of the cipher suite {name}")
        try:
            context.set_ciphers(suite)
        except ssl.SSLError as error:
            raise ValueError(f"OpenSSL does not support the cipher suite {name}") from error
        suites.append(suite)
    if not suites:
        raise ValueError("all listed cipher suites of TLS 1.2 are outdated and disabled")
    context.set_ciphers(":".join(suites))


def _trust(context: ssl.SSLContext, trusted: str | None) -> None:
    if trusted is None:
        if context.verify_mode is not ssl.CERT_NONE:
            purpose = (
                ssl.Purpose.SERVER_AUTH
                if context.protocol is ssl.PROTOCOL_TLS_CLIENT
                else ssl.Purpose.CLIENT_AUTH
            )
            context.load_default_certs(purpose)
        return
    context.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN
    try:
        context.load_verify_locations(cadata=trusted)
    except (ssl.SSLError, ValueError) as error:
        raise ValueError("OpenSSL rejects the trusted certificates") from error


def _no_password() -> str:
    """Prevent OpenSSL from prompting for the password of an encrypted key."""
    return ""


def _reason(error: ssl.SSLError) -> str:
    return (error.reason or "not PEM").lower().replace("_", " ")
