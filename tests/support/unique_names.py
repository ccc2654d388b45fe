# SPDX-License-Identifier: Apache-2.0
"""Names that no other test, run or session uses."""

from __future__ import annotations

import uuid


def unique_name(prefix: str) -> str:
    """The prefix with a random end; only characters that Kafka allows in topic and group names."""
    return f"{prefix}-{uuid.uuid4().hex[:8]}"
