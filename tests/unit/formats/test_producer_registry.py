# SPDX-License-Identifier: Apache-2.0
"""Records of the producer registry: golden bytes, and what is rejected."""

from __future__ import annotations

from dataclasses import replace

import pytest

from sparkmirror.errors import WireError
from sparkmirror.formats.producer_registry import RegisteredFlow, RegisteredProducer

PRODUCER = RegisteredProducer(7, "id-b", "A->B", "id-a")
FLOW = RegisteredFlow("A->B", "id-a", "id-b", ("orders.*",), ("orders-x",), True, 5, 6)


def test_a_producer_decodes_to_what_was_encoded() -> None:
    assert PRODUCER.key() == b'{"producer":7,"cluster":"id-b"}'
    assert PRODUCER.value() == b'{"flow":"A->B","source":"id-a"}'
    assert RegisteredProducer.from_record(PRODUCER.key(), PRODUCER.value()) == PRODUCER
    named = RegisteredProducer(8, "id-b", "A->B", "id-a", "group-0")
    assert RegisteredProducer.from_record(named.key(), named.value()) == named


def test_a_flow_decodes_to_what_was_encoded() -> None:
    assert FLOW.key() == b'{"flow":"A->B","source":"id-a","target":"id-b"}'
    assert FLOW.value() == (
        b'{"topics":["orders.*"],"topicsExclude":["orders-x"],"java":true,"since":5,"seen":6}'
    )
    assert RegisteredFlow.from_record(FLOW.key(), FLOW.value()) == FLOW
    of_worker = replace(FLOW, connector="orders")
    assert of_worker.key() != FLOW.key()
    assert RegisteredFlow.from_record(of_worker.key(), of_worker.value()) == of_worker


def test_each_kind_ignores_the_other() -> None:
    assert RegisteredProducer.from_record(FLOW.key(), FLOW.value()) is None
    assert RegisteredFlow.from_record(PRODUCER.key(), PRODUCER.value()) is None


@pytest.mark.parametrize(
    ("key", "value"),
    [
        (b'{"producer":true,"cluster":"c"}', b'{"flow":"f","source":"s"}'),
        (b'{"producer":1}', b'{"flow":"f","source":"s"}'),
        (b'{"producer":1,"cluster":"c"}', b'{"source":"s"}'),
        (b'{"flow":"f","target":"t"}', b'{"topics":[],"topicsExclude":[]}'),
        (b'{"flow":"f","source":"s","target":"t"}', b'{"topics":[1],"topicsExclude":[]}'),
        (b'{"flow":"f","source":"s","target":"t"}', b"[]"),
        (b"not json", b"{}"),
    ],
)
def test_malformed_records_are_rejected(key: bytes, value: bytes) -> None:
    with pytest.raises(WireError):
        RegisteredProducer.from_record(key, value) or RegisteredFlow.from_record(key, value)
