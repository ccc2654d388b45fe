# SPDX-License-Identifier: Apache-2.0
"""JSON as Connect's schemaless converter writes it.

UTF-8, no white space, nothing escaped beyond what JSON demands, fields in the order in which they
were put in. Connect finds an offset by the raw bytes of its key, so the text must be exact.
"""

from __future__ import annotations

import json
from typing import TypeAlias

from sparkmirror.errors import WireError

Json: TypeAlias = "bool | int | float | str | list[Json] | dict[str, Json] | None"


def encode(value: Json) -> bytes:
    """The bytes that Java would write."""
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False).encode()


def decode(data: bytes, what: str) -> Json:
    """What the bytes say; `what` names the record in the error sentence."""
    try:
        value: Json = json.loads(data)
    except (UnicodeDecodeError, json.JSONDecodeError) as error:
        raise WireError(f"{what} is not JSON: {error}.") from error
    return value
