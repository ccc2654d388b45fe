# SPDX-License-Identifier: Apache-2.0
"""`/metrics` of the REST API."""

from __future__ import annotations

from base64 import b64encode

from sparkmirror.metrics.exposition import CONTENT_TYPE
from sparkmirror.model import Secret
from sparkmirror.rest.app import AppOptions
from sparkmirror.rest.basic_auth import BasicAuth
from support.clients.served_rest import ServedRest
from support.peers.memory_worker import MemoryWorker

SCRAPE = b"# TYPE one gauge\none 1\n"


def test_metrics_are_served_as_text() -> None:
    """Without asking the worker, which may be busy."""
    options = AppOptions(render_metrics=lambda: SCRAPE)
    with ServedRest(MemoryWorker(), options) as client:
        answer = client.get("/metrics")
        assert (answer.status, answer.text) == (200, SCRAPE.decode())
        assert answer.headers["Content-Type"] == CONTENT_TYPE
        document = client.get("/openapi.json").json()
        assert "text/plain" in document["paths"]["/metrics"]["get"]["responses"]["200"]["content"]


def test_scrapes_need_a_password_if_requests_do() -> None:
    auth = BasicAuth({"prometheus": Secret("s3cret")})
    options = AppOptions(render_metrics=lambda: SCRAPE, auth=auth)
    with ServedRest(MemoryWorker(), options) as client:
        assert client.get("/metrics").status == 401
        header = f"Basic {b64encode(b'prometheus:s3cret').decode()}"
        assert client.get("/metrics", {"Authorization": header}).status == 200
