# SPDX-License-Identifier: Apache-2.0
"""Validity and strength of an X.509 certificate, parsed from DER.

Certificate            tbsCertificate, signatureAlgorithm, signature
tbsCertificate         [0] version, serialNumber, signature, issuer, validity, subject, key, ...
SubjectPublicKeyInfo   algorithm, then the key bits: RSA starts with the modulus, EC is a point

Pure, without `cryptography`: executors parse the certificate of every broker.
"""

from __future__ import annotations

import re
import ssl
from dataclasses import dataclass
from datetime import UTC, datetime

from sparkmirror.security.der import DerValue, all_values, first_value

_PEM = re.compile(r"-----BEGIN CERTIFICATE-----.+?-----END CERTIFICATE-----", re.DOTALL)
_VERSION = 0xA0
_SHORT_YEAR = 0x17  # tag of UTCTime: a year of two digits
_RSA = tuple(map(bytes.fromhex, ("2a864886f70d010101", "2a864886f70d01010a")))  # RSA, RSASSA-PSS
_DSA = bytes.fromhex("2a8648ce380401")
_EC = bytes.fromhex("2a8648ce3d0201")
_MD5 = tuple(map(bytes.fromhex, ("2a864886f70d010104", "2a864886f70d0205")))  # MD5 with RSA; MD5
_SHA1 = tuple(
    map(bytes.fromhex, ("2a864886f70d010105", "2a8648ce3d0401", "2a8648ce380403", "2b0e03021d"))
)
_MIN_BITS = {"RSA": 1024, "DSA": 1024, "EC": 224}  # Java 17's minimum
_RECOMMENDED_BITS = {"RSA": 2048, "DSA": 2048, "EC": 224}


@dataclass(frozen=True, slots=True)
class CertificateFacts:
    """Validity, key and signature digest of a certificate."""

    not_before: datetime
    not_after: datetime
    kind: str  # key type: RSA, DSA, EC; empty for others, which are all strong
    bits: int
    digest: str  # a weak signature digest: MD5 or SHA-1; empty for stronger ones

    @property
    def is_key_rejected(self) -> bool:
        """Whether the key is below Java's minimum size."""
        return self.bits < _MIN_BITS.get(self.kind, 0)

    @property
    def is_key_weak(self) -> bool:
        """Whether the key is below the recommended size."""
        return self.bits < _RECOMMENDED_BITS.get(self.kind, 0)


def split_pem(pem: str) -> list[bytes]:
    """Return the certificates of a PEM text as DER. Raises ValueError if one is damaged."""
    return list(map(ssl.PEM_cert_to_DER_cert, _PEM.findall(pem)))


def parse_certificate(der: bytes) -> CertificateFacts:
    """Parse DER. Raises ValueError if it is not a certificate."""
    try:
        return _facts(der)
    except IndexError as error:
        raise ValueError("a certificate is truncated") from error


def _facts(der: bytes) -> CertificateFacts:
    body, signature_algorithm, *_ = all_values(first_value(memoryview(der)).content)
    fields = list(all_values(body.content))
    if fields[0].tag == _VERSION:
        del fields[0]
    _serial, _algorithm, _issuer, validity, _subject, key, *_ = fields
    not_before, not_after = map(_time, all_values(validity.content))
    kind, bits = _strength(key)
    return CertificateFacts(
        not_before, not_after, kind, bits, _digest(bytes(signature_algorithm.content))
    )


def _time(value: DerValue) -> datetime:
    text = bytes(value.content).decode()
    if value.tag == _SHORT_YEAR:
        text = ("19" if text >= "50" else "20") + text
    return datetime.strptime(text, "%Y%m%d%H%M%SZ").replace(tzinfo=UTC)


def _strength(key: DerValue) -> tuple[str, int]:
    algorithm, bits = all_values(key.content)
    name, *parameters = all_values(algorithm.content)
    content = bits.content[1:]  # the first byte is the number of unused bits in the last one
    match bytes(name.content):
        case kind if kind in _RSA:
            return "RSA", _number(first_value(first_value(content).content)).bit_length()
        case kind if kind == _DSA:
            return "DSA", _number(first_value(parameters[0].content)).bit_length()
        case kind if kind == _EC:
            is_uncompressed = content[0] == 0x04  # noqa: PLR2004 - both coordinates of the point
            return "EC", (len(content) - 1) * 8 // (2 if is_uncompressed else 1)
    return "", 0


def _digest(algorithm: bytes) -> str:
    if any(name in algorithm for name in _MD5):
        return "MD5"
    return "SHA-1" if any(name in algorithm for name in _SHA1) else ""


def _number(value: DerValue) -> int:
    return int.from_bytes(value.content)
