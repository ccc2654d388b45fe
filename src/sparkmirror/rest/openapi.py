# SPDX-License-Identifier: Apache-2.0
"""Parts of the OpenAPI document that handlers cannot say by their signatures.

Bodies are read by `bodies.py`, not by the framework, which would refuse them in its own words.
"""

from __future__ import annotations

from typing import Any

from pydantic import BaseModel

from sparkmirror.rest.entities import ErrorMessage

_MEANINGS = {
    400: "The request, or the configuration in it, is wrong.",
    403: "Not allowed by the worker's configuration, or not signed by a worker.",
    404: "There is no such thing.",
    405: "Not with this method.",
    409: "There is one already, or the workers are about to agree anew: try again.",
    413: "The body is too large.",
    415: "The body is not JSON by its Content-Type.",
    500: "The body is no JSON, or not of the right shape; or the worker failed.",
    503: "The worker is not ready.",
}
_SCALAR = {"type": ["string", "number", "boolean", "null"]}
_CONFIG = {
    "type": "object",
    "additionalProperties": _SCALAR,
    "examples": [{"connector.class": "MirrorHeartbeatConnector", "tasks.max": 1}],
}


def error_responses(*statuses: int) -> dict[int | str, dict[str, Any]]:
    """The refusals of an operation; any may end in 500."""
    return {
        status: {"model": ErrorMessage, "description": _MEANINGS[status]}
        for status in (*statuses, 500)
    }


def body_schema(model: type[BaseModel]) -> dict[str, Any]:
    """An operation's body, by its model."""
    return _body(model.model_json_schema(ref_template="#/components/schemas/{model}"))


def config_schema() -> dict[str, Any]:
    """A flat configuration as a body."""
    return _body(_CONFIG)


def string_property_schema(name: str, example: str) -> dict[str, Any]:
    """An object with one text as a body."""
    return _body(
        {
            "type": "object",
            "properties": {name: {"type": "string"}},
            "additionalProperties": _SCALAR,
            "required": [name],
            "examples": [{name: example}],
        }
    )


def _body(schema: dict[str, Any]) -> dict[str, Any]:
    return {"requestBody": {"required": True, "content": {"application/json": {"schema": schema}}}}
