# SPDX-License-Identifier: Apache-2.0
"""`/` and `/health`: version and health of the worker."""

from __future__ import annotations

from fastapi import APIRouter, Request
from fastapi.responses import JSONResponse, Response

from sparkmirror.connect.api import ConnectApi
from sparkmirror.rest import entities
from sparkmirror.rest.dispatch import DispatcherParam
from sparkmirror.rest.openapi import error_responses

router = APIRouter(tags=["worker"])


@router.get("/", response_model=entities.ServerInfo, responses=error_responses())
async def get_root(request: Request, dispatcher: DispatcherParam) -> Response:
    """Get the version and Kafka cluster of the worker."""
    return await dispatcher.run(request, _get_root)


def _get_root(api: ConnectApi) -> Response:
    return JSONResponse(dict(api.server_info()))


@router.get(
    "/health",
    response_model=entities.WorkerStatus,
    responses={
        500: {"model": entities.WorkerStatus, "description": "The worker does not answer in time."},
        503: {"model": entities.WorkerStatus, "description": "The worker is still starting."},
    },
)
async def get_health(dispatcher: DispatcherParam) -> Response:
    """Get the health of the worker."""
    return await dispatcher.health()
