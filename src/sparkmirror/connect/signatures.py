# SPDX-License-Identifier: Apache-2.0
"""Signs and verifies requests between workers with the group's session key.

The signature is an HMAC of the body in base64; a second header names the algorithm.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
from collections.abc import Collection
from http import HTTPStatus

from sparkmirror.connect.api import ApiError, SignedBody

_DIGESTS = {
    "HmacSHA1": "sha1",
    "HmacSHA224": "sha224",
    "HmacSHA256": "sha256",
    "HmacSHA384": "sha384",
    "HmacSHA512": "sha512",
    "HmacMD5": "md5",
}


def sign(body: bytes, key: bytes, algorithm: str) -> SignedBody:
    """The body with its signature."""
    digest = hmac.new(key, body, _DIGESTS[algorithm]).digest()
    return SignedBody(body, base64.b64encode(digest).decode(), algorithm)


def is_wellformed_signature(signature: str, algorithm: str) -> bool:
    """Whether it can be a signature with this algorithm; does not verify it."""
    digest = _DIGESTS.get(algorithm)
    try:
        found = base64.b64decode(signature, validate=True)
    except ValueError:  # binascii.Error, or characters beyond ASCII
        return False
    return digest is not None and len(found) == hashlib.new(digest).digest_size


def verify_signature(signed: SignedBody, key: bytes | None, accepted: Collection[str]) -> None:
    """ApiError unless a worker of the group has signed it; `key` is None before the first one."""
    if signed.signature is None or signed.algorithm is None:
        raise ApiError(
            HTTPStatus.BAD_REQUEST,
            "Internal request missing required signature",
        )
    if signed.algorithm not in accepted or signed.algorithm not in _DIGESTS:
        raise ApiError(
            HTTPStatus.BAD_REQUEST,
            f"This worker does not support the '{signed.algorithm}' key signing algorithm used by "
            f"other workers. This worker is currently configured to use: [{', '.join(accepted)}]. "
            "Check that all workers' configuration files permit the same set of signature "
            "algorithms, and correct any misconfigured worker and restart it.",
        )
    if key is None:
        raise ApiError(
            HTTPStatus.SERVICE_UNAVAILABLE,
            "This worker is still starting up and has not been able to read a session key from "
            "the config topic yet",
        )
    try:
        found = base64.b64decode(signed.signature, validate=True)
    except (binascii.Error, ValueError):
        found = b""
    expected = hmac.new(key, signed.body, _DIGESTS[signed.algorithm]).digest()
    if not hmac.compare_digest(found, expected):
        raise ApiError(HTTPStatus.FORBIDDEN, "Internal request contained invalid signature.")
