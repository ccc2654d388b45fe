# SPDX-License-Identifier: Apache-2.0
"""`/admin/loggers`: log levels of workers."""

from __future__ import annotations

from http import HTTPStatus
from typing import Annotated

from fastapi import APIRouter, Query, Request
from fastapi.responses import JSONResponse, Response

from sparkmirror.connect.api import ApiError, ConnectApi
from sparkmirror.rest import entities
from sparkmirror.rest.dispatch import DispatcherParam, NameParam, empty_response
from sparkmirror.rest.openapi import error_responses, string_property_schema
from sparkmirror.rest.request_bodies import parse_string_map

router = APIRouter(prefix="/admin/loggers", tags=["admin"])


@router.get("", response_model=dict[str, entities.LoggerLevel], responses=error_responses())
async def list_loggers(request: Request, dispatcher: DispatcherParam) -> Response:
    """List loggers whose level is set."""
    return await dispatcher.run(request, _list_loggers)


def _list_loggers(api: ConnectApi) -> Response:
    found = sorted(api.loggers().items())
    return JSONResponse({name: entities.level_json(level) for name, level in found})


@router.get("/{logger}", response_model=entities.LoggerLevel, responses=error_responses(404))
async def get_logger(request: Request, dispatcher: DispatcherParam, logger: NameParam) -> Response:
    """Get the level of a logger."""
    return await dispatcher.run(request, _get_logger, logger)


def _get_logger(api: ConnectApi, logger: str) -> Response:
    return JSONResponse(entities.level_json(api.logger(logger)))


@router.put(
    "/{logger}",
    response_model=list[str],
    responses={
        204: {"description": "The level is set on all workers."},
        **error_responses(400, 404, 413, 415),
    },
    openapi_extra=string_property_schema("level", "DEBUG"),
)
async def set_logger(
    request: Request,
    dispatcher: DispatcherParam,
    logger: NameParam,
    scope: Annotated[str | None, Query(description="worker, or cluster")] = None,
) -> Response:
    """Set the level of a logger and its children; `scope=cluster` on all workers."""
    is_cluster = (scope or "").lower() == "cluster"
    return await dispatcher.run_with_body(request, _set_logger, logger, cluster=is_cluster)


def _set_logger(api: ConnectApi, body: bytes, logger: str, *, cluster: bool) -> Response:
    level = parse_string_map(body).get("level")
    if level is None:
        raise ApiError(
            HTTPStatus.BAD_REQUEST, "Desired 'level' parameter was not specified in request."
        )
    changed = api.set_logger(logger, level, cluster=cluster)
    return empty_response(HTTPStatus.NO_CONTENT) if cluster else JSONResponse(sorted(changed))
