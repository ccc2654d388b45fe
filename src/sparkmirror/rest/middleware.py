# SPDX-License-Identifier: Apache-2.0
"""ASGI middleware: CSRF, CORS, authentication, paths, HEAD, headers of every response.

A connector's name may contain a slash: `/connectors/a%2Fb/status`. uvicorn passes an unescaped
path, so the path is rebuilt from the raw one, with slashes and percent signs of names still
escaped. `unescape_segment` returns the name.
"""

from __future__ import annotations

from collections.abc import Sequence
from urllib.parse import unquote

from starlette.datastructures import Headers, MutableHeaders
from starlette.responses import JSONResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from sparkmirror.rest.basic_auth import BasicAuth, is_internal_request
from sparkmirror.rest.cors import CorsPolicy
from sparkmirror.rest.csrf import AllowedHosts, rejection_reason
from sparkmirror.rest.errors import close_if_body_unread, error_response
from sparkmirror.rest.response_headers import HeaderRule
from sparkmirror.rest.signed_body_limits import SignedBodyReader


class RequestMiddleware:
    """Wraps the application; `signed_bodies` reads bodies of signed requests without a password."""

    def __init__(
        self,
        app: ASGIApp,
        cross_origin: CorsPolicy | None,
        rules: Sequence[HeaderRule],
        allowed_hosts: AllowedHosts,
        auth: BasicAuth | None = None,
        signed_bodies: SignedBodyReader | None = None,
    ) -> None:
        self._app = app
        self._cross_origin = cross_origin
        self._rules = rules
        self._allowed_hosts = allowed_hosts
        self._auth = auth
        self._signed_bodies = signed_bodies

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        has_no_body = scope["method"] == "HEAD"
        inner = dict(scope, method="GET") if has_no_body else dict(scope)
        send = self._with_headers(scope, send, has_no_body=has_no_body)
        headers = Headers(scope=scope)
        rejection = self._reject_unsafe(scope, headers)
        if rejection is not None:
            await close_if_body_unread(rejection, headers)(scope, receive, send)
            return
        if self._cross_origin is not None and self._cross_origin.is_preflight(
            scope["method"], headers
        ):
            # Browsers send preflights without credentials.
            await send({"type": "http.response.start", "status": 200, "headers": []})
            await send({"type": "http.response.body", "body": b""})
            return
        path = _path(scope)
        client = (scope.get("client") or ("unknown",))[0]
        if self._auth is not None:
            refused = self._auth.challenge(scope["method"], path, headers, client)
            if refused is not None:
                await refused(scope, receive, send)
                return
        if path is None:
            await error_response(400, "Bad UTF-8 in the path of the request")(scope, receive, send)
            return
        inner["path"] = path
        if self._signed_bodies is not None and is_internal_request(scope["method"], path, headers):
            read = await self._signed_bodies.read(receive, client)
            if read is None:
                answer = error_response(503, "The body of the request did not arrive in time")
                answer.headers["Connection"] = "close"
                await answer(scope, receive, send)
                return
            receive = read
        await self._app(inner, receive, send)

    def _reject_unsafe(self, scope: Scope, headers: Headers) -> JSONResponse | None:
        """Return the error response to an unsafe request; None if it is safe."""
        reason = rejection_reason(scope, headers, self._allowed_hosts, self._cross_origin)
        if reason is not None:
            return error_response(403, reason)
        if "transfer-encoding" in headers and "content-length" in headers:
            # Request smuggling: a proxy may have used the other length.
            return error_response(400, "The request has both Transfer-Encoding and Content-Length")
        return None

    def _with_headers(self, scope: Scope, send: Send, *, has_no_body: bool) -> Send:
        async def sending(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                if self._cross_origin is not None:
                    self._cross_origin.add_headers(headers, scope["method"], Headers(scope=scope))
                for rule in self._rules:
                    rule.apply_to(headers)
            elif has_no_body:
                message = {**message, "body": b""}
            await send(message)

        return sending


def _path(scope: Scope) -> str | None:
    try:
        return normalized_path(scope)
    except UnicodeDecodeError:
        return None


def normalized_path(scope: Scope) -> str:
    """Return the path with slashes and percent signs of segments escaped, without a final slash."""
    raw = scope.get("raw_path") or scope["path"].encode()
    path = "/".join(_escaped(segment) for segment in raw.partition(b"?")[0].split(b"/"))
    return path.rstrip("/") or "/"


def _escaped(segment: bytes) -> str:
    text = unquote(segment.decode("latin-1"), encoding="utf-8", errors="strict")
    return text.replace("%", "%25").replace("/", "%2F")


def unescape_segment(segment: str) -> str:
    """Return the name in a path segment of `normalized_path`."""
    return segment.replace("%2F", "/").replace("%25", "%")
