# SPDX-License-Identifier: Apache-2.0
"""Measured figures, for whoever runs the tests with `-s` or reads a failure."""

from __future__ import annotations


def measured(figure: str) -> None:
    """Print a figure; pytest keeps it unless asked."""
    print(figure)
