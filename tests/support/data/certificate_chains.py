# SPDX-License-Identifier: Apache-2.0
"""Certificate chains and trust stores that Java 17 accepts or rejects."""

from __future__ import annotations

from support.data.weak_certificates import EARLY, EXPIRED, WeakCertificate, weak_certificate

CA = weak_certificate("authority")
OLD_CA = weak_certificate("authority", days=EXPIRED)
SMALL_CA = weak_certificate("small authority", bits=1024)
MD_CA = weak_certificate("md authority", digest="MD5")
MIDDLE = weak_certificate("middle", by=CA)
EXPIRED_MIDDLE = weak_certificate("middle", by=CA, days=EXPIRED)
LEAF = weak_certificate(by=CA)
EXPIRED_LEAF = weak_certificate(by=CA, days=EXPIRED)
BELOW = weak_certificate(by=MIDDLE)
OWN = weak_certificate(days=EXPIRED)  # vouches for itself

TAKEN: dict[str, tuple[WeakCertificate, list[WeakCertificate]]] = {
    "good": (CA, [LEAF]),
    "sha1": (CA, [weak_certificate(by=CA, digest="SHA-1")]),
    "rsa1024": (CA, [weak_certificate(by=CA, bits=1024)]),
    "sha1-between": (CA, [BELOW, weak_certificate("middle", by=CA, digest="SHA-1")]),
    "rsa1024-authority": (SMALL_CA, [weak_certificate(by=SMALL_CA)]),
    "md5-authority": (MD_CA, [weak_certificate(by=MD_CA)]),
    "expired-authority": (OLD_CA, [LEAF]),
    "expired-own": (OWN, [OWN]),
    "expired-trusted": (EXPIRED_LEAF, [EXPIRED_LEAF]),
    "expired-trusted-between": (EXPIRED_MIDDLE, [BELOW]),
    "expired-above": (EXPIRED_LEAF, [EXPIRED_LEAF, OLD_CA]),
    "renewed-here": (MIDDLE, [BELOW, EXPIRED_MIDDLE, CA]),
    "renewed-there": (CA, [BELOW, EXPIRED_MIDDLE, MIDDLE]),
}
REFUSED: dict[
    str, tuple[list[WeakCertificate], int]
] = {  # below either authority, with OpenSSL's reason
    "expired": ([EXPIRED_LEAF], 10),
    "early": ([weak_certificate(by=CA, days=EARLY)], 9),
    "expired-between": ([BELOW, EXPIRED_MIDDLE], 10),
    "md5": ([weak_certificate(by=CA, digest="MD5")], 68),
    "md5-between": ([BELOW, weak_certificate("middle", by=CA, digest="MD5")], 68),
    "stranger": ([weak_certificate(by=SMALL_CA), SMALL_CA], 19),
    "itself": ([OWN], 18),
}
