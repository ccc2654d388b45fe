# SPDX-License-Identifier: Apache-2.0
"""A cluster of which only the address is known, as the support modules want it."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Servers:
    """Where it is reached; for a source behind a slow line, the line's end."""

    bootstrap_servers: str
