# SPDX-License-Identifier: Apache-2.0
"""Encrypted private keys in formats that cryptography reads but does not write.

Each may declare a different work factor than the actual one.
"""

from __future__ import annotations

import base64
import hashlib

from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes
from cryptography.hazmat.primitives.padding import PKCS7

_PBES2, _PBKDF2, _SCRYPT = "2a864886f70d01050d", "2a864886f70d01050c", "2b06010401da47040b"
_HMAC_SHA256, _AES_256 = "2a864886f70d0209", "60864801650304012a"
_SHA1_AND_3DES = "2a864886f70d010c0103"
_SALT, _START = b"0123456789abcdef", bytes(16)
_NULL = b"\x05\x00"


def with_pbkdf2(key: bytes, password: str, iterations: int, said: int | None = None) -> bytes:
    """As `openssl pkcs8 -topk8` writes it (PBES2)."""
    secret = hashlib.pbkdf2_hmac("sha256", password.encode(), _SALT, iterations)
    rounds, digest = number(said or iterations), sequence(oid(_HMAC_SHA256), _NULL)
    kdf = sequence(oid(_PBKDF2), sequence(octets(_SALT), rounds, digest))
    return _encrypted(_pbes2(kdf), _covered(key, secret))


def with_scrypt(
    key: bytes, password: str, work: tuple[int, int, int], said: tuple[int, int, int] | None = None
) -> bytes:
    """As `openssl pkcs8 -topk8 -scrypt` writes it; the work is N, r and p."""
    n, r, p = work
    secret = hashlib.scrypt(password.encode(), salt=_SALT, n=n, r=r, p=p, dklen=32)
    kdf = sequence(oid(_SCRYPT), sequence(octets(_SALT), *map(number, said or work)))
    return _encrypted(_pbes2(kdf), _covered(key, secret))


def with_pbes1(said: int) -> bytes:
    """The old way, with nothing in it."""
    return _encrypted(sequence(oid(_SHA1_AND_3DES), sequence(octets(_SALT), number(said))), _SALT)


def as_pem(der: bytes) -> str:
    name = "ENCRYPTED PRIVATE KEY"
    text = base64.encodebytes(der).decode()
    return f"-----BEGIN {name}-----\n{text}-----END {name}-----\n"


def value(tag: int, content: bytes) -> bytes:
    size = len(content)
    if size < 0x80:
        return bytes([tag, size]) + content
    length = size.to_bytes((size.bit_length() + 7) // 8)
    return bytes([tag, 0x80 + len(length)]) + length + content


def sequence(*parts: bytes) -> bytes:
    return value(0x30, b"".join(parts))


def octets(content: bytes) -> bytes:
    return value(0x04, content)


def number(given: int) -> bytes:
    """A number that is not negative."""
    return value(0x02, given.to_bytes(given.bit_length() // 8 + 1))


def oid(content: str) -> bytes:
    """The name of a way to do something, as hex."""
    return value(0x06, bytes.fromhex(content))


def _pbes2(kdf: bytes) -> bytes:
    return sequence(oid(_PBES2), sequence(kdf, sequence(oid(_AES_256), octets(_START))))


def _encrypted(way: bytes, covered: bytes) -> bytes:
    return sequence(way, octets(covered))


def _covered(key: bytes, secret: bytes) -> bytes:
    padder = PKCS7(128).padder()
    encryptor = Cipher(algorithms.AES(secret), modes.CBC(_START)).encryptor()
    return encryptor.update(padder.update(key) + padder.finalize()) + encryptor.finalize()
