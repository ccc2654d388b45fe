# SPDX-License-Identifier: Apache-2.0
"""A worker in memory, and a client of its REST API."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from support.clients.served_rest import ServedRest
from support.peers.memory_worker import MemoryWorker


@pytest.fixture
def worker() -> MemoryWorker:
    """A worker without connectors."""
    return MemoryWorker()


@pytest.fixture
def client(worker: MemoryWorker) -> Iterator[ServedRest]:
    """Its API."""
    with ServedRest(worker) as opened:
        yield opened
