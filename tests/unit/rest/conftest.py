# SPDX-License-Identifier: Apache-2.0
"""A worker in memory, and a client of its REST API."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from support.memory_worker import MemoryWorker
from support.rest_client import RestClient


@pytest.fixture
def worker() -> MemoryWorker:
    """A worker without connectors."""
    return MemoryWorker()


@pytest.fixture
def client(worker: MemoryWorker) -> Iterator[RestClient]:
    """Its API."""
    with RestClient(worker) as opened:
        yield opened
