# SPDX-License-Identifier: Apache-2.0
"""The ASGI application: Connect's REST API over a ConnectApi."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Self

from fastapi import Depends, FastAPI

from sparkmirror import __version__
from sparkmirror.config.worker_settings import RestSettings
from sparkmirror.connect.api import ConnectApi
from sparkmirror.rest import connectors, lag, metrics, offsets, worker
from sparkmirror.rest.acceptor import ConnectionLimits
from sparkmirror.rest.basic_auth import BasicAuth
from sparkmirror.rest.cors import CorsPolicy
from sparkmirror.rest.csrf import AllowedHosts
from sparkmirror.rest.dispatch import Dispatcher, RequestLimits, require_json
from sparkmirror.rest.errors import add_error_handlers
from sparkmirror.rest.middleware import RequestMiddleware
from sparkmirror.rest.offsets import TopicTrackingPolicy
from sparkmirror.rest.response_headers import HeaderRule, parse_header_rules
from sparkmirror.rest.signed_body_limits import SignedBodyReader
from sparkmirror.security.settings import TlsSettings


@dataclass(frozen=True, slots=True)
class AppOptions:
    """Options of an application."""

    has_connectors: bool = True  # everything except /admin
    has_admin: bool = True
    tracking: TopicTrackingPolicy = field(default_factory=TopicTrackingPolicy)
    cross_origin: CorsPolicy | None = None
    allowed_hosts: AllowedHosts = field(default_factory=AllowedHosts)
    headers: tuple[HeaderRule, ...] = ()
    request_limits: RequestLimits = field(default_factory=RequestLimits)
    connection_limits: ConnectionLimits = field(default_factory=ConnectionLimits)
    auth: BasicAuth | None = None  # None: no authentication
    worker_tls: TlsSettings = field(default_factory=TlsSettings)  # for requests to other workers
    render_metrics: Callable[[], bytes] | None = None  # None: /metrics is not found

    @classmethod
    def from_settings(cls, rest: RestSettings, tracking: TopicTrackingPolicy) -> Self:
        """Create options; ConfigError if response.http.headers.config is invalid."""
        return cls(
            has_admin=rest.admin_listeners is None,
            tracking=tracking,
            cross_origin=CorsPolicy.parse(rest.allow_origin, rest.allow_methods),
            headers=parse_header_rules(rest.response_headers),
            auth=None if rest.users is None else BasicAuth(rest.users),
            worker_tls=rest.tls,
        )


def create_app(api: ConnectApi, options: AppOptions | None = None) -> FastAPI:
    wanted = options or AppOptions()
    app = FastAPI(
        title="sparkmirror",
        summary="Kafka Connect's REST API for MirrorMaker 2's connectors on Spark.",
        version=__version__,
        docs_url=None,  # these pages load scripts from other sites
        redoc_url=None,
        redirect_slashes=False,
    )
    app.state.dispatcher = Dispatcher(api, wanted.request_limits, wanted.worker_tls)
    app.state.tracking = wanted.tracking
    every = [Depends(require_json)]
    if wanted.has_connectors:
        for router in (
            worker.root_router,
            connectors.router,
            offsets.router,
            lag.router,
            worker.plugins_router,
            connectors.internal_router,
        ):
            app.include_router(router, dependencies=every)
        if wanted.render_metrics is not None:
            app.include_router(metrics.router(wanted.render_metrics))
    if wanted.has_admin:
        app.include_router(worker.loggers_router, dependencies=every)
    add_error_handlers(app)
    signed_bodies = None
    if wanted.auth is not None:
        signed_bodies = SignedBodyReader(
            wanted.connection_limits.idle_seconds, wanted.request_limits.body_bytes
        )
    app.add_middleware(
        RequestMiddleware,
        cross_origin=wanted.cross_origin,
        rules=wanted.headers,
        allowed_hosts=wanted.allowed_hosts,
        auth=wanted.auth,
        signed_bodies=signed_bodies,
    )
    return app
