# SPDX-License-Identifier: Apache-2.0
"""Error responses in Connect's shape: `{"error_code": 404, "message": "..."}`."""

from __future__ import annotations

import logging
from http import HTTPStatus

from fastapi import FastAPI, Request
from fastapi.responses import JSONResponse, PlainTextResponse, Response
from starlette.datastructures import Headers
from starlette.exceptions import HTTPException
from starlette.routing import Match

from sparkmirror.connect.api import ApiError
from sparkmirror.errors import SparkmirrorError

log = logging.getLogger(__name__)

_MAX_CHARACTERS = 20_000  # a message may repeat a configuration


def error_response(status: int, message: str) -> JSONResponse:
    if len(message) > _MAX_CHARACTERS:
        message = f"{message[:_MAX_CHARACTERS]}..."
    return JSONResponse({"error_code": int(status), "message": message}, status)


def status_error_response(status: int) -> JSONResponse:
    """Return an error with HTTP's own message, in the format of Connect's server."""
    return error_response(status, f"HTTP {status} {HTTPStatus(status).phrase}")


def close_if_body_unread(answer: JSONResponse, asked: Headers) -> JSONResponse:
    """Close the connection after the response if the request has a body, which is not read."""
    if "transfer-encoding" in asked or asked.get("content-length", "0") != "0":
        answer.headers["Connection"] = "close"
    return answer


def add_error_handlers(app: FastAPI) -> None:
    """Map exceptions of handlers, and requests without a handler, to responses."""
    app.add_exception_handler(ApiError, _api_error)
    app.add_exception_handler(HTTPException, _http_error)
    app.add_exception_handler(SparkmirrorError, _own_error)


async def _api_error(_request: Request, error: Exception) -> JSONResponse:
    assert isinstance(error, ApiError)  # noqa: S101 - by registration
    return error_response(error.status, error.message)


async def _http_error(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)  # noqa: S101 - by registration
    if error.status_code != HTTPStatus.METHOD_NOT_ALLOWED:
        return status_error_response(error.status_code)
    methods = _methods(request)
    answer: Response = status_error_response(error.status_code)
    if request.method == "OPTIONS":
        answer = PlainTextResponse(", ".join(methods))
    answer.headers["Allow"] = ",".join(methods)
    return answer


def _methods(request: Request) -> list[str]:
    """Return all methods of a path; a route has only one."""
    routes = request.app.router.routes
    found = [
        method
        for method in ("GET", "POST", "PUT", "PATCH", "DELETE")
        if any(
            route.matches({**request.scope, "method": method})[0] is Match.FULL for route in routes
        )
    ]
    return [*(["HEAD"] if "GET" in found else []), *found, "OPTIONS"]


async def _own_error(request: Request, error: Exception) -> JSONResponse:
    log.warning(f"{request.method} {request.url.path} got status 500: {error}")
    return error_response(HTTPStatus.INTERNAL_SERVER_ERROR, str(error))
