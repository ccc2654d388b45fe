# SPDX-License-Identifier: Apache-2.0
"""Lists the principals of a Kerberos keytab; the Kerberos library reads the keys.

    05 02                       file format 2, big-endian
    then for each key
    int32   size of the entry; negative: a hole of that many bytes; 0: the end
    uint16  number of name components
    uint16  length, then the realm
    uint16  length, then a name component; once per component
    ...     name type, timestamp, key: not read

Java reports a missing key as "Unable to obtain password from user". Here the config check reports
it with the principal, before any connection.
"""

from __future__ import annotations

import struct

MAX_BYTES = 1 << 20
_FORMAT = b"\x05\x02"
_OLDER_FORMAT = b"\x05\x01"  # in the byte order of the machine that wrote it
_TRUNCATED = "it is truncated"


def read_principals(data: bytes) -> frozenset[str]:
    """Return the principals with keys, as `mirror@REALM`. Raises ValueError."""
    if data.startswith(_OLDER_FORMAT):
        raise ValueError(
            "it has keytab format 1, which is not supported: create it again with a current ktutil"
        )
    if not data.startswith(_FORMAT):
        raise ValueError("it is not a keytab")
    found = set()
    at = len(_FORMAT)
    try:
        while at < len(data):
            (size,) = struct.unpack_from(">i", data, at)
            at += 4
            if size == 0:
                break
            if size > len(data) - at:
                raise ValueError(_TRUNCATED)
            if size > 0:
                found.add(_principal(data[at : at + size]))
            at += abs(size)
    except struct.error:
        raise ValueError(_TRUNCATED) from None
    return frozenset(found)


def has_key(principals: frozenset[str], principal: str) -> bool:
    """Whether a principal has a key; without a realm, any realm matches."""
    return any(principal in (one, one.rpartition("@")[0]) for one in principals)


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
