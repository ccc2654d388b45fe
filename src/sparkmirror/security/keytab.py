# SPDX-License-Identifier: Apache-2.0
"""Who a Kerberos keytab has keys for; the keys themselves are left to the library.

    05 02                       file format 2, big-endian
    then for each key
    int32   size of the entry; negative: a hole of that many bytes; 0: the end
    uint16  parts of the name
    uint16  length, then the realm
    uint16  length, then a part of the name; as often as there are parts
    ...     kind of name, time, key: not read

Java says "Unable to obtain password from user" when a keytab has no key for the principal; here it
is said before anything connects, by name.
"""

from __future__ import annotations

import struct

MAX_BYTES = 1 << 20
_FORMAT = b"\x05\x02"
_OLDER_FORMAT = b"\x05\x01"  # in the byte order of the machine that wrote it


def read_principals(data: bytes) -> frozenset[str]:
    """The names that it has keys for, as `mirror@REALM`; ValueError if it is no keytab."""
    if data.startswith(_OLDER_FORMAT):
        raise ValueError("it has the format of very old Kerberos libraries: make it anew")
    if not data.startswith(_FORMAT):
        raise ValueError("it is no keytab")
    found = set()
    at = len(_FORMAT)
    try:
        while at < len(data):
            (size,) = struct.unpack_from(">i", data, at)
            at += 4
            if size == 0:
                break
            if size > len(data) - at:
                raise ValueError("it is cut off")
            if size > 0:
                found.add(_principal(data[at : at + size]))
            at += abs(size)
    except struct.error:
        raise ValueError("it is cut off") from None
    return frozenset(found)


def has_key(principals: frozenset[str], wanted: str) -> bool:
    """Whether one of them is meant; without a realm it is that of krb5.conf, unknown here."""
    return any(wanted in (one, one.rpartition("@")[0]) for one in principals)


def _principal(entry: bytes) -> str:
    (parts,) = struct.unpack_from(">H", entry)
    realm, at = _text(entry, 2)
    names = []
    for _ in range(parts):
        name, at = _text(entry, at)
        names.append(name)
    return f"{'/'.join(names)}@{realm}"


def _text(entry: bytes, at: int) -> tuple[str, int]:
    (size,) = struct.unpack_from(">H", entry, at)
    end = at + 2 + size
    if end > len(entry):
        raise ValueError("it is damaged")
    return entry[at + 2 : end].decode("utf-8", "replace"), end
