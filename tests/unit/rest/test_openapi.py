# SPDX-License-Identifier: Apache-2.0
"""The OpenAPI document is true: whatever it allows is answered as it says, and never with a bug.

Requests are generated from the document, right and wrong ones. Connect answers some wrong ones
with 500; any other 500 is ours.
"""

from __future__ import annotations

import re

import schemathesis
from hypothesis import HealthCheck, given, settings
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    response_headers_conformance,
    response_schema_conformance,
    status_code_conformance,
)

from sparkmirror.rest.app import create_app
from support.peers.memory_worker import MemoryWorker

CONFIG = {
    "connector.class": "MirrorHeartbeatConnector",
    "source.cluster.alias": "a",
    "target.cluster.alias": "b",
    "target.cluster.bootstrap.servers": "kafka:9092",
    "name": "beat",
}
CHECKS = [
    content_type_conformance,
    response_headers_conformance,
    response_schema_conformance,
    status_code_conformance,
]
# Where Connect itself answers 500: a body of another shape, offsets that MM2 does not accept, a
# validation without a class.
AS_CONNECT = re.compile(
    r"The request's body is not JSON: |In the request .* must be |The request has no config|"
    r"The request's offsets\[\d+\] is null|Unrecognized field |initial_state is one of |"
    r"Source (partition|offset)|Offsets may only contain |Connector config \{.*contains no |"
    r"Failed to find any class ",
    re.DOTALL,
)

worker = MemoryWorker()
worker.create("beat", CONFIG, None)
worker.use_topic("beat", "heartbeats")
schema = schemathesis.openapi.from_asgi("/openapi.json", create_app(worker))


def ask(case: schemathesis.Case) -> None:
    """Send one generated request and hold the answer against the document."""
    answer = case.call()
    case.validate_response(answer, checks=CHECKS)
    if answer.status_code >= 500:
        message = answer.json()["message"]
        assert AS_CONNECT.match(message), message


def test_generated_requests_are_answered_as_documented(is_thorough: bool) -> None:
    """Right and wrong ones for every operation, generated here: collecting tests stays quick."""
    for found in schema.get_all_operations():
        operation = found.ok()

        @settings(
            max_examples=200 if is_thorough else 5,
            derandomize=not is_thorough,
            deadline=None,
            suppress_health_check=list(HealthCheck),
        )
        @given(case=operation.as_strategy())
        def check(case: schemathesis.Case) -> None:
            ask(case)

        check()


def test_a_bug_would_be_seen() -> None:
    """A 500 of ours is not among those that Connect has."""
    assert AS_CONNECT.match("KeyError; see the worker's log.") is None
