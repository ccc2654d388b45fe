# SPDX-License-Identifier: Apache-2.0
"""`/connectors/{connector}/offsets` and `/connectors/{connector}/topics`."""

from __future__ import annotations

from dataclasses import dataclass
from http import HTTPStatus
from typing import Annotated

from fastapi import APIRouter, Depends, Request
from fastapi.responses import JSONResponse, Response

from sparkmirror.connect.api import ApiError, ConnectApi
from sparkmirror.connect.offset_alterations import NOTHING_TO_ALTER
from sparkmirror.rest import entities
from sparkmirror.rest.dispatch import ConnectorParam, DispatcherParam, ForwardParam, empty_response
from sparkmirror.rest.openapi import body_schema, error_responses
from sparkmirror.rest.request_bodies import parse_offset_entries

router = APIRouter(tags=["offsets and topics"])


@router.get(
    "/connectors/{connector}/offsets",
    response_model=entities.ConnectorOffsets,
    responses=error_responses(404),
)
async def get_offsets(
    request: Request, dispatcher: DispatcherParam, connector: ConnectorParam
) -> Response:
    """Get the stored offsets of a connector."""
    return await dispatcher.run(request, _get_offsets, connector)


def _get_offsets(api: ConnectApi, connector: str) -> Response:
    return JSONResponse({"offsets": api.offsets(connector)})


@router.patch(
    "/connectors/{connector}/offsets",
    response_model=entities.Message,
    responses=error_responses(400, 404, 409, 413, 415),
    openapi_extra=body_schema(entities.ConnectorOffsets),
)
async def alter_offsets(
    request: Request,
    dispatcher: DispatcherParam,
    connector: ConnectorParam,
    forward: ForwardParam = None,
) -> Response:
    """Alter offsets of a stopped connector."""
    del forward
    return await dispatcher.run_with_body(request, _alter_offsets, connector)


def _alter_offsets(api: ConnectApi, body: bytes, connector: str) -> Response:
    entries = parse_offset_entries(body)
    if not entries:
        raise ApiError(HTTPStatus.BAD_REQUEST, NOTHING_TO_ALTER)
    return JSONResponse({"message": api.alter_offsets(connector, entries)})


@router.delete(
    "/connectors/{connector}/offsets",
    response_model=entities.Message,
    responses=error_responses(400, 404, 409),
)
async def reset_offsets(
    request: Request,
    dispatcher: DispatcherParam,
    connector: ConnectorParam,
    forward: ForwardParam = None,
) -> Response:
    """Delete all offsets of a stopped connector."""
    del forward
    return await dispatcher.run(request, _reset_offsets, connector)


def _reset_offsets(api: ConnectApi, connector: str) -> Response:
    return JSONResponse({"message": api.reset_offsets(connector)})


@router.get(
    "/connectors/{connector}/topics",
    response_model=dict[str, entities.ActiveTopics],
    responses=error_responses(403),
)
async def get_topics(
    request: Request,
    dispatcher: DispatcherParam,
    tracking: TopicTrackingParam,
    connector: ConnectorParam,
) -> Response:
    """Get the topics that a connector has written to; none for an unknown connector."""
    tracking.check()
    return await dispatcher.run(request, _get_topics, connector)


def _get_topics(api: ConnectApi, connector: str) -> Response:
    return JSONResponse({connector: {"topics": api.topics(connector)}})


@router.put(
    "/connectors/{connector}/topics/reset",
    status_code=202,
    response_class=Response,
    responses=error_responses(403),
)
async def reset_topics(
    request: Request,
    dispatcher: DispatcherParam,
    tracking: TopicTrackingParam,
    connector: ConnectorParam,
) -> Response:
    """Clear the topics that a connector has written to."""
    tracking.check_reset()
    return await dispatcher.run(request, _reset_topics, connector)


def _reset_topics(api: ConnectApi, connector: str) -> Response:
    api.reset_topics(connector)
    return empty_response(HTTPStatus.ACCEPTED)


@dataclass(frozen=True, slots=True)
class TopicTrackingPolicy:
    """`topic.tracking.enable` and `topic.tracking.allow.reset`."""

    is_enabled: bool = True
    allows_reset: bool = True

    def check(self) -> None:
        """ApiError 403 unless topics are tracked."""
        if not self.is_enabled:
            raise ApiError(HTTPStatus.FORBIDDEN, "Topic tracking is disabled.")

    def check_reset(self) -> None:
        """ApiError 403 unless they may be cleared."""
        self.check()
        if not self.allows_reset:
            raise ApiError(HTTPStatus.FORBIDDEN, "Topic tracking reset is disabled.")


def _tracking_of(request: Request) -> TopicTrackingPolicy:
    found: TopicTrackingPolicy = request.app.state.tracking
    return found


TopicTrackingParam = Annotated[TopicTrackingPolicy, Depends(_tracking_of)]
