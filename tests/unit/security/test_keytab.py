# SPDX-License-Identifier: Apache-2.0
"""A keytab says who it has keys for."""

from __future__ import annotations

from pathlib import Path

import pytest

from sparkmirror.security.keytab import has_key, read_principals
from support.data.keytabs import keytab

GOLDEN = Path(__file__).parent / "golden" / "mirror.keytab"


def test_a_keytab_of_kadmin_is_read() -> None:
    """With several keys of one principal."""
    assert read_principals(GOLDEN.read_bytes()) == {
        "mirror@MIRROR.TEST",
        "kafka/broker.example@MIRROR.TEST",
    }


def test_every_entry_is_read() -> None:
    """Also behind a hole, and up to an entry without a size."""
    made = keytab("mirror@HERE", "kafka/h@THERE", hole=7)
    assert read_principals(made) == {"mirror@HERE", "kafka/h@THERE"}
    assert read_principals(made + bytes(4) + b"rest") == {"mirror@HERE", "kafka/h@THERE"}
    assert read_principals(keytab()) == set()


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (b"", "not a keytab"),
        (b"-----BEGIN", "not a keytab"),
        (b"\x05\x01" + bytes(10), "format 1"),
        (keytab("mirror@HERE")[:-1], "truncated"),
        (b"\x05\x02\x00\x00", "truncated"),
        (b"\x05\x02\x00\x00\x00\x04\x00\x01\x00\x09", "damaged"),
    ],
)
def test_what_is_no_keytab_is_reported(data: bytes, reason: str) -> None:
    """And how it is not."""
    with pytest.raises(ValueError, match=reason):
        read_principals(data)


def test_a_name_without_a_realm_is_of_any() -> None:
    """krb5.conf decides which, and is not read here."""
    known = frozenset({"mirror/host@HERE"})
    assert has_key(known, "mirror/host")
    assert has_key(known, "mirror/host@HERE")
    assert not has_key(known, "mirror/host@THERE")
    assert not has_key(known, "mirror")
