# SPDX-License-Identifier: Apache-2.0
"""Loads private keys in bounded time.

The cost of the password's key derivation is checked before it runs. Primality is not checked: that
takes OpenSSL seconds, and a wrong key harms only its owner.
"""

from __future__ import annotations

import math

from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import rsa
from cryptography.hazmat.primitives.asymmetric.types import PrivateKeyTypes

from sparkmirror.model import Secret
from sparkmirror.security.der import kdf_work_factors

# Defaults: keytool 10,000 iterations, openssl 2,048, its scrypt 16 MiB.
_MAX_ITERATIONS = 1_000_000
_MAX_SCRYPT = 1 << 19  # N * r * p, in units of 128 bytes
_MAX_BITS = 16_384  # as OpenSSL
# Diffie-Hellman keys: TLS has no use for them, and OpenSSL takes minutes to check them.
_DIFFIE_HELLMAN = tuple(map(bytes.fromhex, ("06092a864886f70d010301", "06072a8648ce3e0201")))


def check_kdf_cost(data: bytes, what: str, max_iterations: int) -> None:
    """Raise ValueError if the key derivation would take minutes or gigabytes."""
    found = kdf_work_factors(data)
    if sum(numbers[0] for numbers in found) > max_iterations:
        raise ValueError(
            f"{what} needs more than {max_iterations:,} iterations for its password: encrypt it "
            "again with fewer"
        )
    if any(math.prod(numbers[:3]) > _MAX_SCRYPT for numbers in found if len(numbers) > 2):  # noqa: PLR2004 - scrypt's
        raise ValueError(
            f"{what} needs more than {_MAX_SCRYPT >> 13} MiB for its password: encrypt it again "
            "with a lower scrypt cost"
        )


def load_private_key(der: bytes, password: Secret | None = None) -> PrivateKeyTypes:
    """Load a PKCS #8 key. Raises ValueError if it cannot be used."""
    text = None if password is None else password.reveal().encode("utf-8", "replace")
    if password is not None:
        check_kdf_cost(der, "the private key", _MAX_ITERATIONS)
    if is_diffie_hellman(der):
        raise ValueError("the private key is a Diffie-Hellman key, which TLS cannot use")
    try:
        key = serialization.load_der_private_key(der, text, unsafe_skip_rsa_key_validation=True)
    except UnsupportedAlgorithm as error:
        raise ValueError("the private key has a type that OpenSSL does not support") from error
    except (ValueError, TypeError) as error:
        if password is not None:
            raise ValueError("the key password does not open the private key") from error
        is_encrypted = isinstance(error, TypeError)
        about = "encrypted and needs a key password" if is_encrypted else "damaged, or not PKCS #8"
        raise ValueError(f"the private key is {about}") from error
    if isinstance(key, rsa.RSAPrivateKey) and key.key_size > _MAX_BITS:
        raise ValueError(f"the private key has more than {_MAX_BITS:,} bits")
    if isinstance(key, rsa.RSAPrivateKey) and not _is_consistent(key.private_numbers()):
        raise ValueError("the private key is damaged: its numbers are inconsistent")
    return key


def _is_consistent(key: rsa.RSAPrivateNumbers) -> bool:
    """OpenSSL's checks except primality."""
    p, q, d = key.p, key.q, key.d
    return (
        p * q == key.public_numbers.n
        and min(p, q) > 2  # noqa: PLR2004 - the only even prime
        and p % 2 == q % 2 == 1
        and all(key.public_numbers.e * d % (prime - 1) == 1 for prime in (p, q))
        and (key.dmp1, key.dmq1) == (d % (p - 1), d % (q - 1))
        and key.iqmp * q % p == 1
    )


def is_diffie_hellman(der: bytes) -> bool:
    """Whether it is a Diffie-Hellman key, or contains one."""
    return any(name in der for name in _DIFFIE_HELLMAN)
