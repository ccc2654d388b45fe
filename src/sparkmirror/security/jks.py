# SPDX-License-Identifier: Apache-2.0
"""The bytes of a Java keystore (JKS), as keytool wrote them before Java 9. All numbers big-endian.

    u32   magic 0xFEEDFEED
    u32   version, 1 or 2
    u32   number of entries, each:
        u32   1: a private key, 2: a trusted certificate
        u16   length of the alias, then the alias
        u64   when it was made
        of 1: u32 length, EncryptedPrivateKeyInfo (DER); u32 number of certificates, then these
        of 2: one certificate
    20    SHA-1 of the password (UTF-16), "Mighty Aphrodite" and all bytes before

A certificate is its type (u16 length, text; not in version 1), a u32 length and DER. A private key
is hidden with a key stream of SHA-1 sums that begins with a salt:

    20    salt
    n     key (PKCS #8), XOR SHA-1(password + salt), SHA-1(password + the sum before), ...
    20    SHA-1 of password and key
"""

from __future__ import annotations

import hashlib
import hmac
import struct
from dataclasses import dataclass, field

from sparkmirror.model import Secret
from sparkmirror.security.der import first_value

MAGIC = b"\xfe\xed\xfe\xed"
JCEKS_MAGIC = b"\xce\xce\xce\xce"

_VERSIONS = (1, 2)
_PRIVATE_KEY = 1
_TRUSTED = 2
_SUM_BYTES = 20
_WHITENER = b"Mighty Aphrodite"
_SUN_PROTECTION = bytes.fromhex("060a2b060104012a02110101")  # 1.3.6.1.4.1.42.2.17.1.1 in DER
_DAMAGED = "the store is damaged: it ends too early"


@dataclass(frozen=True, slots=True)
class JksEntry:
    """A trusted certificate, or a hidden private key and its chain (its own certificate first)."""

    alias: str
    certificates: tuple[bytes, ...]  # DER
    encrypted_key: bytes | None = field(default=None, repr=False)


def read_entries(data: bytes, password: Secret | None) -> list[JksEntry]:
    """All entries in the order of the file; without a password, damage may go unnoticed.

    ValueError says what is wrong.
    """
    if data[:4] != MAGIC:
        raise ValueError("the store is not a Java keystore (JKS)")
    body = data[:-_SUM_BYTES]
    if password is not None:
        seal = hashlib.sha1(_utf16(password) + _WHITENER + body, usedforsecurity=False).digest()
        if not hmac.compare_digest(seal, data[-_SUM_BYTES:]):
            raise ValueError("the password of the store is wrong, or the store is damaged")
    reader = _ByteReader(body)
    reader.take(4)
    version = reader.number(">I")
    if version not in _VERSIONS:
        raise ValueError(f"the store has version {version} of its format, which nobody knows")
    entries = [_entry(reader, version) for _ in reader.times()]
    if not reader.is_at_end:
        raise ValueError("the store is damaged: there is something after its last entry")
    return entries


def _entry(reader: _ByteReader, version: int) -> JksEntry:
    tag = reader.number(">I")
    alias = reader.text()
    reader.number(">Q")
    if tag == _TRUSTED:
        return JksEntry(alias, (_certificate(reader, version),))
    if tag != _PRIVATE_KEY:
        raise ValueError(f"the store is damaged: it has an entry of kind {tag}")
    hidden_key = reader.take(reader.number(">I"))
    chain = tuple(_certificate(reader, version) for _ in reader.times())
    return JksEntry(alias, chain, hidden_key)


def _certificate(reader: _ByteReader, version: int) -> bytes:
    if version > 1:
        reader.text()
    return reader.take(reader.number(">I"))


def decrypt_key(hidden_key: bytes, password: Secret) -> bytes | None:
    """The private key as PKCS #8 (DER); None if the password does not open it.

    ValueError if it is not a hidden key at all.
    """
    outer = first_value(memoryview(hidden_key))
    algorithm = first_value(outer.content)
    if bytes(algorithm.content[: len(_SUN_PROTECTION)]) != _SUN_PROTECTION:
        raise ValueError("it is not protected as Java's are")
    protected = bytes(first_value(algorithm.rest).content)
    if len(protected) < 2 * _SUM_BYTES:
        raise ValueError("it is too short")
    salt, covered = protected[:_SUM_BYTES], protected[_SUM_BYTES:-_SUM_BYTES]
    secret = _utf16(password)
    stream = bytearray()
    link = salt
    while len(stream) < len(covered):
        link = hashlib.sha1(secret + link, usedforsecurity=False).digest()
        stream += link
    key = bytes(a ^ b for a, b in zip(covered, stream, strict=False))
    check = hashlib.sha1(secret + key, usedforsecurity=False).digest()
    return key if hmac.compare_digest(check, protected[-_SUM_BYTES:]) else None


def _utf16(password: Secret) -> bytes:
    return password.reveal().encode("utf-16-be", "surrogatepass")


class _ByteReader:
    """Takes pieces from the front; ValueError where there is no more."""

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._at = 0

    @property
    def is_at_end(self) -> bool:
        return self._at == len(self._data)

    def take(self, size: int) -> bytes:
        if size > len(self._data) - self._at:
            raise ValueError(_DAMAGED)
        self._at += size
        return self._data[self._at - size : self._at]

    def number(self, layout: str) -> int:
        (value,) = struct.unpack(layout, self.take(struct.calcsize(layout)))
        return int(value)

    def times(self) -> range:
        """As often as the next number says; each time takes bytes, so the end comes in time."""
        return range(self.number(">I"))

    def text(self) -> str:
        return self.take(self.number(">H")).decode("utf-8", "replace")
