# SPDX-License-Identifier: Apache-2.0
"""Certificate authorities for tests, and their certificates in every store type.

Authority("ours")                    a CA
.identity("localhost")               a key and a certificate that is valid for a day
.expired(), .wrong_host()            certificates that a client must reject
trust_store(), key_store()           files: PEM, PKCS12, JKS (by keytool)
"""

from __future__ import annotations

import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from ipaddress import ip_address
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import (
    BestAvailableEncryption,
    Encoding,
    NoEncryption,
    PrivateFormat,
)
from cryptography.hazmat.primitives.serialization.pkcs12 import serialize_key_and_certificates
from cryptography.x509.oid import NameOID

from sparkmirror.model import Secret
from sparkmirror.security.settings import TlsSettings
from sparkmirror.system.java import java_binary

LOOPBACK = ("127.0.0.1", "localhost")
_A_DAY = timedelta(days=1)
_AN_HOUR = timedelta(hours=1)
_KEYTOOL_SECONDS = 60.0


@dataclass(frozen=True, slots=True)
class Identity:
    """A certificate, its issuer and its key."""

    certificate: x509.Certificate
    issuer: x509.Certificate
    private_key: ec.EllipticCurvePrivateKey

    @property
    def chain(self) -> str:
        return self.certificate.public_bytes(Encoding.PEM).decode()

    @property
    def key(self) -> str:
        return self.private_key.private_bytes(
            Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()
        ).decode()

    @property
    def principal(self) -> str:
        """Return the principal of the owner."""
        return f"User:{self.certificate.subject.rfc4514_string()}"


class Authority:
    """A CA that signs any certificate."""

    def __init__(self, name: str = "authority of a test") -> None:
        self._key = ec.generate_private_key(ec.SECP256R1())
        subject = _named(name)
        now = datetime.now(UTC)
        self.certificate = (
            _unsigned(subject, subject, self._key, now - _AN_HOUR, now + _A_DAY)
            .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
            .add_extension(_SIGNS_CERTIFICATES, critical=True)
            .sign(self._key, hashes.SHA256())
        )
        self.pem = self.certificate.public_bytes(Encoding.PEM).decode()

    def identity(
        self,
        name: str = "localhost",
        *,
        hosts: Sequence[str] = LOOPBACK,
        age: timedelta = _AN_HOUR,
        lifetime: timedelta = _A_DAY,
    ) -> Identity:
        """Create a key and a certificate for it, valid for its lifetime from `age` ago."""
        key = ec.generate_private_key(ec.SECP256R1())
        begin = datetime.now(UTC) - age
        certificate = (
            _unsigned(_named(name), self.certificate.subject, key, begin, begin + lifetime)
            .add_extension(x509.SubjectAlternativeName(list(map(_host, hosts))), critical=False)
            .sign(self._key, hashes.SHA256())
        )
        return Identity(certificate, self.certificate, key)

    def expired(self) -> Identity:
        """A certificate for this machine that expired yesterday."""
        return self.identity(age=2 * _A_DAY)

    def wrong_host(self) -> Identity:
        """A valid certificate of another host."""
        return self.identity("broker.example.com", hosts=["broker.example.com"])

    def tls(self, host: str = "127.0.0.1") -> TlsSettings:
        """Settings that trust this CA and have a certificate for `host`."""
        identity = self.identity(host, hosts=[host])
        return TlsSettings(self.pem, identity.chain, Secret(identity.key))

    def stranger(self) -> TlsSettings:
        """Settings that trust this CA, without a client certificate."""
        return TlsSettings(self.pem)


def trust_store(file: Path, kind: str, *authorities: Authority, password: str = "") -> Path:
    """Write a trust store; JKS and PKCS12 by keytool."""
    pem = "".join(one.pem for one in authorities)
    if kind == "PEM":
        file.write_text(pem, encoding="utf-8")
        return file
    file.unlink(missing_ok=True)
    for number, one in enumerate(authorities):
        certificate = file.with_suffix(f".{number}.crt")
        certificate.write_text(one.pem, encoding="utf-8")
        _keytool(
            *("-import", "-trustcacerts", "-noprompt", "-alias", f"root-{number}"),
            *("-file", str(certificate), "-keystore", str(file)),
            *("-storepass", password, "-storetype", kind),
        )
    return file


def key_store(file: Path, kind: str, identity: Identity, *, password: str = "") -> Path:
    """Write a key store."""
    if kind == "PEM":
        file.write_text(identity.key + identity.chain, encoding="utf-8")
        return file
    pkcs12 = file if kind == "PKCS12" else file.with_suffix(".p12")
    pkcs12.write_bytes(
        serialize_key_and_certificates(
            b"me",
            identity.private_key,
            identity.certificate,
            [identity.issuer],
            BestAvailableEncryption(password.encode()),
        )
    )
    if kind != "PKCS12":
        file.unlink(missing_ok=True)
        _keytool(
            *("-importkeystore", "-noprompt", "-srckeystore", str(pkcs12), "-srcstoretype"),
            *("PKCS12", "-srcstorepass", password, "-destkeystore", str(file)),
            *("-deststoretype", kind, "-deststorepass", password),
        )
    return file


_SIGNS_CERTIFICATES = x509.KeyUsage(
    digital_signature=True,
    content_commitment=False,
    key_encipherment=False,
    data_encipherment=False,
    key_agreement=False,
    key_cert_sign=True,
    crl_sign=True,
    encipher_only=False,
    decipher_only=False,
)


def _keytool(*arguments: str) -> None:
    program = java_binary().with_name("keytool")
    done = subprocess.run(
        [str(program), *arguments],
        capture_output=True,
        text=True,
        timeout=_KEYTOOL_SECONDS,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr


def _host(text: str) -> x509.GeneralName:
    is_address = text[:1].isdigit()
    return x509.IPAddress(ip_address(text)) if is_address else x509.DNSName(text)


def _named(text: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, text)])


def _unsigned(
    subject: x509.Name,
    issuer: x509.Name,
    key: ec.EllipticCurvePrivateKey,
    begin: datetime,
    end: datetime,
) -> x509.CertificateBuilder:
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(begin)
        .not_valid_after(end)
    )
