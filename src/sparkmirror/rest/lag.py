# SPDX-License-Identifier: Apache-2.0
"""`/connectors/{connector}/lag`: what a source connector still has to copy; not in Connect."""

from __future__ import annotations

from fastapi import APIRouter
from fastapi.responses import Response

from sparkmirror.rest import entities
from sparkmirror.rest.dispatch import FORWARDED, BooleanParam, ConnectorParam, RestCallParam
from sparkmirror.rest.openapi import error_responses

router = APIRouter(prefix="/connectors", tags=["lag"])


@router.get(
    "/{connector}/lag",
    response_model=entities.ConnectorLag,
    responses=error_responses(404, 409),
    dependencies=FORWARDED,
)
async def get_lag(
    call: RestCallParam,
    connector: ConnectorParam,
    partitions: BooleanParam = None,  # noqa: ARG001 - `query_flag` reads it
) -> Response:
    """Get the lag and the latencies of a source connector, with `partitions` of each partition."""
    with_partitions = call.query_flag("partitions")
    return await call.json(
        lambda api: entities.lag_json(api.lag(connector), with_partitions=with_partitions)
    )
