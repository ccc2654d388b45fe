# SPDX-License-Identifier: Apache-2.0
"""What metadata answers say about topics, and which of two answers counts."""

from __future__ import annotations

import uuid
from types import SimpleNamespace

import pytest

from sparkmirror.model import TopicPartition
from sparkmirror.wire.metadata_cache import MetadataCache, PartitionLeader
from support.data.metadata_responses import partition, topic

UNKNOWN_TOPIC = 3
OLD, NEW = uuid.UUID(int=1), uuid.UUID(int=2)
TP = TopicPartition("t", 0)


@pytest.fixture
def metadata() -> MetadataCache:
    """Broker 1 leads t-0 in epoch 5."""
    found = MetadataCache()
    assert found.update(topic("t", partition(0, 1, 5), topic_id=OLD))
    return found


def test_an_older_leader_epoch_changes_nothing(metadata: MetadataCache) -> None:
    """A broker that lags behind names the leader of before."""
    assert not metadata.update(topic("t", partition(0, 2, 4), topic_id=OLD))
    assert metadata.leaders[TP] == PartitionLeader(1, 5)


def test_an_older_answer_without_a_leader_changes_nothing(metadata: MetadataCache) -> None:
    """It was true before the leader was elected."""
    assert not metadata.update(topic("t", partition(0, -1, 4), topic_id=OLD))
    assert metadata.leaders[TP] == PartitionLeader(1, 5)


def test_the_newest_epoch_is_remembered_while_there_is_no_leader(metadata: MetadataCache) -> None:
    """A leader of an earlier epoch does not come back."""
    assert metadata.update(topic("t", partition(0, -1, 6), topic_id=OLD))
    assert TP not in metadata.leaders
    assert not metadata.update(topic("t", partition(0, 1, 5), topic_id=OLD))
    assert TP not in metadata.leaders
    assert metadata.update(topic("t", partition(0, 2, 7), topic_id=OLD))
    assert metadata.leaders[TP] == PartitionLeader(2, 7)


def test_a_recreated_topic_begins_with_new_epochs(metadata: MetadataCache) -> None:
    """Its id is another one, so epoch 0 is not stale."""
    assert metadata.update(topic("t", partition(0, 2, 0), topic_id=NEW))
    assert metadata.leaders[TP] == PartitionLeader(2, 0)
    assert metadata.topic_ids == {"t": NEW}
    assert metadata.topic_names == {NEW: "t"}


@pytest.mark.parametrize("no_id", [None, uuid.UUID(int=0)])
def test_without_topic_ids_the_last_answer_counts(no_id: uuid.UUID | None) -> None:
    """It may be about a topic that was recreated."""
    metadata = MetadataCache()
    metadata.update(topic("t", partition(0, 1, 5), topic_id=no_id))
    assert metadata.update(topic("t", partition(0, 2, 0), topic_id=no_id))
    assert metadata.leaders[TP] == PartitionLeader(2, 0)
    assert not metadata.topic_ids


def test_the_same_answer_is_no_news(metadata: MetadataCache) -> None:
    """Also if it is an error."""
    assert not metadata.update(topic("t", partition(0, 1, 5), topic_id=OLD))
    assert metadata.update(topic("t", error=UNKNOWN_TOPIC))
    assert not metadata.update(topic("t", error=UNKNOWN_TOPIC))
    assert metadata.update(topic("t", partition(0, 1, 5), topic_id=OLD))


def test_an_error_takes_away_the_leaders_of_its_topic_only(metadata: MetadataCache) -> None:
    """And the topic counts as answered, but not as found."""
    metadata.update(topic("other", partition(0, 1, 0), topic_id=NEW))
    metadata.update(topic("t", error=UNKNOWN_TOPIC))
    assert set(metadata.leaders) == {TopicPartition("other", 0)}
    assert metadata.has_response("t")
    assert not metadata.is_found("t")


def test_an_error_costs_what_its_topic_has() -> None:
    """Not a look at all leaders, of which there can be 100,000."""

    class Leaders(dict[TopicPartition, PartitionLeader]):
        def __iter__(self) -> SimpleNamespace:
            raise AssertionError("all leaders were looked at")

    metadata = MetadataCache()
    metadata.leaders = Leaders()
    for name in ("t", "other"):
        metadata.update(topic(name, partition(0, 1, 0), topic_id=None))
    metadata.update(topic("t", error=UNKNOWN_TOPIC))
    assert metadata.leaders.get(TP) is None
    assert metadata.leaders.get(TopicPartition("other", 0)) == PartitionLeader(1, 0)
