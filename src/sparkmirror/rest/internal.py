# SPDX-License-Identifier: Apache-2.0
"""What workers ask of their leader; signed, and not part of the documented API."""

from __future__ import annotations

from http import HTTPStatus

from fastapi import APIRouter, Request
from fastapi.responses import Response

from sparkmirror.connect.api import ConnectApi, SignedBody
from sparkmirror.rest.dispatch import empty_response
from sparkmirror.rest.parameters import ConnectorParam, DispatcherParam
from sparkmirror.rest.request_bodies import parse_string_maps

router = APIRouter(include_in_schema=False)


@router.post("/connectors/{connector}/tasks")
async def put_task_configs(
    request: Request, dispatcher: DispatcherParam, connector: ConnectorParam
) -> Response:
    """A connector's tasks, from the worker that runs it."""
    body = await dispatcher.read_body(request)

    def call(api: ConnectApi) -> Response:
        api.put_tasks(connector, _signed(request, body), parse_string_maps)
        return empty_response(HTTPStatus.NO_CONTENT)

    return await dispatcher.dispatch(request, call, body)


@router.put("/connectors/{connector}/fence")
async def fence_zombies(
    request: Request, dispatcher: DispatcherParam, connector: ConnectorParam
) -> Response:
    """Fence the earlier writers of a connector."""
    body = await dispatcher.read_body(request)

    def call(api: ConnectApi) -> Response:
        api.fence(connector, _signed(request, body))
        return empty_response(HTTPStatus.NO_CONTENT)

    return await dispatcher.dispatch(request, call, body)


def _signed(request: Request, body: bytes) -> SignedBody:
    return SignedBody(
        body,
        request.headers.get("x-connect-authorization"),
        request.headers.get("x-connect-request-signature-algorithm"),
    )
