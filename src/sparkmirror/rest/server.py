# SPDX-License-Identifier: Apache-2.0
"""Serves the REST API on the configured listeners.

Ports are bound before anything starts, so a port in use is an error at startup. One server thread
serves all listeners, http and https; another one serves `admin.listeners`, if set. Warnings about
unprotected listeners are logged once at startup.
"""

from __future__ import annotations

import logging
import socket
import ssl
import threading
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from typing import Self

import uvicorn
from fastapi import FastAPI
from uvicorn.protocols.http.h11_impl import H11Protocol

from sparkmirror.config.worker_settings import RestListener, RestSettings, WorkerSettings
from sparkmirror.connect.api import ConnectApi
from sparkmirror.errors import ConfigError, SetupError
from sparkmirror.rest.acceptor import BoundListener, ConnectionLimits, HttpAcceptor
from sparkmirror.rest.app import AppOptions, create_app
from sparkmirror.rest.csrf import AllowedHosts
from sparkmirror.rest.listening_sockets import bind_listeners
from sparkmirror.rest.offsets import TopicTrackingPolicy
from sparkmirror.security.tls import server_context

log = logging.getLogger(__name__)

_START_SECONDS = 10.0
_GRACE_SECONDS = 5
_STOP_SECONDS = _GRACE_SECONDS + 5.0
_PAUSE_SECONDS = 0.01
_HEADER_BYTES = 16 << 10  # of a request; the limit of Connect's server is 8 KiB
_EVERYWHERE = ("", "0.0.0.0", "::")  # noqa: S104 - compared, not bound


class RestServer:
    """The constructor binds the ports; serves from `start` to `stop`."""

    def __init__(self, rest: RestSettings, options: AppOptions) -> None:
        self._rest = rest
        self._options = options
        self._servers: list[_ServerThread] = []
        self._apps: list[FastAPI] = []
        self._sockets: list[socket.socket] = []
        self._admin_sockets: list[socket.socket] = []
        self._tls = _server_context(rest)
        try:
            self._sockets = bind_listeners(rest.listeners, self._sockets)
            self._admin_sockets = bind_listeners(rest.admin_listeners or (), self._admin_sockets)
        except BaseException:
            self._close_sockets()
            raise

    @classmethod
    def for_worker(cls, settings: WorkerSettings, options: AppOptions | None = None) -> Self:
        tracking = TopicTrackingPolicy(settings.topic_tracking, settings.topic_tracking_reset)
        return cls(settings.rest, options or AppOptions.from_settings(settings.rest, tracking))

    @property
    def ports(self) -> tuple[int, ...]:
        """The bound ports, in the order of the listeners."""
        return tuple(one.getsockname()[1] for one in self._sockets)

    @property
    def admin_ports(self) -> tuple[int, ...]:
        """The bound ports of `admin.listeners`."""
        return tuple(one.getsockname()[1] for one in self._admin_sockets)

    @property
    def advertised_url(self) -> str:
        """The URL of this worker for other workers; ends with a slash, as in Connect."""
        return advertised_url(self._rest, self.ports)

    def start(self, api: ConnectApi, render_metrics: Callable[[], bytes] | None = None) -> None:
        """Serve; returns when every listener accepts connections."""
        bound = [one.getsockname()[:2] for one in (*self._sockets, *self._admin_sockets)]
        options = replace(
            self._options,
            allowed_hosts=AllowedHosts.from_settings(self._rest, bound),
            render_metrics=render_metrics or self._options.render_metrics,
        )
        main = create_app(api, options)
        self._apps.append(main)
        listening = self._listening(self._rest.listeners, self._sockets)
        self._servers.append(
            _ServerThread("rest", main, listening, self._options.connection_limits)
        )
        if self._admin_sockets:
            admin = create_app(api, replace(options, has_connectors=False, has_admin=True))
            self._apps.append(admin)
            listening = self._listening(self._rest.admin_listeners or (), self._admin_sockets)
            self._servers.append(
                _ServerThread("rest-admin", admin, listening, self._options.connection_limits)
            )
        try:
            for one in self._servers:
                one.start()
        except BaseException:
            self.stop()
            raise
        served = [
            str(replace(one, port=port))
            for one, port in zip(self._rest.listeners, self.ports, strict=True)
        ]
        shown = ", ".join(served)
        log.info(f"The REST API is served at {shown}, advertised as {self.advertised_url}")
        for sentence in startup_warnings(self._rest):
            log.warning(sentence)

    def prepare_credentials_update(self, rest: RestSettings) -> Callable[[], None]:
        """Return a function that applies other certificates and users to new connections.

        ConfigError if they cannot be used. Other settings are ignored.
        """
        newer = replace(self._rest, tls=rest.tls, client_auth=rest.client_auth, users=rest.users)
        context = _server_context(newer)

        def renew() -> None:
            self._tls, self._rest = context, newer
            if self._options.auth is not None and rest.users is not None:
                self._options.auth.set_users(rest.users)
            for app in self._apps:
                app.state.dispatcher.worker_tls = rest.tls

        return renew

    def stop(self) -> None:
        """Stop after a short time for pending requests; may be called again."""
        for one in self._servers:
            one.request_stop()
        for one in self._servers:
            one.join()
        self._servers.clear()
        self._close_sockets()

    def _listening(
        self, listeners: Iterable[RestListener], sockets: Iterable[socket.socket]
    ) -> list[BoundListener]:
        return [
            BoundListener(bound, self._context if one.scheme == "https" else None)
            for one, bound in zip(listeners, sockets, strict=True)
        ]

    def _context(self) -> ssl.SSLContext:
        if self._tls is None:
            raise AssertionError("an https listener without a TLS context")
        return self._tls

    def _close_sockets(self) -> None:
        for one in (*self._sockets, *self._admin_sockets):
            one.close()


