# SPDX-License-Identifier: Apache-2.0
"""Consumer groups of a cluster: which there are, how far they have come, and offsets set for them.

Clusters have thousands of groups, so each question takes few requests. Answers are read group by
group: one that fails does not hide the others. State and type come from ListGroups:
DescribeGroups calls the groups of KIP-848 dead while they are alive.

A `GroupAdmin` belongs to one thread.
"""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, TypeVar

from sparkmirror.errors import BrokerError, UnsupportedVersionError
from sparkmirror.kafka.cluster_client import PAUSE_SECONDS, Closable, ClusterClient
from sparkmirror.kafka.descriptions import CommittedOffset, GroupListing, PartialResults
from sparkmirror.kafka.group_requests import (
    find_coordinator_request,
    find_coordinators_request,
    list_groups_request,
    offset_commit_request,
    offset_fetch_many_request,
    offset_fetch_request,
)
from sparkmirror.kafka.topic_requests import chunks
from sparkmirror.model import TopicPartition
from sparkmirror.wire.settings import ConnectionSettings

__all__ = ["CommittedOffset", "GroupAdmin", "GroupListing"]

T = TypeVar("T")
Coordinators = Mapping[int, Sequence[str]]
OffsetsByGroup = Mapping[str, Mapping[TopicPartition, CommittedOffset]]

_CONSUMER_TYPES = frozenset({"classic", "consumer"})
_CONSUMER_PROTOCOLS = frozenset({"consumer", ""})  # "": offsets were committed, nobody ever joined
_GROUP_ID_NOT_FOUND = 69
# Loading, not available, not the coordinator: it moves, or the offsets topic is being created.
_COORDINATOR_CODES = frozenset({14, 15, 16})
_COORDINATOR_SECONDS = 10.0
# No such topic, metadata too long, no right, too large: these say nothing about the whole group.
_PARTITION_CODES = frozenset({3, 12, 28, 29})
# 20 bytes a partition: an answer stays small even if each group reads thousands of partitions
# and larger requests are not faster.
_GROUPS_A_FETCH = 100
_GROUPS_A_LOOKUP = 1000
# A commit is about one group, and a broker works on one request of a connection at a time. One
# with group.coordinator.append.linger.ms=5 takes 13 s for 2,000 over one, 1.8 s over eight.
_GROUPS_A_LANE = 100
_LANES = 8


