# SPDX-License-Identifier: Apache-2.0
"""Names of error codes, compared with kafka-python's."""

from __future__ import annotations

import pytest
from kafka.errors import for_code

from sparkmirror.wire import error_codes
from sparkmirror.wire.error_names import error_name, is_retriable_for_clients

LAST_OF_KAFKA_PYTHON = 127
RENAMED = {6: "NOT_LEADER_OR_FOLLOWER", 10: "MESSAGE_TOO_LARGE"}  # since kafka-python took them


@pytest.mark.parametrize("code", range(-1, LAST_OF_KAFKA_PYTHON + 1))
def test_names_and_flags_are_those_of_kafka_python(code: int) -> None:
    theirs = for_code(code)
    assert error_name(code).name == RENAMED.get(code, theirs.message)
    assert is_retriable_for_clients(code) == bool(theirs.retriable)
    assert error_name(code).description.endswith(".")


def test_a_code_of_a_newer_broker_has_a_name_all_the_same() -> None:
    assert error_name(9999).name == error_codes.name(9999) == "UNKNOWN"
    assert not is_retriable_for_clients(9999)
