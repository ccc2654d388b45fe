# SPDX-License-Identifier: Apache-2.0
"""Weak certificates: short keys, SHA-1, MD5, expired CAs."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import cache

from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import padding, rsa
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

from sparkmirror.model import Secret
from support.data.encrypted_keys import oid, sequence, value

HOST = "broker.example.com"
VALID, EXPIRED, EARLY = (-400, 400), (-400, -3), (3, 400)  # days from now
_SHA256, _SHA1, _MD5 = ("2a864886f70d0101" + end for end in ("0b", "05", "04"))
_OLD = {"SHA-1": (_SHA1, hashes.SHA1), "MD5": (_MD5, hashes.MD5)}


@dataclass(frozen=True, slots=True)
class WeakCertificate:
    """A certificate with its key."""

    der: bytes
    name: str
    private_key: rsa.RSAPrivateKey

    @property
    def pem(self) -> str:
        certificate = x509.load_der_x509_certificate(self.der)
        return certificate.public_bytes(Encoding.PEM).decode()

    @property
    def key(self) -> Secret:
        text = self.private_key.private_bytes(
            Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()
        ).decode()
        return Secret(text)


def weak_certificate(
    name: str = HOST,
    *,
    by: WeakCertificate | None = None,
    days: tuple[int, int] = VALID,
    bits: int = 2048,
    digest: str = "SHA-256",
) -> WeakCertificate:
    """Create a certificate; self-signed without `by`."""
    key = rsa_key(name, bits)
    now = datetime.now(UTC)
    unsigned = (
        x509.CertificateBuilder()
        .subject_name(_named(name))
        .issuer_name(_named(by.name if by else name))
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now + timedelta(days=days[0]))
        .not_valid_after(now + timedelta(days=days[1]))
        .add_extension(x509.BasicConstraints(ca=name != HOST, path_length=None), critical=True)
        .add_extension(x509.SubjectAlternativeName([x509.DNSName(name)]), critical=False)
    )
    signer = by.private_key if by else key
    certificate = unsigned.sign(signer, hashes.SHA256())
    der = certificate.public_bytes(Encoding.DER)
    if digest in _OLD:
        der = _signed_anew(certificate.tbs_certificate_bytes, signer, digest)
    return WeakCertificate(der, name, key)


@cache
def rsa_key(_name: str, bits: int) -> rsa.RSAPrivateKey:
    """Return one cached key per name, because generation is slow."""
    return rsa.generate_private_key(65537, bits)


def _signed_anew(body: bytes, signer: rsa.RSAPrivateKey, digest: str) -> bytes:
    way, hashing = _OLD[digest]
    body = body.replace(bytes.fromhex(_SHA256), bytes.fromhex(way))
    signature = signer.sign(body, padding.PKCS1v15(), hashing())
    return sequence(body, sequence(oid(way), b"\x05\x00"), value(0x03, b"\x00" + signature))


def _named(text: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, text)])
