# SPDX-License-Identifier: Apache-2.0
"""Which remote topics are deleted after their source topic; every doubt keeps them."""

from dataclasses import replace
from uuid import UUID

import pytest

from sparkmirror.errors import BrokerError
from sparkmirror.formats.source_offsets import StoredPosition
from sparkmirror.kafka.descriptions import TopicDescription
from sparkmirror.model import TopicPartition
from sparkmirror.topology.topic_deletions import (
    CopiedTopic,
    DeleteTopic,
    DeletionPlan,
    MirroredTopic,
    RemoteTopics,
    copied_topics,
    deleted_topics,
    plan_deletions,
)

OURS, OTHER = UUID(int=1), UUID(int=2)
COPIED = {"t": CopiedTopic("old", str(OURS), {0: 100}), "u": CopiedTopic("u-id", "x", {})}
MIRRORED = {"u": MirroredTopic("a.u", "u-id")}


def failure(code: int) -> BrokerError:
    return BrokerError(f"code {code}", cluster="a", code=code, retriable=False)


def remote(topic_id: UUID | None = OURS, *ends: int) -> RemoteTopics:
    found = {"a.t": TopicDescription("a.t", topic_id, len(ends) or 1, 1)}
    return RemoteTopics(
        found, {}, {TopicPartition("a.t", n): end for n, end in enumerate(ends or (100,))}
    )


def plan(
    copied: dict[str, CopiedTopic] = COPIED,
    mirrored: dict[str, MirroredTopic] = MIRRORED,
    target: RemoteTopics | None = None,
    markers: int = 0,
) -> DeletionPlan:
    """Plan for a.t after t was deleted."""
    return plan_deletions({"t": "a.t"}, copied, mirrored, target or remote(), markers=markers)


def test_what_we_wrote_is_deleted() -> None:
    """The remote topic has the id of the stored positions."""
    assert plan() == DeletionPlan((DeleteTopic("t", "a.t", str(OURS)),))


@pytest.mark.parametrize(
    ("given", "reason"),
    [
        ({"target": remote(OTHER)}, "not the topic that was written"),
        ({"target": remote(None)}, "is unknown"),
        ({"copied": {**COPIED, "t": replace(COPIED["t"], target_id=None)}}, "is unknown"),
        ({"mirrored": {}}, "another cluster"),
        ({"mirrored": {"u": MirroredTopic("a.u", "new")}}, "another cluster"),
        ({"mirrored": {"heartbeats": MirroredTopic("a.heartbeats", "h")}}, "another cluster"),
        ({"mirrored": {"u": MirroredTopic("a.u", None)}}, "another cluster"),
        ({"mirrored": {**MIRRORED, "T": MirroredTopic("a.t", "T-id")}}, "'T' is also copied to it"),
        ({"target": RemoteTopics({}, {"a.t": failure(29)}, {})}, "cannot describe it"),
        ({"target": replace(remote(), ends={})}, "did not return its end offsets"),
        ({"target": remote(OURS, 101)}, "another producer"),
        ({"target": remote(OURS, 100, 1)}, "another producer"),
        ({"target": remote(OURS, 102), "markers": 1}, "another producer"),
    ],
)
def test_every_doubt_keeps_a_topic(given: dict[str, object], reason: str) -> None:
    """Another topic, another cluster, another source, another producer, no response."""
    found = plan(**given)  # type: ignore[arg-type]
    assert found.actions == ()
    assert reason in str(found.kept[0])


def test_the_marker_of_our_last_transaction_is_recognised() -> None:
    """It follows the last record."""
    assert plan(target=remote(OURS, 101), markers=1).actions


def test_a_topic_that_is_gone_on_both_sides_is_to_be_forgotten() -> None:
    """Only if the target reports it as unknown."""
    assert plan(target=RemoteTopics({}, {"a.t": failure(3)}, {})) == DeletionPlan(gone=("t",))


def test_a_topic_that_may_not_be_seen_is_not_a_deleted_one() -> None:
    """A list of topics cannot tell them apart; a request by name can."""
    assert deleted_topics({"gone": failure(3), "hidden": failure(29)}) == ["gone"]


def test_what_was_copied_is_known_by_the_positions() -> None:
    """Ids, and the end of each partition on the target; Java's positions have neither."""
    positions = {
        TopicPartition("t", 0): StoredPosition(9, 41, source_topic="s", target_topic="r"),
        TopicPartition("t", 1): StoredPosition(9, None, source_topic="s", target_topic="r"),
        TopicPartition("java", 0): StoredPosition(9),
    }
    assert copied_topics(positions) == {
        "t": CopiedTopic("s", "r", {0: 42}),
        "java": CopiedTopic(None, None, {}),
    }
