# SPDX-License-Identifier: Apache-2.0
"""Parts of the OpenAPI document that the signatures of handlers do not express.

`request_bodies.py` parses bodies instead of the framework, whose error messages differ from
Connect's.
"""

from __future__ import annotations

from typing import Any

from pydantic import BaseModel

from sparkmirror.rest.entities import ErrorMessage

_MEANINGS = {
    400: "The request, or the configuration in it, is wrong.",
    403: "Not allowed by the worker's configuration, or not signed by a worker.",
    404: "It does not exist.",
    405: "The path does not support the method.",
    409: "It exists already, or the workers are rebalancing: try again.",
    413: "The body is too large.",
    415: "The body is not JSON by its Content-Type.",
    500: "The body is not JSON or has the wrong shape, or the worker failed.",
    503: "The worker is not ready.",
}
_SCALAR = {"type": ["string", "number", "boolean", "null"]}
_CONFIG = {
    "type": "object",
    "additionalProperties": _SCALAR,
    "examples": [{"connector.class": "MirrorHeartbeatConnector", "tasks.max": 1}],
}


def error_responses(*statuses: int) -> dict[int | str, dict[str, Any]]:
    """The error responses of an operation; 500 is always possible."""
    return {
        status: {"model": ErrorMessage, "description": _MEANINGS[status]}
        for status in (*statuses, 500)
    }


def body_schema(model: type[BaseModel]) -> dict[str, Any]:
    """The body of an operation, by its model."""
    return _body(model.model_json_schema(ref_template="#/components/schemas/{model}"))


def config_schema() -> dict[str, Any]:
    """A flat configuration as a body."""
    return _body(_CONFIG)


def string_property_schema(name: str, example: str) -> dict[str, Any]:
    """An object with one string as a body."""
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
