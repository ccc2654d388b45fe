# SPDX-License-Identifier: Apache-2.0
"""Only workers of the group can ask things of each other."""

from __future__ import annotations

import base64
from dataclasses import replace

import pytest

from sparkmirror.connect.api import ApiError, SignedBody
from sparkmirror.connect.signatures import sign, verify_signature

KEY = b"0123456789abcdef"
SIGNED = sign(b"[]", KEY, "HmacSHA256")
ACCEPTED = ("HmacSHA256",)


def test_a_signature_is_javas() -> None:
    """HMAC-SHA256 over the body, in base64; the vector is RFC 4231's second."""
    told = sign(b"what do ya want for nothing?", b"Jefe", "HmacSHA256").signature
    expected = "5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843"
    assert told == base64.b64encode(bytes.fromhex(expected)).decode()


def test_a_true_signature_passes() -> None:
    """Silently."""
    verify_signature(SIGNED, KEY, ACCEPTED)


@pytest.mark.parametrize(
    ("signed", "key", "status"),
    [
        (SignedBody(b"[]", None, None), KEY, 400),
        (replace(SIGNED, algorithm=None), KEY, 400),
        (replace(SIGNED, algorithm="HmacSHA1"), KEY, 400),
        (replace(SIGNED, algorithm="none"), KEY, 400),
        (SIGNED, None, 503),
        (SIGNED, b"another key", 403),
        (replace(SIGNED, body=b"[{}]"), KEY, 403),
        (replace(SIGNED, signature=""), KEY, 403),
        (replace(SIGNED, signature="no base64"), KEY, 403),
        (replace(SIGNED, signature="\u00fc"), KEY, 403),
    ],
)
def test_anything_else_is_refused(signed: SignedBody, key: bytes | None, status: int) -> None:
    """With Connect's status for it."""
    with pytest.raises(ApiError) as refused:
        verify_signature(signed, key, ACCEPTED)
    assert refused.value.status == status
