# SPDX-License-Identifier: Apache-2.0
"""The Java keystore format (JKS), keytool's default before Java 9. All numbers big-endian.

    u32   magic 0xFEEDFEED
    u32   version, 1 or 2
    u32   number of entries, each:
        u32   1: a private key, 2: a trusted certificate
        u16   length of the alias, then the alias
        u64   creation time
        of 1: u32 length, EncryptedPrivateKeyInfo (DER); u32 number of certificates, then these
        of 2: one certificate
    20    SHA-1 of the password (UTF-16), "Mighty Aphrodite" and all bytes before

A certificate is its type (u16 length, text; not in version 1), a u32 length and DER. A private key
is encrypted with a key stream of SHA-1 digests:

    20    salt
    n     key (PKCS #8), XOR SHA-1(password + salt), SHA-1(password + previous digest), ...
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
_DIGEST_BYTES = 20
_WHITENER = b"Mighty Aphrodite"
_SUN_PROTECTION = bytes.fromhex("060a2b060104012a02110101")  # 1.3.6.1.4.1.42.2.17.1.1 in DER
_TRUNCATED = "the store is damaged: it is truncated"


@dataclass(frozen=True, slots=True)
class JksEntry:
    """A trusted certificate, or an encrypted private key and its chain (leaf first)."""

    alias: str
    certificates: tuple[bytes, ...]  # DER
    encrypted_key: bytes | None = field(default=None, repr=False)


def read_entries(data: bytes, password: Secret | None) -> list[JksEntry]:
    """Return all entries in file order. Raises ValueError.

    Without a password the digest is not checked, so damage may go unnoticed.
    """
    if data[:4] != MAGIC:
        raise ValueError("the store is not a Java keystore (JKS)")
    body = data[:-_DIGEST_BYTES]
    if password is not None:
        digest = hashlib.sha1(_utf16(password) + _WHITENER + body, usedforsecurity=False).digest()
        if not hmac.compare_digest(digest, data[-_DIGEST_BYTES:]):
            raise ValueError("the password of the store is wrong, or the store is damaged")
    reader = _ByteReader(body)
    reader.take(4)
    version = reader.number(">I")
    if version not in _VERSIONS:
        raise ValueError(f"the store has format version {version}; only 1 and 2 are supported")
    entries = [_entry(reader, version) for _ in reader.times()]
    if not reader.is_at_end:
        raise ValueError("the store is damaged: there are bytes after its last entry")
    return entries


def _entry(reader: _ByteReader, version: int) -> JksEntry:
    tag = reader.number(">I")
    alias = reader.text()
    reader.number(">Q")
    if tag == _TRUSTED:
        return JksEntry(alias, (_certificate(reader, version),))
    if tag != _PRIVATE_KEY:
        raise ValueError(f"the store is damaged: it has an entry of unknown type {tag}")
    encrypted_key = reader.take(reader.number(">I"))
    chain = tuple(_certificate(reader, version) for _ in reader.times())
    return JksEntry(alias, chain, encrypted_key)


def _certificate(reader: _ByteReader, version: int) -> bytes:
    if version > 1:
        reader.text()
    return reader.take(reader.number(">I"))


def decrypt_key(encrypted_key: bytes, password: Secret) -> bytes | None:
    """Return the private key as PKCS #8 (DER); None if the password is wrong.

    Raises ValueError if it is not a key of this format.
    """
    outer = first_value(memoryview(encrypted_key))
    algorithm = first_value(outer.content)
    if bytes(algorithm.content[: len(_SUN_PROTECTION)]) != _SUN_PROTECTION:
        raise ValueError("it is not encrypted in the JKS format")
    protected = bytes(first_value(algorithm.rest).content)
    if len(protected) < 2 * _DIGEST_BYTES:
        raise ValueError("it is too short")
    salt, ciphertext = protected[:_DIGEST_BYTES], protected[_DIGEST_BYTES:-_DIGEST_BYTES]
    secret = _utf16(password)
    stream = bytearray()
    digest = salt
    while len(stream) < len(ciphertext):
        digest = hashlib.sha1(secret + digest, usedforsecurity=False).digest()
        stream += digest
    key = bytes(a ^ b for a, b in zip(ciphertext, stream, strict=False))
    check = hashlib.sha1(secret + key, usedforsecurity=False).digest()
    return key if hmac.compare_digest(check, protected[-_DIGEST_BYTES:]) else None


def _utf16(password: Secret) -> bytes:
    return password.reveal().encode("utf-16-be", "surrogatepass")


class _ByteReader:
    """Reads fields in order. Raises ValueError at the end of the data."""

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._at = 0

    @property
    def is_at_end(self) -> bool:
        return self._at == len(self._data)

    def take(self, size: int) -> bytes:
        if size > len(self._data) - self._at:
            raise ValueError(_TRUNCATED)
        self._at += size
        return self._data[self._at - size : self._at]

    def number(self, layout: str) -> int:
        (value,) = struct.unpack(layout, self.take(struct.calcsize(layout)))
        return int(value)

    def times(self) -> range:
        """Return a range of the next count; each element takes bytes, so a wrong count ends."""
        return range(self.number(">I"))

    def text(self) -> str:
        return self.take(self.number(">H")).decode("utf-8", "replace")
