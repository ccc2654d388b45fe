# SPDX-License-Identifier: Apache-2.0
"""Wire format of the control channel: JSON messages with an i32 length prefix, over TLS.

driver to task   split      split and settings, once, after a hello with a valid token
                 alive      about once a second; renews the task's lease
                 end        finish now
task to driver   hello      token, split index
                 progress   a `Progress`
"""

from __future__ import annotations

import json
import ssl
import struct
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from sparkmirror.errors import WireError
from sparkmirror.model import Secret
from sparkmirror.security.tls import load_certificate_and_key

LENGTH = struct.Struct(">i")
MAX_MESSAGE_BYTES = 256 << 20
_NAME = "sparkmirror-control"


@dataclass(frozen=True, slots=True)
class ControlEndpoint:
    """Address, token and certificate of the driver: the only content of the Spark closure."""

    host: str
    port: int
    token: str
    certificate: str


def encode_message(message: dict[str, Any]) -> bytes:
    body = json.dumps(message, separators=(",", ":")).encode()
    return LENGTH.pack(len(body)) + body


def message_length(header: bytes, most: int = MAX_MESSAGE_BYTES) -> int:
    """Return the length of the next message. Raises WireError if it is out of range."""
    (size,) = LENGTH.unpack(header)
    if not 0 < size <= most:
        raise WireError(f"invalid length of a control message: {size} bytes")
    return int(size)


def new_server_context() -> tuple[ssl.SSLContext, str]:
    """Return a server context with a new self-signed certificate, and that certificate as PEM.

    The private key is not written to disk.
    """
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, _NAME)])
    now = datetime.now(UTC)
    certificate = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - timedelta(days=1))  # clocks of executors differ
        .not_valid_after(now + timedelta(days=3650))
        .add_extension(x509.SubjectAlternativeName([x509.DNSName(_NAME)]), critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .sign(key, hashes.SHA256())
    )
    public = certificate.public_bytes(serialization.Encoding.PEM).decode()
    private = key.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.PKCS8,
        serialization.NoEncryption(),
    )
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_3
    load_certificate_and_key(context, public, Secret(private.decode()))
    return context, public


def client_context(certificate: str) -> ssl.SSLContext:
    """Return a context that trusts only the driver's certificate."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.minimum_version = ssl.TLSVersion.TLSv1_3
    context.load_verify_locations(cadata=certificate)
    return context


SERVER_NAME = _NAME
