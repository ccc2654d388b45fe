# SPDX-License-Identifier: Apache-2.0
"""CORS headers for the origins that the worker's file allows.

The rules are those of Connect's server: an origin is exact, `*`, or contains a `*`. Responses to
other origins have no CORS headers.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Self

from starlette.datastructures import Headers, MutableHeaders

_METHODS = "GET,POST,HEAD"
_HEADERS = "X-Requested-With,Content-Type,Accept,Origin"
_SECONDS = "1800"
_MAX_ORIGIN_LENGTH = 1024  # matching several * takes quadratic time


@dataclass(frozen=True, slots=True)
class CorsPolicy:
    """Allowed origins and methods."""

    origins: tuple[re.Pattern[str], ...]
    methods: tuple[str, ...]

    @classmethod
    def parse(cls, origins: str, methods: str) -> Self | None:
        """Parse the two keys of a worker's file; None if no origin is allowed."""
        listed = _items(origins)
        if not listed:
            return None
        patterns = (re.escape(one).replace(r"\*", ".*") for one in listed)
        return cls(
            tuple(re.compile(pattern, re.IGNORECASE) for pattern in patterns),
            tuple(one.upper() for one in _items(methods) or _items(_METHODS)),
        )

    def is_preflight(self, method: str, asked: Headers) -> bool:
        return (
            method == "OPTIONS"
            and self.allows(asked.get("origin"))
            and "access-control-request-method" in asked
        )

    def add_headers(self, headers: MutableHeaders, method: str, asked: Headers) -> None:
        """Add CORS headers to a response if its origin is allowed."""
        origin = asked.get("origin")
        headers.add_vary_header("Origin")
        if origin is None or not self.allows(origin):
            return
        is_preflight = self.is_preflight(method, asked)
        if is_preflight and asked["access-control-request-method"].upper() not in self.methods:
            return
        headers["Access-Control-Allow-Origin"] = origin
        headers["Access-Control-Allow-Credentials"] = "true"
        if is_preflight:
            headers["Access-Control-Allow-Methods"] = ",".join(self.methods)
            headers["Access-Control-Allow-Headers"] = _HEADERS
            headers["Access-Control-Max-Age"] = _SECONDS

    def allows(self, origin: str | None) -> bool:
        if origin is None or len(origin) > _MAX_ORIGIN_LENGTH:
            return False
        return any(one.fullmatch(origin) for one in self.origins)


def _items(text: str) -> list[str]:
    return [item for item in (one.strip() for one in text.split(",")) if item]
