# SPDX-License-Identifier: Apache-2.0
"""The hash by which Java clients choose a partition for a key.

Compaction works per partition: a key written to another partition than Java would choose leaves
two live copies behind. Signs and overflows are Java's, so everything is cut to 32 bits.
"""

from __future__ import annotations

import struct

_MASK = 0xFFFFFFFF
_SEED = 0x9747B28C
_MULTIPLIER = 0x5BD1E995
_WORD_BYTES = 4


def murmur2(key: bytes) -> int:
    """The 32-bit hash as an unsigned number."""
    whole = len(key) // _WORD_BYTES
    hashed = _SEED ^ len(key)
    for word in struct.unpack_from(f"<{whole}I", key):
        mixed = word * _MULTIPLIER & _MASK
        mixed = (mixed ^ mixed >> 24) * _MULTIPLIER & _MASK
        hashed = (hashed * _MULTIPLIER & _MASK) ^ mixed
    tail = key[whole * _WORD_BYTES :]
    if tail:
        hashed = (hashed ^ int.from_bytes(tail, "little")) * _MULTIPLIER & _MASK
    hashed = (hashed ^ hashed >> 13) * _MULTIPLIER & _MASK
    return hashed ^ hashed >> 15


def partition_for(key: bytes, partitions: int) -> int:
    """The partition that a Java producer gives to this key."""
    return (murmur2(key) & 0x7FFFFFFF) % partitions
