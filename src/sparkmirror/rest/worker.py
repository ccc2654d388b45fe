# SPDX-License-Identifier: Apache-2.0
"""Routes about the worker: `/`, `/health`, `/health/ready`, `/connector-plugins`, loggers."""

from __future__ import annotations

from dataclasses import asdict
from http import HTTPStatus
from typing import Annotated

from fastapi import APIRouter, Query
from fastapi.responses import JSONResponse, Response

from sparkmirror.connect.api import ApiError, ConnectApi
from sparkmirror.rest import entities
from sparkmirror.rest.connectors import with_stored_secrets
from sparkmirror.rest.dispatch import BooleanParam, NameParam, RestCallParam, empty_response
from sparkmirror.rest.openapi import config_schema, error_responses, string_property_schema
from sparkmirror.rest.request_bodies import parse_string_map

root_router = APIRouter(tags=["worker"])
plugins_router = APIRouter(prefix="/connector-plugins", tags=["plugins"])
loggers_router = APIRouter(prefix="/admin/loggers", tags=["admin"])


@root_router.get("/", response_model=entities.ServerInfo, responses=error_responses())
async def get_root(call: RestCallParam) -> Response:
    """Get the version and Kafka cluster of the worker."""
    return await call.json(lambda api: dict(api.server_info()))


@root_router.get(
    "/health",
    response_model=entities.WorkerStatus,
    responses={
        500: {"model": entities.WorkerStatus, "description": "The worker does not answer in time."},
        503: {"model": entities.WorkerStatus, "description": "The worker is still starting."},
    },
)
async def get_health(call: RestCallParam) -> Response:
    """Get the health of the worker."""
    return await call.health()


@root_router.get(
    "/health/ready",
    response_model=entities.Readiness,
    responses={
        500: {"model": entities.WorkerStatus, "description": "The worker does not answer in time."},
        503: {"model": entities.Readiness, "description": "A flow cannot work."},
    },
)
async def get_readiness(call: RestCallParam) -> Response:
    """Get whether all flows of this process can work; not in Connect."""
    return await call.health(of_flows=True)


@plugins_router.get("", response_model=list[entities.PluginInfo], responses=error_responses())
async def list_plugins(
    call: RestCallParam,
    connectorsOnly: BooleanParam = None,  # noqa: ARG001, N803 - Connect's name
) -> Response:
    """List connector classes; `connectorsOnly=false` adds converters."""
    connectors_only = call.query_flag("connectorsOnly", default=True)
    return await call.json(
        lambda api: [
            entities.plugin_json(one) for one in api.plugins(connectors_only=connectors_only)
        ]
    )


@plugins_router.get(
    "/{plugin}/config",
    response_model=list[entities.ConfigKeyInfo],
    responses=error_responses(400, 404),
)
async def get_plugin_config(
    call: RestCallParam,
    plugin: NameParam,
    version: Annotated[str | None, Query(description="Default: the only version.")] = None,
) -> Response:
    """Get the configuration keys of a plugin."""
    return await call.json(lambda api: [asdict(one) for one in api.plugin_config(plugin, version)])


@plugins_router.put(
    "/{plugin}/config/validate",
    response_model=entities.ConfigInfos,
    responses=error_responses(400, 413, 415),
    openapi_extra=config_schema(),
)
async def validate(call: RestCallParam, plugin: NameParam) -> Response:
    """Validate a configuration; the status is 200 also if it is wrong."""

    def validate_config(api: ConnectApi, body: bytes) -> Response:
        config = parse_string_map(body)
        restored = with_stored_secrets(api, config.get("name") or "", config)
        return JSONResponse(asdict(api.validate(plugin, restored)))

    return await call.with_body(validate_config)


@loggers_router.get("", response_model=dict[str, entities.LoggerLevel], responses=error_responses())
async def list_loggers(call: RestCallParam) -> Response:
    """List loggers whose level is set."""
    return await call.json(
        lambda api: {
            name: entities.level_json(level) for name, level in sorted(api.loggers().items())
        }
    )


@loggers_router.get(
    "/{logger}", response_model=entities.LoggerLevel, responses=error_responses(404)
)
async def get_logger(call: RestCallParam, logger: NameParam) -> Response:
    """Get the level of a logger."""
    return await call.json(lambda api: entities.level_json(api.logger(logger)))


@loggers_router.put(
    "/{logger}",
    response_model=list[str],
    responses={
        204: {"description": "The level is set on all workers."},
        **error_responses(400, 404, 413, 415),
    },
    openapi_extra=string_property_schema("level", "DEBUG"),
)
async def set_logger(
    call: RestCallParam,
    logger: NameParam,
    scope: Annotated[str | None, Query(description="worker, or cluster")] = None,
) -> Response:
    """Set the level of a logger and its children; `scope=cluster` on all workers."""
    is_cluster = (scope or "").lower() == "cluster"

    def set_level(api: ConnectApi, body: bytes) -> Response:
        level = parse_string_map(body).get("level")
        if level is None:
            raise ApiError(
                HTTPStatus.BAD_REQUEST, "Desired 'level' parameter was not specified in request."
            )
        changed = api.set_logger(logger, level, cluster=is_cluster)
        return (
            empty_response(HTTPStatus.NO_CONTENT) if is_cluster else JSONResponse(sorted(changed))
        )

    return await call.with_body(set_level)
