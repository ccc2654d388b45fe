# SPDX-License-Identifier: Apache-2.0
"""The command line."""

from __future__ import annotations

from importlib.metadata import entry_points

import pytest

from sparkmirror.cli.main import _expand_clusters_option


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
    """`--clusters b c` after the file; before it only the next word is a cluster."""
    assert _expand_clusters_option(typed.split()) == understood.split()


def test_connects_own_scripts_are_installed_under_their_names() -> None:
    """With and without .sh; each refers to a function."""
    names = {one.name: one for one in entry_points(group="console_scripts")}
    for name in ("sparkmirror", "connect-mirror-maker", "connect-distributed"):
        for variant in {name, f"{name}.sh"} - {"sparkmirror.sh"}:
            assert callable(names[variant].load()), variant
