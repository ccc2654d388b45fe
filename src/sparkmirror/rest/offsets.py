# SPDX-License-Identifier: Apache-2.0
"""A connector's offsets, and the topics that it has written to."""

from __future__ import annotations

from http import HTTPStatus

from fastapi import APIRouter, Request
from fastapi.responses import JSONResponse, Response

from sparkmirror.config.connector_offsets import NOTHING_TO_ALTER
from sparkmirror.connect.api import ApiError, ConnectApi
from sparkmirror.rest import entities
from sparkmirror.rest.bodies import read_offsets
from sparkmirror.rest.desk import nothing
from sparkmirror.rest.documentation import body_schema, problems
from sparkmirror.rest.parameters import Connector, Forward, TheDesk
from sparkmirror.rest.tracking import TopicTracking

router = APIRouter(tags=["offsets and topics"])


@router.get(
    "/connectors/{connector}/offsets",
    response_model=entities.ConnectorOffsets,
    responses=problems(404),
)
async def get_offsets(request: Request, desk: TheDesk, connector: Connector) -> Response:
    """Where a connector stands."""
    return await desk.answer(request, lambda api: JSONResponse({"offsets": api.offsets(connector)}))


@router.patch(
    "/connectors/{connector}/offsets",
    response_model=entities.Message,
    responses=problems(400, 404, 409, 413, 415),
    openapi_extra=body_schema(entities.ConnectorOffsets),
)
async def alter_offsets(
    request: Request, desk: TheDesk, connector: Connector, forward: Forward = None
) -> Response:
    """Set offsets of a connector that is stopped."""
    del forward
    body = await desk.body(request)

    def call(api: ConnectApi) -> Response:
        entries = read_offsets(body)
        if not entries:
            raise ApiError(HTTPStatus.BAD_REQUEST, NOTHING_TO_ALTER)
        return JSONResponse({"message": api.alter_offsets(connector, entries)})

    return await desk.answer(request, call, body)


@router.delete(
    "/connectors/{connector}/offsets",
    response_model=entities.Message,
    responses=problems(400, 404, 409),
)
async def reset_offsets(
    request: Request, desk: TheDesk, connector: Connector, forward: Forward = None
) -> Response:
    """Forget all offsets of a connector that is stopped."""
    del forward
    return await desk.answer(
        request, lambda api: JSONResponse({"message": api.reset_offsets(connector)})
    )


@router.get(
    "/connectors/{connector}/topics",
    response_model=dict[str, entities.ActiveTopics],
    responses=problems(403),
)
async def get_topics(
    request: Request, desk: TheDesk, tracking: TopicTracking, connector: Connector
) -> Response:
    """Topics that a connector has written to; none for one that nobody knows."""
    tracking.check()
    return await desk.answer(
        request, lambda api: JSONResponse({connector: {"topics": api.topics(connector)}})
    )


@router.put(
    "/connectors/{connector}/topics/reset",
    status_code=202,
    response_class=Response,
    responses=problems(403),
)
async def reset_topics(
    request: Request, desk: TheDesk, tracking: TopicTracking, connector: Connector
) -> Response:
    """Forget them."""
    tracking.check_reset()

    def call(api: ConnectApi) -> Response:
        api.reset_topics(connector)
        return nothing(HTTPStatus.ACCEPTED)

    return await desk.answer(request, call)
