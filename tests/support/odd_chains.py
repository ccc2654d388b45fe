# SPDX-License-Identifier: Apache-2.0
"""What servers show, and whom a client trusts: what Java 17 takes, and what it refuses."""

from __future__ import annotations

from support.odd_certificates import EARLY, EXPIRED, Odd, odd

CA = odd("authority")
OLD_CA = odd("authority", days=EXPIRED)
SMALL_CA = odd("small authority", bits=1024)
MD_CA = odd("md authority", digest="MD5")
MIDDLE = odd("middle", by=CA)
EXPIRED_MIDDLE = odd("middle", by=CA, days=EXPIRED)
LEAF = odd(by=CA)
EXPIRED_LEAF = odd(by=CA, days=EXPIRED)
BELOW = odd(by=MIDDLE)
OWN = odd(days=EXPIRED)  # vouches for itself

TAKEN: dict[str, tuple[Odd, list[Odd]]] = {
    "good": (CA, [LEAF]),
    "sha1": (CA, [odd(by=CA, digest="SHA-1")]),
    "rsa1024": (CA, [odd(by=CA, bits=1024)]),
    "sha1-between": (CA, [BELOW, odd("middle", by=CA, digest="SHA-1")]),
    "rsa1024-authority": (SMALL_CA, [odd(by=SMALL_CA)]),
    "md5-authority": (MD_CA, [odd(by=MD_CA)]),
    "expired-authority": (OLD_CA, [LEAF]),
    "expired-own": (OWN, [OWN]),
    "expired-trusted": (EXPIRED_LEAF, [EXPIRED_LEAF]),
    "expired-trusted-between": (EXPIRED_MIDDLE, [BELOW]),
    "expired-above": (EXPIRED_LEAF, [EXPIRED_LEAF, OLD_CA]),
    "renewed-here": (MIDDLE, [BELOW, EXPIRED_MIDDLE, CA]),
    "renewed-there": (CA, [BELOW, EXPIRED_MIDDLE, MIDDLE]),
}
REFUSED: dict[str, tuple[list[Odd], int]] = {  # below either authority, with OpenSSL's reason
    "expired": ([EXPIRED_LEAF], 10),
    "early": ([odd(by=CA, days=EARLY)], 9),
    "expired-between": ([BELOW, EXPIRED_MIDDLE], 10),
    "md5": ([odd(by=CA, digest="MD5")], 68),
    "md5-between": ([BELOW, odd("middle", by=CA, digest="MD5")], 68),
    "stranger": ([odd(by=SMALL_CA), SMALL_CA], 19),
    "itself": ([OWN], 18),
}