class _UvicornServer(uvicorn.Server):
    """A uvicorn server that accepts connections through an HttpAcceptor."""

    def __init__(
        self, config: uvicorn.Config, listening: Sequence[BoundListener], limits: ConnectionLimits
    ) -> None:
        super().__init__(config)
        self._acceptor = HttpAcceptor(listening, self._protocol, limits)

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Replace uvicorn's, which has one fixed TLS context and no connection limits."""
        del sockets
        self.servers = []
        self._acceptor.start()
        self.started = True

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """Accept no more connections, then shut down as uvicorn does."""
        await self._acceptor.stop()
        await super().shutdown(sockets)

    def _protocol(self) -> H11Protocol:
        return _HttpProtocol(self.config, self.server_state, self.lifespan.state)


class _HttpProtocol(H11Protocol):
    """Sends one response per request: uvicorn would send a 400 while the application responds."""

    def send_400_response(self, msg: str) -> None:
        cycle = self.cycle
        if cycle is not None and not cycle.response_complete:
            cycle.disconnected = True  # the application sees a closed connection
            if cycle.response_started:
                self.transport.close()
                return
        super().send_400_response(msg)


class _ServerThread:
    def __init__(
        self, name: str, app: FastAPI, listening: Sequence[BoundListener], limits: ConnectionLimits
    ) -> None:
        config = uvicorn.Config(
            app,
            log_config=None,  # the program configures logging
            log_level="error",  # clients must not fill the log
            access_log=False,
            lifespan="off",
            ws="none",
            http="h11",
            server_header=False,
            proxy_headers=False,  # the log shows the connected address, not X-Forwarded-For
            timeout_graceful_shutdown=_GRACE_SECONDS,
            h11_max_incomplete_event_size=_HEADER_BYTES,
        )
        self._server = _UvicornServer(config, listening, limits)
        self._sockets = [one.socket for one in listening]
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)

    def start(self) -> None:
        self._thread.start()
        deadline = time.monotonic() + _START_SECONDS
        while not self._server.started:
            if not self._thread.is_alive() or time.monotonic() > deadline:
                raise SetupError("The REST server did not start; see the log.")
            time.sleep(_PAUSE_SECONDS)

    def request_stop(self) -> None:
        self._server.should_exit = True

    def join(self) -> None:
        if self._thread.ident is None:
            return
        self._thread.join(_STOP_SECONDS)
        if self._thread.is_alive():
            log.warning(f"{self._thread.name}: a request has not ended; no longer waiting for it.")

    def _run(self) -> None:
        try:
            self._server.run(sockets=self._sockets)
        except Exception:
            log.exception("The REST server ended unexpectedly; restart the process.")


def _server_context(rest: RestSettings) -> ssl.SSLContext | None:
    listeners = (*rest.listeners, *(rest.admin_listeners or ()))
    if all(one.scheme != "https" for one in listeners):
        return None
    if not rest.tls.chain:
        raise ConfigError(
            "listeners has https, but there is no certificate: set "
            "listeners.https.ssl.keystore.location and its password.",
            key="listeners",
        )
    try:
        return server_context(rest.tls, rest.client_auth)
    except (ValueError, ssl.SSLError) as error:
        raise ConfigError(
            f"The certificate for https in listeners cannot be used: {error}.", key="listeners"
        ) from error


def advertised_url(rest: RestSettings, ports: Sequence[int]) -> str:
    """Return the URL by Connect's rule: the file's values, else the first http listener."""
    schemes = {one.scheme for one in rest.listeners}
    scheme = rest.advertised_scheme or ("http" if "http" in schemes else "https")
    pairs = list(zip(rest.listeners, ports, strict=True))
    listener, port = next((pair for pair in pairs if pair[0].scheme == scheme), pairs[0])
    host = rest.advertised_host or listener.host
    if host in _EVERYWHERE:
        host = _own_address()
    return f"{RestListener(scheme, host, rest.advertised_port or port)}/"


def _own_address() -> str:
    try:
        return socket.gethostbyname(socket.gethostname())
    except OSError:
        return "127.0.0.1"


def startup_warnings(rest: RestSettings) -> list[str]:
    """Warn about non-loopback listeners without authentication or encryption."""
    has_users = rest.users is not None
    sentences = []
    for one in (*rest.listeners, *(rest.admin_listeners or ())):
        needs_certificate = one.scheme == "https" and rest.client_auth == "required"
        if one.is_loopback:
            continue
        if not has_users and not needs_certificate:
            sentences.append(
                f"The REST API on {one} has no authentication: every client can change connectors "
                "and read their configurations. Set rest.extension.classes or ssl.client.auth, or "
                "listen on 127.0.0.1."
            )
        elif has_users and one.scheme == "http":
            sentences.append(f"Passwords for {one} are sent in clear text; use https.")
    return sentences
