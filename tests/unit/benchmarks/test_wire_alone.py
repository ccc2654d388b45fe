# SPDX-License-Identifier: Apache-2.0
"""The wire alone, with its own peer in another process."""

from __future__ import annotations

import multiprocessing

import pytest

from benchmarks.wire_alone import megabytes_per_cpu_second


@pytest.mark.parametrize("is_secured", [False, True])
def test_everything_comes_back_and_the_peer_is_gone(*, is_secured: bool) -> None:
    """A figure that is possible, and no process left."""
    assert 1 < megabytes_per_cpu_second(is_secured=is_secured, total=8 << 20) < 100_000
    assert multiprocessing.active_children() == []
