# SPDX-License-Identifier: Apache-2.0
"""Positions as records: what a task writes is what the next run reads."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sparkmirror.errors import WireError
from sparkmirror.formats.source_offsets import SourceOffsetKey, StoredPosition
from sparkmirror.kafka.log_records import LogRecord
from sparkmirror.model import TopicPartition
from sparkmirror.state.offset_resets import OffsetReset, parse_resets, reset_owner
from sparkmirror.state.position_records import (
    PositionRecord,
    parse_positions,
    position_record,
)

CONNECTOR = "MirrorSourceConnector"
ORDERS = TopicPartition("orders", 3)


def read(records: list[PositionRecord], partitions: int = 25) -> dict[TopicPartition, object]:
    """The positions of source cluster a."""
    return dict(parse_positions(records, CONNECTOR, "a", partitions))


def write(position: StoredPosition | None, cluster: str = "a") -> PositionRecord:
    """A record for partition 3 of orders."""
    return position_record(CONNECTOR, cluster, ORDERS, position, 25)


@given(
    st.dictionaries(
        st.builds(TopicPartition, st.text("abc.-", min_size=1), st.integers(0, 9)),
        st.builds(StoredPosition, st.integers(0, 2**40), st.none() | st.integers(0, 2**40)),
    ),
    st.integers(1, 50),
)
def test_written_positions_are_read_back(
    positions: dict[TopicPartition, StoredPosition], partitions: int
) -> None:
    """Every position comes back as it was written."""
    records = [
        position_record(CONNECTOR, "a", tp, position, partitions)
        for tp, position in positions.items()
    ]
    assert read(records, partitions) == positions


def test_the_latest_record_of_a_key_counts() -> None:
    """An uncompacted log holds older positions in front of the latest."""
    assert read([write(StoredPosition(1)), write(StoredPosition(9, 90))]) == {
        ORDERS: StoredPosition(9, 90)
    }


def test_a_tombstone_deletes_a_position() -> None:
    """After a deletion the partition has no stored position."""
    assert read([write(StoredPosition(1)), write(None)]) == {}


def test_a_position_after_a_tombstone_counts() -> None:
    """A deletion holds only until the next record."""
    assert read([write(None), write(StoredPosition(2))]) == {ORDERS: StoredPosition(2)}


def test_other_clusters_and_connectors_are_passed_over() -> None:
    """A shared offsets topic holds positions of flows that are none of our business."""
    others = [
        write(StoredPosition(5), cluster="b"),
        position_record("Another", "a", ORDERS, StoredPosition(6), 25),
        PositionRecord(b"not json", b"{}", 0),
        PositionRecord(b'["Another",{"file":"x"}]', b"not even json", 0),
    ]
    assert read([write(StoredPosition(1)), *others]) == {ORDERS: StoredPosition(1)}


def test_the_copy_in_its_own_partition_wins() -> None:
    """After the topic was grown an old copy stays where Java no longer writes."""
    stale = write(StoredPosition(1))._replace(partition=(write(None).partition + 1) % 25)
    assert read([write(StoredPosition(8)), stale]) == {ORDERS: StoredPosition(8)}
    assert read([stale]) == {ORDERS: StoredPosition(1)}


def test_an_unreadable_position_stops_the_flow() -> None:
    """Guessing would lose or repeat records, so the sentence names the partition."""
    broken = write(StoredPosition(1))._replace(value=b"{}")
    with pytest.raises(WireError, match="orders-3 of cluster 'a'"):
        read([broken])


def test_requested_resets_are_beside_the_positions() -> None:
    """Under another key, so that neither a task nor Java's connector takes them for positions."""
    tp = TopicPartition("orders", 3)
    reset = OffsetReset(0, 1_700_000_000_000, recopy=True, error="not empty")
    key = SourceOffsetKey(reset_owner(CONNECTOR), "a", tp).key()
    records = [LogRecord(0, 0, 0, key, reset.value())]
    assert parse_resets(records, CONNECTOR, "a") == {tp: reset}
    assert parse_resets(records, CONNECTOR, "b") == {}
    assert dict(parse_positions(records, CONNECTOR, "a", 1)) == {}
    assert parse_resets([*records, LogRecord(0, 1, 0, key, None)], CONNECTOR, "a") == {}
