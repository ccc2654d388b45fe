# SPDX-License-Identifier: Apache-2.0
"""Records of a small topic in portions that a broker takes."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sparkmirror.kafka.topic_log import KeyValue, split_into_batches

RECORDS = st.lists(st.tuples(st.none() | st.binary(max_size=9), st.none() | st.binary(max_size=9)))


@given(RECORDS, st.integers(1, 30))
def test_every_record_is_in_one_portion_in_order(records: list[KeyValue], most: int) -> None:
    """None is empty, and none is larger than it may be unless it holds a single record."""
    portions = list(split_into_batches(records, most))
    assert [record for portion in portions for record in portion] == records
    for portion in portions:
        size = sum(len(part or b"") for record in portion for part in record)
        assert len(portion) == 1 or (portion and size <= most)


@pytest.mark.parametrize(("count", "portions"), [(0, 0), (1, 1), (2, 1), (3, 2)])
def test_portions_are_as_large_as_they_may_be(count: int, portions: int) -> None:
    """So that what belongs together is written together."""
    assert len(list(split_into_batches([(b"12345", None)] * count, 10))) == portions
