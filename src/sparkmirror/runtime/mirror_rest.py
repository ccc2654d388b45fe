# SPDX-License-Identifier: Apache-2.0
"""Serves the REST API of `sparkmirror run`, by default on loopback only."""

from __future__ import annotations

import logging
import socket
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from urllib.parse import urlsplit

from sparkmirror.config.config_changes import ParsedRun
from sparkmirror.config.worker_settings import RunRestSettings
from sparkmirror.connectors.desired_state import InstanceView
from sparkmirror.errors import SetupError
from sparkmirror.rest.app import AppOptions
from sparkmirror.rest.offsets import TopicTrackingPolicy
from sparkmirror.rest.server import RestServer
from sparkmirror.runtime.mirror_api import MirrorApi
from sparkmirror.runtime.mirror_reconciler import MirrorFlow

_LOOPBACK = "127.0.0.1"
_log = logging.getLogger(__name__)


class MirrorRestServer:
    """Serves from construction to `stop`; SetupError if an address of the file is in use."""

    def __init__(
        self,
        rest: RunRestSettings,
        file: str,
        flows: Callable[[], Sequence[MirrorFlow]],
        instances: Callable[[], Mapping[str, InstanceView]],
        parsed_run: Callable[[], ParsedRun],
        render_metrics: Callable[[], bytes] | None = None,
    ) -> None:
        self._rest = rest
        self._server = _bind(rest)
        worker_id = _worker_id(self._server.advertised_url)
        api = MirrorApi(file, flows, instances, parsed_run, worker_id)
        self._server.start(api, render_metrics)

    @property
    def url(self) -> str:
        return self._server.advertised_url

    def prepare_credentials(self, rest: RunRestSettings | None) -> Callable[[], None] | None:
        """Return a function that applies other certificates and users.

        None if other settings differ as well. ConfigError if they cannot be used.
        """
        served = self._rest.settings
        if rest is None or not rest.settings.differs_only_in_credentials(served):
            return None
        renew_server = self._server.prepare_credentials_update(rest.settings)

        def renew() -> None:
            if rest.settings != served:
                renew_server()
                self._rest = rest

        return renew

    def stop(self) -> None:
        self._server.stop()


def _bind(rest: RunRestSettings) -> RestServer:
    options = AppOptions.from_settings(rest.settings, TopicTrackingPolicy(allows_reset=False))
    try:
        return RestServer(rest.settings, options)
    except SetupError:
        if not rest.allows_any_port:
            raise
        first, *_ = rest.settings.listeners
        server = RestServer(replace(rest.settings, listeners=(replace(first, port=0),)), options)
        chosen = replace(first, port=server.ports[0])
        _log.warning(
            f"{first} is in use, and the file sets no listeners: the REST API is served at "
            f"{chosen} instead. Commands find it with --url and the properties file."
        )
        return server


def _worker_id(url: str) -> str:
    """Return host and port; the host name instead of the loopback address."""
    found = urlsplit(url)
    host = socket.gethostname() if found.hostname == _LOOPBACK else found.hostname
    return f"{host}:{found.port}"
