# SPDX-License-Identifier: Apache-2.0
"""The application: Connect's REST API over a worker."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Self

from fastapi import Depends, FastAPI

from sparkmirror import __version__
from sparkmirror.config.worker_settings import RestSettings
from sparkmirror.connect.api import ConnectApi
from sparkmirror.rest import connectors, internal, loggers, offsets, plugins, root
from sparkmirror.rest.basic_auth import BasicAuth
from sparkmirror.rest.cors import CrossOrigin
from sparkmirror.rest.desk import Desk, Limits
from sparkmirror.rest.door import DoorLimits
from sparkmirror.rest.errors import add_error_handlers
from sparkmirror.rest.gate import Gate
from sparkmirror.rest.pages import OwnNames
from sparkmirror.rest.parameters import speaks_json
from sparkmirror.rest.response_headers import HeaderRule, read_rules
from sparkmirror.rest.tracking import Tracking
from sparkmirror.rest.unproven import UnprovenBodies
from sparkmirror.security.settings import TlsSettings


@dataclass(frozen=True, slots=True)
class AppOptions:
    """What an application serves, and how."""

    has_connectors: bool = True  # everything that is not below /admin
    has_admin: bool = True
    tracking: Tracking = field(default_factory=Tracking)
    cross_origin: CrossOrigin | None = None
    own_names: OwnNames = field(default_factory=OwnNames)
    headers: tuple[HeaderRule, ...] = ()
    limits: Limits = field(default_factory=Limits)
    door: DoorLimits = field(default_factory=DoorLimits)
    auth: BasicAuth | None = None  # None: nobody is asked
    peers: TlsSettings = field(default_factory=TlsSettings)  # of requests to other workers

    @classmethod
    def of(cls, rest: RestSettings, tracking: Tracking) -> Self:
        """As a file says; ConfigError for headers that are none."""
        return cls(
            has_admin=rest.admin_listeners is None,
            tracking=tracking,
            cross_origin=CrossOrigin.of(rest.allow_origin, rest.allow_methods),
            headers=read_rules(rest.response_headers),
            auth=None if rest.users is None else BasicAuth(rest.users),
            peers=rest.tls,
        )


def create_app(api: ConnectApi, options: AppOptions | None = None) -> FastAPI:
    """Build the application; it holds nothing but the worker."""
    wanted = options or AppOptions()
    app = FastAPI(
        title="sparkmirror",
        summary="Kafka Connect's REST API for MirrorMaker 2's connectors on Spark.",
        version=__version__,
        docs_url=None,  # their pages load scripts from elsewhere
        redoc_url=None,
        redirect_slashes=False,
    )
    app.state.desk = Desk(api, wanted.limits, wanted.peers)
    app.state.tracking = wanted.tracking
    every = [Depends(speaks_json)]
    if wanted.has_connectors:
        for one in (root, connectors, offsets, plugins, internal):
            app.include_router(one.router, dependencies=every)
    if wanted.has_admin:
        app.include_router(loggers.router, dependencies=every)
    add_error_handlers(app)
    unproven = None
    if wanted.auth is not None:
        unproven = UnprovenBodies(wanted.door.idle_seconds, wanted.limits.body_bytes)
    app.add_middleware(
        Gate,
        cross_origin=wanted.cross_origin,
        rules=wanted.headers,
        own_names=wanted.own_names,
        auth=wanted.auth,
        unproven=unproven,
    )
    return app
