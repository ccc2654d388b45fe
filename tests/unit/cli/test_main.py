# SPDX-License-Identifier: Apache-2.0
"""Commands as people type them."""

from __future__ import annotations

import pytest

from sparkmirror.cli.main import _as_typed


@pytest.mark.parametrize(
    ("typed", "understood"),
    [
        ("run f", "run f"),
        ("run f --clusters b", "run f --clusters b"),
        ("run f --clusters b c", "run f --clusters b --clusters c"),
        ("run f --clusters b c --once", "run f --clusters b --clusters c --once"),
        ("run --once f --clusters b c", "run --once f --clusters b --clusters c"),
        ("run --clusters b f", "run --clusters b f"),
    ],
)
def test_clusters_may_be_listed_as_mm2_lists_them(typed: str, understood: str) -> None:
    """`--clusters b c` after the file; before it, the next word alone is a cluster."""
    assert _as_typed(typed.split()) == understood.split()
