# SPDX-License-Identifier: Apache-2.0
"""Whether a worker's file lets anybody ask which topics a connector writes to."""

from __future__ import annotations

from dataclasses import dataclass
from http import HTTPStatus
from typing import Annotated

from fastapi import Depends, Request

from sparkmirror.connect.api import ApiError


@dataclass(frozen=True, slots=True)
class Tracking:
    """`topic.tracking.enable` and `topic.tracking.allow.reset`."""

    is_enabled: bool = True
    allows_reset: bool = True

    def check(self) -> None:
        """ApiError unless topics may be asked for."""
        if not self.is_enabled:
            raise ApiError(HTTPStatus.FORBIDDEN, "Topic tracking is disabled.")

    def check_reset(self) -> None:
        """ApiError unless they may be forgotten."""
        self.check()
        if not self.allows_reset:
            raise ApiError(HTTPStatus.FORBIDDEN, "Topic tracking reset is disabled.")


def _tracking_of(request: Request) -> Tracking:
    found: Tracking = request.app.state.tracking
    return found


TopicTracking = Annotated[Tracking, Depends(_tracking_of)]