class GroupAdmin(Closable):
    """Connects at the first call; a lost connection is opened anew."""

    def __init__(self, connection: ConnectionSettings, client: ClusterClient | None = None) -> None:
        self._client = client or ClusterClient(connection)

    @property
    def alias(self) -> str:
        """The cluster's alias."""
        return self._client.connection.alias

    def close(self) -> None:
        """Closes the connections; a later call would open them again."""
        self._client.close()

    def groups(self) -> dict[str, GroupListing]:
        """All consumer groups that we may see, those included that only hold offsets."""
        return {
            group.id: group
            for group in self._listed()
            if group.type in _CONSUMER_TYPES and group.protocol_type in _CONSUMER_PROTOCOLS
        }

    def listings(self, groups: Sequence[str]) -> PartialResults[str, GroupListing]:
        """The named groups, of whatever kind, as they are now; those that do not exist are not."""
        wanted = frozenset(groups)
        return PartialResults(
            {group.id: group for group in self._listed() if group.id in wanted}, {}
        )

    def committed_offsets(
        self, groups: Sequence[str]
    ) -> PartialResults[str, dict[TopicPartition, CommittedOffset]]:
        """All offsets that the named groups have committed; none if a group does not exist.

        The broker leaves out topics that we may not describe.
        """
        return self._retry_with_coordinators("reading offsets", groups, self._fetch)

    def commit_offsets(self, offsets: OffsetsByGroup) -> dict[str, BrokerError | None]:
        """Sets offsets of groups from outside; None for each group that took all of its own.

        Else a group's error: UNKNOWN_MEMBER_ID (25) if it has members, of either protocol. An error
        that names a topic is about that topic, and what the group has in others may be taken.
        """
        wanted = [group for group, own in offsets.items() if own]
        refused = self._retry_with_coordinators(
            "committing offsets", wanted, partial(self._commit, offsets)
        ).failed
        return {group: refused.get(group) for group in offsets}

    def _listed(self) -> list[GroupListing]:
        deadline = time.monotonic() + _COORDINATOR_SECONDS
        while True:
            answers = self._client.retry("listing groups", self._list)
            code = next((answer.error_code for answer in answers if answer.error_code), 0)
            if not code:
                return [_group(one) for answer in answers for one in answer.groups]
            if code not in _COORDINATOR_CODES or time.monotonic() > deadline:
                raise self._client.broker_error("listing groups", code, None)
            self._client.pause(PAUSE_SECONDS)

    def _list(self) -> list[Any]:
        brokers = self._client.metadata([]).brokers
        requests = {broker.node_id: list_groups_request() for broker in brokers}
        return list(self._client.send_to_each(requests).values())

    def _retry_with_coordinators(
        self,
        doing: str,
        groups: Sequence[str],
        step: Callable[[Coordinators], PartialResults[str, T]],
    ) -> PartialResults[str, T]:
        """Does a step for groups, again for those whose coordinators are not ready yet."""
        found: dict[str, T] = {}
        failed: dict[str, BrokerError] = {}
        left = list(dict.fromkeys(groups))
        deadline = time.monotonic() + _COORDINATOR_SECONDS
        while left:
            some = self._client.retry(doing, partial(self._round, doing, left, step))
            found |= some.found
            failed |= some.failed
            left = [g for g, error in some.failed.items() if error.code in _COORDINATOR_CODES]
            if time.monotonic() > deadline:
                break
            if left:
                self._client.pause(PAUSE_SECONDS)
        return PartialResults(found, {g: error for g, error in failed.items() if g not in found})

    def _round(
        self,
        doing: str,
        groups: Sequence[str],
        step: Callable[[Coordinators], PartialResults[str, T]],
    ) -> PartialResults[str, T]:
        coordinators: dict[int, list[str]] = defaultdict(list)
        failed: dict[str, BrokerError] = {}
        for group, answer in self._find_coordinators(groups):
            if answer.error_code:
                failed[group] = self._error(doing, group, answer.error_code)
            else:
                coordinators[answer.node_id].append(group)
        done = step(coordinators)
        return PartialResults(done.found, failed | done.failed)

    def _find_coordinators(self, groups: Sequence[str]) -> list[tuple[str, Any]]:
        try:
            answers = self._client.send_all(
                [find_coordinators_request(some) for some in chunks(groups, _GROUPS_A_LOOKUP)]
            )
        except UnsupportedVersionError:
            singly = self._client.send_all([find_coordinator_request(group) for group in groups])
            return list(zip(groups, singly, strict=True))
        return [(one.key, one) for answer in answers for one in answer.coordinators]

    def _fetch(
        self, coordinators: Coordinators
    ) -> PartialResults[str, dict[TopicPartition, CommittedOffset]]:
        found: dict[str, dict[TopicPartition, CommittedOffset]] = {}
        failed: dict[str, BrokerError] = {}
        for node_id, groups in coordinators.items():
            for group, answer in self._fetch_from(node_id, groups):
                codes = [answer.error_code, *(p.error_code for _, p in _partitions(answer))]
                code = next(filter(None, codes), 0)
                if code in (0, _GROUP_ID_NOT_FOUND):
                    found[group] = _offsets(answer)
                else:
                    failed[group] = self._error("reading offsets", group, code)
        return PartialResults(found, failed)

    def _fetch_from(self, node_id: int, groups: Sequence[str]) -> list[tuple[str, Any]]:
        try:
            answers = self._client.send_all(
                [offset_fetch_many_request(some) for some in chunks(groups, _GROUPS_A_FETCH)],
                node_id,
            )
        except UnsupportedVersionError:
            singly = self._client.send_all(
                [offset_fetch_request(group) for group in groups], node_id
            )
            return list(zip(groups, singly, strict=True))
        return [(one.group_id, one) for answer in answers for one in answer.groups]

    def _commit(
        self, offsets: OffsetsByGroup, coordinators: Coordinators
    ) -> PartialResults[str, None]:
        results: dict[str, BrokerError | None] = {}
        lanes = _LANES if sum(map(len, coordinators.values())) > _GROUPS_A_LANE else 1
        for node_id, groups in coordinators.items():
            requests = [offset_commit_request(group, offsets[group]) for group in groups]
            answers = self._client.send_all(requests, node_id, lanes=lanes)
            for group, answer in zip(groups, answers, strict=True):
                results[group] = self._refusal(group, answer)
        return PartialResults(
            {group: None for group, error in results.items() if error is None},
            {group: error for group, error in results.items() if error is not None},
        )

    def _refusal(self, group: str, answer: Any) -> BrokerError | None:
        refused = [(p.error_code, topic) for topic, p in _partitions(answer) if p.error_code]
        if not refused:
            return None
        # What is wrong with the group matters more than what is wrong with one partition.
        code, topic = min(refused, key=lambda one: one[0] in _PARTITION_CODES)
        about = topic if code in _PARTITION_CODES else None
        return self._error("committing offsets", group, code, about)

    def _error(self, doing: str, group: str, code: int, topic: str | None = None) -> BrokerError:
        return self._client.broker_error(f"{doing} of group '{group}'", code, topic)


def _group(listed: Any) -> GroupListing:
    return GroupListing(
        listed.group_id,
        listed.group_state or "",
        listed.group_type or "classic",
        listed.protocol_type,
    )


def _partitions(answer: Any) -> list[tuple[str, Any]]:
    return [(topic.name, one) for topic in answer.topics for one in topic.partitions]


def _offsets(answer: Any) -> dict[TopicPartition, CommittedOffset]:
    return {
        TopicPartition(topic, one.partition_index): CommittedOffset(
            one.committed_offset, one.metadata or "", one.committed_leader_epoch
        )
        for topic, one in _partitions(answer)
        if one.committed_offset >= 0
    }
