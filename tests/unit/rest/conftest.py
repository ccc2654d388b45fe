# SPDX-License-Identifier: Apache-2.0
"""A worker in memory, and a client of its REST API without a socket."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from fastapi.testclient import TestClient

from sparkmirror.rest.app import create_app
from support.memory_worker import MemoryWorker


@pytest.fixture
def worker() -> MemoryWorker:
    """A worker without connectors."""
    return MemoryWorker()


@pytest.fixture
def client(worker: MemoryWorker) -> Iterator[TestClient]:
    """Its API."""
    with TestClient(create_app(worker)) as opened:
        yield opened
