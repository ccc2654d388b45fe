# SPDX-License-Identifier: Apache-2.0
"""Serves `/metrics` on `metrics.port`; each scrape has a thread."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from sparkmirror.config.settings import MetricsSettings
from sparkmirror.errors import SetupError
from sparkmirror.metrics.exposition import CONTENT_TYPE

_IDLE_SECONDS = 60.0
_log = logging.getLogger(__name__)


class MetricsServer:
    """An HTTP listener for scrapes. SetupError if the address is in use."""

    def __init__(self, settings: MetricsSettings, render: Callable[[], bytes]) -> None:
        """`render` returns a scrape; called on the server's threads."""
        self.settings = settings
        port = settings.port or 0
        try:
            self._server = _Server((settings.host, port), _handler(render))
        except OSError as error:
            raise SetupError(
                f"Cannot serve metrics at {settings.host}:{port}: {error}.",
                remedy="Choose another metrics.port, or leave the line out.",
            ) from error
        self._thread = threading.Thread(
            target=self._server.serve_forever, name="metrics", daemon=True
        )
        self._thread.start()

    def stop(self) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    block_on_close = False

    def handle_error(self, request: Any, client_address: Any) -> None:  # noqa: ARG002 - the library's
        """Ignore a client that has disconnected; errors of a scrape are logged there."""
        _log.debug("a scrape from %s ended early", client_address, exc_info=True)


def _handler(render: Callable[[], bytes]) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        timeout = _IDLE_SECONDS

        def do_GET(self) -> None:
            if self.path.partition("?")[0] not in ("/metrics", "/"):
                self.send_error(HTTPStatus.NOT_FOUND)
                return
            try:
                body = render()
            except Exception:  # noqa: BLE001 - logged, and the server must go on
                # Prometheus shows the target as down; the reason is in the log.
                _log.exception("A scrape failed by an unexpected error; the next one retries.")
                self.send_error(HTTPStatus.INTERNAL_SERVER_ERROR)
                return
            self.send_response(HTTPStatus.OK)
            self.send_header("Content-Type", CONTENT_TYPE)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            """Log nothing: clients must not fill the log."""

    return Handler
