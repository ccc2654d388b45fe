# SPDX-License-Identifier: Apache-2.0
"""Answers of a real worker of Kafka Connect, and whether ours are the same."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from sparkmirror.config.keys.secret_keys import redact_config
from support.data.rest_script import Response, script

GOLDEN: dict[str, Any] = json.loads(
    (Path(__file__).parents[2] / "contract" / "golden" / "rest.json").read_text("utf-8")
)["answers"]
NAMES = [step.name for step in script()]

# Where ours is another status, each with the reason.
OTHER_STATUS = {
    "slash in name": (404, "names may hold slashes; Java's server takes none in a path"),
    "dots": (404, "a name as any other"),
    "no name in path": (404, "no connector has an empty name"),
    "post trailing text": (500, "a body with something behind it was not meant like that"),
    "tasks of nothing": (403, "Java reads what is signed before it checks the signature"),
}
# Where the sentence cannot be Java's: it names Java's classes and fields.
JAVA_WORDS = ("Cannot invoke ", "Cannot deserialize ", "Cannot construct ", "Unrecognized field ")
JAVA_WORDS += ("Unexpected end-of-input ", "Non-standard token ", "org.apache.kafka.connect.")
# Where the answer tells of the worker, of keys that are ours, in the order of a map, or in HTML.
OWN_BODIES = {"root", "plugin keys", "validate", "validate wrong", "options"}
OWN_BODIES |= {"post no class", "post two values", "no characters"}


def check_response(name: str, ours: Response) -> None:
    """Status, body and the header that says where something new is."""
    java = GOLDEN[name]
    expected_status = OTHER_STATUS.get(name, (java["status"], ""))[0]
    assert (ours.status, ours.headers.get("Location")) == (
        expected_status,
        java["headers"].get("Location"),
    ), ours.body
    if ours.status >= 400:
        assert ours.headers["Content-Type"] == "application/json"
        assert sorted(ours.body) == ["error_code", "message"]
        assert ours.body["error_code"] == ours.status
    if name not in OWN_BODIES and name not in OTHER_STATUS and not _is_javas_own(java["body"]):
        assert ours.body == _hidden(_as_json(java["body"]))


def _is_javas_own(body: Any) -> bool:
    """Whether an answer speaks of Java."""
    return isinstance(body, dict) and str(body.get("message", "")).startswith(JAVA_WORDS)


def _as_json(body: Any) -> Any:
    """Java's server itself sends JSON without saying so."""
    return json.loads(body) if isinstance(body, str) and body.startswith("{") else body


def _hidden(body: Any) -> Any:
    """An answer of Java's with the passwords that we do not show."""
    if isinstance(body, list):
        return [_hidden(one) for one in body]
    if not isinstance(body, dict):
        return body
    is_config = all(isinstance(one, str) for one in body.values())
    return redact_config(body) if is_config else {key: _hidden(one) for key, one in body.items()}
