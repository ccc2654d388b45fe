# SPDX-License-Identifier: Apache-2.0
"""A cluster that is known only by its bootstrap servers, for the support modules."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Servers:
    """Bootstrap servers; for a delayed source those of the proxy."""

    bootstrap_servers: str
