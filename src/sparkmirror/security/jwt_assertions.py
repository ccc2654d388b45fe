# SPDX-License-Identifier: Apache-2.0
"""JWT assertions: client authentication at a token endpoint by a signed JWT (RFC 7523).

Errors never quote a key.
"""

from __future__ import annotations

import base64
import binascii
import json
import uuid

from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec, padding, rsa
from cryptography.hazmat.primitives.asymmetric.utils import decode_dss_signature

from sparkmirror.model import Secret
from sparkmirror.security.private_keys import load_private_key
from sparkmirror.security.settings import AssertionSettings

RS256, ES256 = "RS256", "ES256"
_CURVE = ec.SECP256R1
_NUMBER_BYTES = 32


def sign_assertion(settings: AssertionSettings, now: int) -> Secret:
    """Sign an assertion that is issued at `now` (seconds since 1970)."""
    header = {**settings.header, "alg": settings.algorithm, "typ": "JWT"}
    claims = {
        **settings.claims,
        "iat": now,
        "exp": now + settings.lifetime_seconds,
        "nbf": now - settings.not_before_skew_seconds,
        **({"jti": str(uuid.uuid4())} if settings.includes_jti else {}),
    }
    content = ".".join(_encoded(json.dumps(part).encode()) for part in (header, claims))
    return Secret(f"{content}.{_encoded(_signature(settings, content.encode()))}")


def load_signing_key(data: bytes, passphrase: Secret | None, algorithm: str) -> Secret:
    """Return a key as PEM without a passphrase. Raises ValueError if it cannot sign."""
    try:
        der = base64.b64decode(b"".join(_inner_lines(data)), validate=True)
    except binascii.Error:
        raise ValueError("it is not a private key in PEM") from None
    key = load_private_key(der, passphrase)
    is_rsa = isinstance(key, rsa.RSAPrivateKey)
    is_elliptic = isinstance(key, ec.EllipticCurvePrivateKey) and isinstance(key.curve, _CURVE)
    if not (is_rsa if algorithm == RS256 else is_elliptic):
        kind = "an RSA key" if algorithm == RS256 else "a key on the curve P-256"
        raise ValueError(f"{algorithm} needs {kind}")
    pem = key.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.PKCS8,
        serialization.NoEncryption(),
    )
    return Secret(pem.decode())


def _inner_lines(data: bytes) -> list[bytes]:
    """Return the base64 lines; as in Kafka, BEGIN and END lines are optional."""
    return [line.strip() for line in data.splitlines() if not line.startswith(b"-----")]


def _signature(settings: AssertionSettings, content: bytes) -> bytes:
    key = serialization.load_pem_private_key(settings.key.reveal().encode(), None)
    if isinstance(key, rsa.RSAPrivateKey):
        return key.sign(content, padding.PKCS1v15(), hashes.SHA256())
    if isinstance(key, ec.EllipticCurvePrivateKey):
        numbers = decode_dss_signature(key.sign(content, ec.ECDSA(hashes.SHA256())))
        return b"".join(one.to_bytes(_NUMBER_BYTES, "big") for one in numbers)
    raise AssertionError("load_signing_key rejects other key types")


def _encoded(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()
