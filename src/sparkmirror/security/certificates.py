# SPDX-License-Identifier: Apache-2.0
"""How strong a certificate is, and when it is valid, read from its bytes (DER).

certificate   body, way of signing, signature
body          [0] version, serial number, way of signing, issuer, validity, subject, key, ...
key           its kind, then its bits: of RSA the modulus comes first, of EC they are a point

Pure, and small enough for tasks: these look at every broker's certificate.
"""

from __future__ import annotations

import re
import ssl
from dataclasses import dataclass
from datetime import UTC, datetime

from sparkmirror.security.der import DerValue, all_values, first_value

_PEM = re.compile(r"-----BEGIN CERTIFICATE-----.+?-----END CERTIFICATE-----", re.DOTALL)
_VERSION = 0xA0
_SHORT_YEAR = 0x17  # the tag of a time with two digits for it
_RSA = tuple(map(bytes.fromhex, ("2a864886f70d010101", "2a864886f70d01010a")))  # or only for PSS
_DSA = bytes.fromhex("2a8648ce380401")
_EC = bytes.fromhex("2a8648ce3d0201")
_MD = tuple(map(bytes.fromhex, ("2a864886f70d010104", "2a864886f70d0205")))  # MD5 with RSA; MD5
_SHA1 = tuple(
    map(bytes.fromhex, ("2a864886f70d010105", "2a8648ce3d0401", "2a8648ce380403", "2b0e03021d"))
)
_LEAST_BITS = {"RSA": 1024, "DSA": 1024, "EC": 224}  # what Java 17 takes
_GOOD_BITS = {"RSA": 2048, "DSA": 2048, "EC": 224}


@dataclass(frozen=True, slots=True)
class CertificateFacts:
    """What one certificate says about itself."""

    begins: datetime
    ends: datetime
    kind: str  # of its key: RSA, DSA, EC; empty: another, of which all are strong
    bits: int
    digest: str  # what it is signed with: MD5 or SHA-1; empty: something better

    @property
    def is_key_rejected(self) -> bool:
        """Whether its key is one that nobody should take any more."""
        return self.bits < _LEAST_BITS.get(self.kind, 0)

    @property
    def is_key_weak(self) -> bool:
        """Whether its key is shorter than it should be."""
        return self.bits < _GOOD_BITS.get(self.kind, 0)


def split_pem(pem: str) -> list[bytes]:
    """The bytes of each that stands in a text; ValueError if one is damaged."""
    return list(map(ssl.PEM_cert_to_DER_cert, _PEM.findall(pem)))


def parse_certificate(der: bytes) -> CertificateFacts:
    """ValueError if it is no certificate."""
    try:
        return _facts(der)
    except IndexError as error:
        raise ValueError("a certificate ends too early") from error


def _facts(der: bytes) -> CertificateFacts:
    body, way, *_ = all_values(first_value(memoryview(der)).content)
    fields = list(all_values(body.content))
    if fields[0].tag == _VERSION:
        del fields[0]
    _serial, _way, _issuer, validity, _subject, key, *_ = fields
    begins, ends = map(_time, all_values(validity.content))
    kind, bits = _strength(key)
    return CertificateFacts(begins, ends, kind, bits, _digest(bytes(way.content)))


def _time(value: DerValue) -> datetime:
    text = bytes(value.content).decode()
    if value.tag == _SHORT_YEAR:
        text = ("19" if text >= "50" else "20") + text
    return datetime.strptime(text, "%Y%m%d%H%M%SZ").replace(tzinfo=UTC)


def _strength(key: DerValue) -> tuple[str, int]:
    way, bits = all_values(key.content)
    name, *parameters = all_values(way.content)
    content = bits.content[1:]  # the first byte says how many bits of the last one do not count
    match bytes(name.content):
        case kind if kind in _RSA:
            return "RSA", _number(first_value(first_value(content).content)).bit_length()
        case kind if kind == _DSA:
            return "DSA", _number(first_value(parameters[0].content)).bit_length()
        case kind if kind == _EC:
            is_whole = content[0] == 0x04  # noqa: PLR2004 - or only one of the two coordinates
            return "EC", (len(content) - 1) * 8 // (2 if is_whole else 1)
    return "", 0


def _digest(way: bytes) -> str:
    if any(name in way for name in _MD):
        return "MD5"
    return "SHA-1" if any(name in way for name in _SHA1) else ""


def _number(value: DerValue) -> int:
    return int.from_bytes(value.content)
