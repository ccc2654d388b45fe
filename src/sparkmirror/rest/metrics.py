# SPDX-License-Identifier: Apache-2.0
"""`/metrics`: metrics of this process for Prometheus; not in Connect.

Rendered on threads of its own, so that a busy worker can be scraped. With authentication, scrapes
need a user's password.
"""

from __future__ import annotations

from collections.abc import Callable

import anyio
from anyio.to_thread import run_sync
from fastapi import APIRouter
from fastapi.responses import Response

from sparkmirror.metrics.exposition import CONTENT_TYPE

_THREADS = 4


def router(render: Callable[[], bytes]) -> APIRouter:
    """Return the route; `render` returns a scrape and blocks for some milliseconds."""
    found = APIRouter(tags=["metrics"])
    threads = anyio.CapacityLimiter(_THREADS)

    @found.get(
        "/metrics",
        response_class=Response,
        responses={200: {"content": {"text/plain": {"schema": {"type": "string"}}}}},
    )
    async def get_metrics() -> Response:
        """Get the metrics of this process in Prometheus' text format."""
        body = await run_sync(render, limiter=threads)
        return Response(body, media_type=CONTENT_TYPE)

    return found
