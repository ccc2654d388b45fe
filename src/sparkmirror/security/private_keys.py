# SPDX-License-Identifier: Apache-2.0
"""Opens private keys in bounded time.

The cost of a password's key derivation is checked before it is computed. Primality is not checked:
it takes OpenSSL seconds, and a wrong key harms only its owner.
"""

from __future__ import annotations

import math

from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import rsa
from cryptography.hazmat.primitives.asymmetric.types import PrivateKeyTypes

from sparkmirror.model import Secret
from sparkmirror.security.der import kdf_work_factors

# Keytool takes 10,000 iterations and openssl 2,048, or as many as it is told; its scrypt 16 MiB.
_MOST_ITERATIONS = 1_000_000
_MOST_SCRYPT = 1 << 19  # N times r times p, of 128 bytes each
_MOST_BITS = 16_384  # as OpenSSL
# Keys of Diffie-Hellman: of no use in TLS, and whether they are sound takes OpenSSL minutes.
_DIFFIE_HELLMAN = tuple(map(bytes.fromhex, ("06092a864886f70d010301", "06072a8648ce3e0201")))


def check_kdf_cost(data: bytes, what: str, most: int) -> None:
    """Refuse what would take minutes or gigabytes with its password."""
    found = kdf_work_factors(data)
    if sum(numbers[0] for numbers in found) > most:
        raise ValueError(
            f"{what} wants more than {most:,} iterations with its password: write it anew with "
            "fewer"
        )
    if any(math.prod(numbers[:3]) > _MOST_SCRYPT for numbers in found if len(numbers) > 2):  # noqa: PLR2004 - scrypt's
        raise ValueError(
            f"{what} wants more than {_MOST_SCRYPT >> 13} MiB with its password: write it anew "
            "with less"
        )


def load_private_key(der: bytes, password: Secret | None = None) -> PrivateKeyTypes:
    """A key (PKCS #8); ValueError says why it cannot be used."""
    text = None if password is None else password.reveal().encode("utf-8", "replace")
    if password is not None:
        check_kdf_cost(der, "the private key", _MOST_ITERATIONS)
    if is_diffie_hellman(der):
        raise ValueError("the private key is of Diffie-Hellman, which nothing here has a use for")
    try:
        key = serialization.load_der_private_key(der, text, unsafe_skip_rsa_key_validation=True)
    except UnsupportedAlgorithm as error:
        raise ValueError("the private key is of a kind that OpenSSL does not know") from error
    except (ValueError, TypeError) as error:
        if password is not None:
            raise ValueError("the key password does not open the private key") from error
        wants_one = isinstance(error, TypeError)
        about = "encrypted and needs a key password" if wants_one else "damaged, or not PKCS #8"
        raise ValueError(f"the private key is {about}") from error
    if isinstance(key, rsa.RSAPrivateKey) and key.key_size > _MOST_BITS:
        raise ValueError(f"the private key has more than {_MOST_BITS:,} bits")
    if isinstance(key, rsa.RSAPrivateKey) and not _is_sound(key.private_numbers()):
        raise ValueError("the private key is damaged: its numbers do not belong together")
    return key


def _is_sound(key: rsa.RSAPrivateNumbers) -> bool:
    """All that OpenSSL would check, but whether primes are prime: that takes it seconds."""
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
    """Whether it is a key of Diffie-Hellman, or has one."""
    return any(name in der for name in _DIFFIE_HELLMAN)
