# SPDX-License-Identifier: Apache-2.0
"""Prints measured values, for `-s` and for failures."""

from __future__ import annotations


def measured(figure: str) -> None:
    """Print a figure; pytest keeps it unless asked."""
    print(figure)
