# SPDX-License-Identifier: Apache-2.0
"""Parameters of paths and queries, as Connect's server understands them.

A truth value is true if it says so in any case of letters, and false otherwise: nothing is wrong
enough to be refused. A task whose number is none is not found.
"""

from __future__ import annotations

import re
from typing import Annotated

from fastapi import Depends, Path, Query, Request
from pydantic import AfterValidator, WithJsonSchema

from sparkmirror.connect.api import ApiError
from sparkmirror.rest.dispatch import Dispatcher, get_dispatcher, media_type
from sparkmirror.rest.middleware import unescape_segment

_LARGEST_INT = (1 << 31) - 1
_REFUSED = re.compile(r";\s*q=0(\.0*)?\s*(;|$)")
_TASK = re.compile(r"[+-]?[0-9]{1,10}")

DispatcherParam = Annotated[Dispatcher, Depends(get_dispatcher)]
ConnectorParam = Annotated[
    str,
    AfterValidator(unescape_segment),
    Path(description="The connector's name.", examples=["beat"]),
]
NameParam = Annotated[str, AfterValidator(unescape_segment), Path()]
TaskIdParam = Annotated[
    str,
    WithJsonSchema({"type": "integer", "minimum": 0, "maximum": _LARGEST_INT}),
    Path(description="The task's number.", examples=[0]),
]
BooleanParam = Annotated[str | None, WithJsonSchema({"type": "boolean"}), Query()]
ForwardParam = Annotated[
    str | None,
    WithJsonSchema({"type": "boolean"}),
    Query(description="Set by workers: whether the request may be passed on once more."),
]


def require_json(request: Request) -> None:
    """Refuse whoever sends something else, body or no body, or can read no JSON."""
    sent = request.headers.get("content-type")
    if sent is not None and media_type(sent) != "application/json":
        raise ApiError(415, "HTTP 415 Unsupported Media Type")
    told = request.headers.get("accept")
    if told is None:
        return
    kinds = {media_type(one) for one in told.split(",") if _REFUSED.search(one) is None}
    if not kinds & {"*/*", "application/*", "application/json"}:
        raise ApiError(406, "HTTP 406 Not Acceptable")


def query_flag(request: Request, name: str, *, default: bool = False) -> bool:
    """A truth value of the query; of several the first."""
    found = request.query_params.getlist(name)
    return found[0].lower() == "true" if found else default


def parse_task_id(text: str) -> int:
    """A task's number."""
    if _TASK.fullmatch(text) is None or abs(int(text)) > _LARGEST_INT:
        raise ApiError(404, "HTTP 404 Not Found")
    return int(text)
