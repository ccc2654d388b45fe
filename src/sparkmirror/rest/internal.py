# SPDX-License-Identifier: Apache-2.0
"""What workers ask of their leader; signed, and not part of the documented API."""

from __future__ import annotations

from http import HTTPStatus

from fastapi import APIRouter, Request
from fastapi.responses import Response

from sparkmirror.connect.api import ConnectApi, SignedBody
from sparkmirror.rest.bodies import read_text_lists
from sparkmirror.rest.desk import nothing
from sparkmirror.rest.parameters import Connector, TheDesk

router = APIRouter(include_in_schema=False)


@router.post("/connectors/{connector}/tasks")
async def put_tasks(request: Request, desk: TheDesk, connector: Connector) -> Response:
    """A connector's tasks, from the worker that runs it."""
    body = await desk.raw_body(request)

    def call(api: ConnectApi) -> Response:
        api.put_tasks(connector, _signed(request, body), read_text_lists)
        return nothing(HTTPStatus.NO_CONTENT)

    return await desk.answer(request, call, body)


@router.put("/connectors/{connector}/fence")
async def fence(request: Request, desk: TheDesk, connector: Connector) -> Response:
    """Fence the earlier writers of a connector."""
    body = await desk.raw_body(request)

    def call(api: ConnectApi) -> Response:
        api.fence(connector, _signed(request, body))
        return nothing(HTTPStatus.NO_CONTENT)

    return await desk.answer(request, call, body)


def _signed(request: Request, body: bytes) -> SignedBody:
    return SignedBody(
        body,
        request.headers.get("x-connect-authorization"),
        request.headers.get("x-connect-request-signature-algorithm"),
    )
