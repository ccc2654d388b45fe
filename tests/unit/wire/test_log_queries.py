# SPDX-License-Identifier: Apache-2.0
"""Where a leader epoch ended, as the leader says."""

from __future__ import annotations

from typing import Any

import pytest
from kafka.protocol.consumer import OffsetForLeaderEpochRequest, OffsetForLeaderEpochResponse

from sparkmirror.model import TopicPartition
from sparkmirror.wire import error_codes
from sparkmirror.wire.log_queries import request_epoch_end
from sparkmirror.wire.metadata_cache import PartitionLeader
from support.peers.fake_cluster import FakeCluster

A = TopicPartition("t", 3)
KEY = 23


class Asked:
    """A cluster of one leader, asked once; keeps what was said."""

    def __init__(self, **topic_errors: int) -> None:
        self.cluster = FakeCluster({A: 1} if not topic_errors else {})
        self.cluster.topic_errors = topic_errors
        if not topic_errors:
            self.cluster.leaders[A] = PartitionLeader(1, 8)
        self.heard: list[tuple[str, Any]] = []

    def ask(self, epoch: int = 5) -> None:
        """Send the request."""
        request_epoch_end(
            self.cluster,  # type: ignore[arg-type]
            A,
            epoch,
            done=lambda leader_epoch, end: self.heard.append(("done", (leader_epoch, end))),
            failed=lambda code: self.heard.append(("failed", code)),
        )

    def reply(self, *, error: int = 0, epoch: int = -1, end: int = -1) -> None:
        """Answer it."""
        topic = OffsetForLeaderEpochResponse.OffsetForLeaderTopicResult
        (request,) = self.cluster.connection(1).waiting
        request.reply(
            OffsetForLeaderEpochResponse(
                topics=[
                    topic(
                        topic=A.topic,
                        partitions=[
                            topic.EpochEndOffset(
                                error_code=error,
                                partition=A.partition,
                                leader_epoch=epoch,
                                end_offset=end,
                            )
                        ],
                    )
                ]
            )
        )


@pytest.mark.parametrize("end", [(4, 120), (-1, -1)], ids=["known", "older than the log"])
def test_the_leader_shows_where_the_epoch_ended(end: tuple[int, int]) -> None:
    """The request carries the epoch in question and the leader's current one."""
    asked = Asked()
    asked.ask(5)
    (request,) = asked.cluster.connection(1).waiting
    (one,) = request.content.topics[0].partitions
    assert (request.content.replica_id, request.content.topics[0].topic) == (-1, "t")
    assert (one.partition, one.current_leader_epoch, one.leader_epoch) == (3, 8, 5)

    asked.reply(epoch=end[0], end=end[1])

    assert asked.heard == [("done", end)]


def test_an_error_of_the_leader_is_handed_on() -> None:
    """FENCED_LEADER_EPOCH: another broker leads now."""
    asked = Asked()
    asked.ask()
    asked.reply(error=74)

    assert asked.heard == [("failed", 74)]


def test_a_broker_without_the_api_is_distinguished_from_a_lost_one() -> None:
    """The caller continues without the check on one, and asks again on the other."""
    without = Asked()
    without.cluster.connection(1).refused_keys.add(KEY)
    without.ask()
    assert without.heard == [("failed", error_codes.UNSUPPORTED_VERSION)]

    lost = Asked()
    lost.ask()
    lost.cluster.connection(1).lose()
    assert lost.heard == [("failed", error_codes.CONNECTION_LOST)]

    dead = Asked()
    dead.cluster.dead.add(1)
    dead.ask()
    assert dead.heard == [("failed", error_codes.CONNECTION_LOST)]


def test_a_partition_without_a_leader_fails_with_its_error() -> None:
    """Nothing is sent."""
    asked = Asked(t=29)
    asked.ask()

    assert asked.heard == [("failed", 29)]


@pytest.mark.parametrize("version", [0, 1, 2, 3, 4])
def test_the_request_can_be_encoded_for_every_broker(version: int) -> None:
    """The fields that a version lacks are left out."""
    asked = Asked()
    asked.ask(5)
    (request,) = asked.cluster.connection(1).waiting
    raw = request.content.encode(version=version)

    (one,) = OffsetForLeaderEpochRequest.decode(raw, version=version).topics[0].partitions

    assert (one.partition, one.leader_epoch) == (3, 5)
    assert one.current_leader_epoch == (8 if version >= 2 else -1)
