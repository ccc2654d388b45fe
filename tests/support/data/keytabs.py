# SPDX-License-Identifier: Apache-2.0
"""Keytabs without a KDC; their keys are random."""

from __future__ import annotations

import struct

_NAME_TYPE, _CIPHER, _KEY = 1, 18, bytes(32)


def keytab(*principals: str, hole: int = 0) -> bytes:
    """A file with a key for each, `name/host@REALM`; `hole` bytes are where one was deleted."""
    data = b"\x05\x02" + (struct.pack(">i", -hole) + bytes(hole) if hole else b"")
    for principal in principals:
        name, _, realm = principal.rpartition("@")
        parts = name.split("/")
        entry = struct.pack(">H", len(parts)) + b"".join(map(_counted, (realm, *parts)))
        entry += struct.pack(">IIBHH", _NAME_TYPE, 0, 1, _CIPHER, len(_KEY)) + _KEY
        data += struct.pack(">i", len(entry)) + entry
    return data


def _counted(text: str) -> bytes:
    return struct.pack(">H", len(text.encode())) + text.encode()
