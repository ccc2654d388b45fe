# SPDX-License-Identifier: Apache-2.0
"""Every refusal in Connect's one shape: `{"error_code": 404, "message": "..."}`."""

from __future__ import annotations

import logging
from http import HTTPStatus

from fastapi import FastAPI, Request
from fastapi.responses import JSONResponse
from starlette.exceptions import HTTPException

from sparkmirror.connect.api import ApiError
from sparkmirror.errors import SparkmirrorError

log = logging.getLogger(__name__)


def refusal(status: int, message: str) -> JSONResponse:
    """A refusal as an answer."""
    return JSONResponse({"error_code": int(status), "message": message}, status)


def plain_refusal(status: int) -> JSONResponse:
    """A refusal that HTTP itself explains, in the words of Connect's server."""
    return refusal(status, f"HTTP {status} {HTTPStatus(status).phrase}")


def add_error_handlers(app: FastAPI) -> None:
    """Whatever a handler raises, and whatever no handler takes."""
    app.add_exception_handler(ApiError, _api_error)
    app.add_exception_handler(HTTPException, _http_error)
    app.add_exception_handler(SparkmirrorError, _own_error)


async def _api_error(_request: Request, error: Exception) -> JSONResponse:
    assert isinstance(error, ApiError)  # noqa: S101 - by registration
    return refusal(error.status, error.message)


async def _http_error(_request: Request, error: Exception) -> JSONResponse:
    assert isinstance(error, HTTPException)  # noqa: S101 - by registration
    answer = plain_refusal(error.status_code)
    answer.headers.update(error.headers or {})
    return answer


async def _own_error(request: Request, error: Exception) -> JSONResponse:
    log.warning(f"{request.method} {request.url.path}: {error}")
    return refusal(HTTPStatus.INTERNAL_SERVER_ERROR, str(error))
