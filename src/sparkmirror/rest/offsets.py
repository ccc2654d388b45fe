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
from sparkmirror.connectors.offset_reset_plan import pending_reset_json, planned_reset_json
from sparkmirror.rest import entities
from sparkmirror.rest.dispatch import FORWARDED, ConnectorParam, RestCallParam
from sparkmirror.rest.openapi import body_schema, error_responses
from sparkmirror.rest.request_bodies import parse_offset_entries, parse_offset_reset

router = APIRouter(prefix="/connectors", tags=["offsets and topics"])


@router.get(
    "/{connector}/offsets",
    response_model=entities.ConnectorOffsets,
    responses=error_responses(404),
)
async def get_offsets(call: RestCallParam, connector: ConnectorParam) -> Response:
    """Get the stored offsets of a connector."""
    return await call.json(lambda api: {"offsets": api.offsets(connector)})


@router.patch(
    "/{connector}/offsets",
    response_model=entities.Message,
    responses=error_responses(400, 404, 409, 413, 415),
    openapi_extra=body_schema(entities.ConnectorOffsets),
    dependencies=FORWARDED,
)
async def alter_offsets(call: RestCallParam, connector: ConnectorParam) -> Response:
    """Alter offsets of a stopped connector."""

    def alter(api: ConnectApi, body: bytes) -> Response:
        entries = parse_offset_entries(body)
        if not entries:
            raise ApiError(HTTPStatus.BAD_REQUEST, NOTHING_TO_ALTER)
        return JSONResponse({"message": api.alter_offsets(connector, entries)})

    return await call.with_body(alter)


@router.delete(
    "/{connector}/offsets",
    response_model=entities.Message,
    responses=error_responses(400, 404, 409),
    dependencies=FORWARDED,
)
async def reset_offsets(call: RestCallParam, connector: ConnectorParam) -> Response:
    """Delete all offsets of a stopped connector."""
    return await call.json(lambda api: {"message": api.reset_offsets(connector)})


@router.post(
    "/{connector}/offsets/reset",
    response_model=entities.PlannedResets,
    responses=error_responses(400, 404, 413, 415),
    openapi_extra=body_schema(entities.OffsetReset),
)
async def reset_topic_offsets(call: RestCallParam, connector: ConnectorParam) -> Response:
    """Store an offset reset, which the connector carries out at its next start; or plan one."""

    def reset(api: ConnectApi, body: bytes) -> Response:
        wish, dry_run = parse_offset_reset(body)
        act = api.plan_offset_reset if dry_run else api.request_offset_reset
        return JSONResponse({"partitions": [planned_reset_json(p) for p in act(connector, wish)]})

    return await call.with_body(reset)


@router.get(
    "/{connector}/offsets/reset",
    response_model=entities.PendingResets,
    responses=error_responses(400, 404),
)
async def get_pending_resets(call: RestCallParam, connector: ConnectorParam) -> Response:
    """Get the offset resets that are not carried out yet, and refused ones."""
    return await call.json(
        lambda api: {
            "resets": [
                pending_reset_json(tp, one)
                for tp, one in sorted(api.pending_offset_resets(connector).items())
            ]
        }
    )


@router.get(
    "/{connector}/topics",
    response_model=dict[str, entities.ActiveTopics],
    responses=error_responses(403),
)
async def get_topics(
    call: RestCallParam, tracking: TopicTrackingParam, connector: ConnectorParam
) -> Response:
    """Get the topics that a connector has written to; none for an unknown connector."""
    tracking.check()
    return await call.json(lambda api: {connector: {"topics": api.topics(connector)}})


@router.put(
    "/{connector}/topics/reset",
    status_code=202,
    response_class=Response,
    responses=error_responses(403),
)
async def reset_topics(
    call: RestCallParam, tracking: TopicTrackingParam, connector: ConnectorParam
) -> Response:
    """Clear the topics that a connector has written to."""
    tracking.check_reset()
    return await call.empty(HTTPStatus.ACCEPTED, lambda api: api.reset_topics(connector))


@dataclass(frozen=True, slots=True)
class TopicTrackingPolicy:
    """`topic.tracking.enable` and `topic.tracking.allow.reset`."""

    is_enabled: bool = True
    allows_reset: bool = True

    def check(self) -> None:
        """Raise ApiError 403 unless topics are tracked."""
        if not self.is_enabled:
            raise ApiError(HTTPStatus.FORBIDDEN, "Topic tracking is disabled.")

    def check_reset(self) -> None:
        """Raise ApiError 403 unless tracked topics may be cleared."""
        self.check()
        if not self.allows_reset:
            raise ApiError(HTTPStatus.FORBIDDEN, "Topic tracking reset is disabled.")


def _tracking_of(request: Request) -> TopicTrackingPolicy:
    found: TopicTrackingPolicy = request.app.state.tracking
    return found


TopicTrackingParam = Annotated[TopicTrackingPolicy, Depends(_tracking_of)]
