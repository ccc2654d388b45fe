# SPDX-License-Identifier: Apache-2.0
"""How far a worker's startup is."""

from __future__ import annotations

import threading
from dataclasses import dataclass, field
from http import HTTPStatus

from sparkmirror.connect.api import ApiError


@dataclass(slots=True)
class Startup:
    """Written by the worker, read by any thread."""

    stage: str = "starting"
    cluster_id: str = ""
    is_started: bool = False
    failure: BaseException | None = None  # why it cannot go on
    stopping: threading.Event = field(default_factory=threading.Event)

    def require(self) -> None:
        """ApiError 503 before the worker has started."""
        if not self.is_started:
            raise ApiError(
                HTTPStatus.SERVICE_UNAVAILABLE, f"This worker is still starting: {self.stage}"
            )
