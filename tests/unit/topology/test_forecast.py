# SPDX-License-Identifier: Apache-2.0
"""The amount to copy, and its formatting."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sparkmirror.model import TopicPartition
from sparkmirror.topology.forecast import (
    MAX_TOPICS,
    Forecast,
    PartitionBacklog,
    TopicForecast,
    parse_rate,
    summarize_backlogs,
)


def backlog(
    topic: str = "t", *, first: int = 0, end: int = 100, position: int = 0, size: int | None = 1000
) -> PartitionBacklog:
    """A partition of a hundred records in a thousand bytes."""
    return PartitionBacklog(TopicPartition(topic, 0), first, end, position, size)


@pytest.mark.parametrize(
    ("one", "records", "size"),
    [
        (backlog(), 100, 1000),
        (backlog(position=75), 25, 250),
        (backlog(position=100), 0, 0),
        (backlog(position=120), 0, 0),  # cut off on the source
        (backlog(first=50, position=10), 50, 1000),  # retention was quicker
        (backlog(first=100), 0, 0),
        (backlog(size=None), 100, None),
        (backlog(position=100, size=None), 0, 0),
    ],
)
def test_only_what_is_there_and_not_copied_counts(
    one: PartitionBacklog, records: int, size: int | None
) -> None:
    """Bytes are proportional to the offsets."""
    assert (one.records, one.bytes) == (records, size)


def test_the_biggest_topics_are_named_and_all_are_counted() -> None:
    """Topics with nothing to copy are not listed."""
    some = [backlog(f"t{n:02}", size=100 * n) for n in range(1, 15)]
    found = summarize_backlogs([*some, backlog("done", position=100)])
    assert (found.records, found.bytes) == (1400, 100 * sum(range(1, 15)))
    assert [one.topic for one in found.biggest] == [f"t{n:02}" for n in range(14, 4, -1)]
    assert len(found.biggest) == MAX_TOPICS


def test_an_unknown_size_makes_the_sum_unknown() -> None:
    found = summarize_backlogs([backlog("a"), backlog("b", size=None)])
    biggest = (TopicForecast("a", 100, 1000), TopicForecast("b", 100, None))
    assert found == Forecast(200, None, biggest)


@given(st.lists(st.tuples(st.integers(0, 50), st.integers(0, 50), st.integers(0, 120))))
def test_a_forecast_is_never_negative_nor_more_than_there_is(
    places: list[tuple[int, int, int]],
) -> None:
    some = [
        PartitionBacklog(TopicPartition("t", n), first, first + held, position, 1000)
        for n, (first, held, position) in enumerate(places)
    ]
    found = summarize_backlogs(some)
    assert 0 <= found.records <= sum(held for _, held, _ in places)
    assert found.bytes is not None
    assert 0 <= found.bytes <= 1000 * len(some)


@pytest.mark.parametrize(
    ("text", "rate"),
    [
        ("50MB/s", 50e6),
        ("50 MB/s", 50e6),
        ("1.5GB", 1.5e9),
        ("200MiB/s", 200 * 2**20),
        ("400Mbit/s", 50e6),
        ("80kbps", 80e3),
        ("9000B/s", 9000),
    ],
)
def test_rates_are_understood(text: str, rate: float) -> None:
    """Bytes or bits, in thousands or in 1024s."""
    assert parse_rate(text) == rate


@pytest.mark.parametrize("text", ["", "fast", "50", "-5MB/s", "0MB/s", "5iB/s", "5MB/h", "1bit/s"])
def test_other_rates_are_refused(text: str) -> None:
    """The error has an example or the reason."""
    with pytest.raises(ValueError, match="rate"):
        parse_rate(text)
