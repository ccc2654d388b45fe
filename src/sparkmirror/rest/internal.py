# SPDX-License-Identifier: Apache-2.0
"""Requests of workers to their leader: signed, and not part of the documented API."""

from __future__ import annotations

from http import HTTPStatus

from fastapi import APIRouter, Request
from fastapi.responses import Response
from starlette.datastructures import Headers

from sparkmirror.connect.api import ConnectApi, SignedBody
from sparkmirror.rest.dispatch import ConnectorParam, DispatcherParam, empty_response
from sparkmirror.rest.request_bodies import parse_string_maps

router = APIRouter(include_in_schema=False)


@router.post("/connectors/{connector}/tasks")
async def put_task_configs(
    request: Request, dispatcher: DispatcherParam, connector: ConnectorParam
) -> Response:
    """Publish the tasks of a connector; sent by the worker that runs it."""
    return await dispatcher.run_with_raw_body(
        request, _put_task_configs, connector, request.headers
    )


def _put_task_configs(api: ConnectApi, body: bytes, connector: str, headers: Headers) -> Response:
    api.put_tasks(connector, _signed(body, headers), parse_string_maps)
    return empty_response(HTTPStatus.NO_CONTENT)


@router.put("/connectors/{connector}/fence")
async def fence_zombies(
    request: Request, dispatcher: DispatcherParam, connector: ConnectorParam
) -> Response:
    """Fence the earlier writers of a connector."""
    return await dispatcher.run_with_raw_body(request, _fence_zombies, connector, request.headers)


def _fence_zombies(api: ConnectApi, body: bytes, connector: str, headers: Headers) -> Response:
    api.fence(connector, _signed(body, headers))
    return empty_response(HTTPStatus.NO_CONTENT)


def _signed(body: bytes, headers: Headers) -> SignedBody:
    return SignedBody(
        body,
        headers.get("x-connect-authorization"),
        headers.get("x-connect-request-signature-algorithm"),
    )
