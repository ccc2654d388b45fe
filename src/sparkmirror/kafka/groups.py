# SPDX-License-Identifier: Apache-2.0
"""List consumer groups, and read and commit their offsets.

Clusters have thousands of groups, so each call takes few requests. Each group has its own result:
one failure does not affect the others. State and type come from ListGroups, because DescribeGroups
reports live KIP-848 groups as dead.

A `GroupAdmin` belongs to one thread.
"""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, TypeVar

from sparkmirror.errors import BrokerError, UnsupportedVersionError
from sparkmirror.kafka.cluster_client import PAUSE_SECONDS, AdminClient, partition_results
from sparkmirror.kafka.coordinator_client import COORDINATOR_CODES
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

T = TypeVar("T")
Coordinators = Mapping[int, Sequence[str]]
OffsetsByGroup = Mapping[str, Mapping[TopicPartition, CommittedOffset]]

_CONSUMER_TYPES = frozenset({"classic", "consumer"})
_CONSUMER_PROTOCOLS = frozenset({"consumer", ""})  # "": has offsets, but never had a member
_GROUP_ID_NOT_FOUND = 69
_COORDINATOR_SECONDS = 10.0  # until a coordinator is available; the offsets topic may be new
# No such topic, metadata too long, not authorized, too large: not errors of the whole group.
_PARTITION_CODES = frozenset({3, 12, 28, 29})
# 20 bytes per partition: a response stays small even if each group has thousands of partitions,
# and larger requests are not faster.
_GROUPS_A_FETCH = 100
_GROUPS_A_LOOKUP = 1000
# A commit has one group, and a broker serves one request per connection at a time. With
# group.coordinator.append.linger.ms=5, 2,000 commits take 13 s on one connection, 1.8 s on eight.
_GROUPS_A_LANE = 100
_LANES = 8


class GroupAdmin(AdminClient):
    """Consumer group requests to one cluster."""

    def groups(self) -> dict[str, GroupListing]:
        """Return all visible consumer groups, including those with offsets only."""
        return {
            group.id: group
            for group in self._listed()
            if group.type in _CONSUMER_TYPES and group.protocol_type in _CONSUMER_PROTOCOLS
        }

    def listings(self, groups: Sequence[str]) -> PartialResults[str, GroupListing]:
        """Return the existing ones of the named groups, of any type."""
        wanted = frozenset(groups)
        return PartialResults(
            {group.id: group for group in self._listed() if group.id in wanted}, {}
        )

    def committed_offsets(
        self, groups: Sequence[str]
    ) -> PartialResults[str, dict[TopicPartition, CommittedOffset]]:
        """Return all committed offsets of the named groups; empty if a group does not exist.

        The broker omits topics that the principal may not describe.
        """
        return self._retry_with_coordinators("reading offsets", groups, self._fetch)

    def commit_offsets(self, offsets: OffsetsByGroup) -> dict[str, BrokerError | None]:
        """Commit offsets of groups as a non-member; returns None for each that succeeded.

        The error is UNKNOWN_MEMBER_ID (25) if the group has members, of either protocol. An error
        with a topic is about that topic; commits of other topics may have succeeded.
        """
        wanted = [group for group, commits in offsets.items() if commits]
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
            if code not in COORDINATOR_CODES or time.monotonic() > deadline:
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
        """Run a step for groups; repeat it for those whose coordinator is not available yet."""
        found: dict[str, T] = {}
        failed: dict[str, BrokerError] = {}
        left = list(dict.fromkeys(groups))
        deadline = time.monotonic() + _COORDINATOR_SECONDS
        while left:
            some = self._client.retry(doing, partial(self._round, doing, left, step))
            found |= some.found
            failed |= some.failed
            left = [g for g, error in some.failed.items() if error.code in COORDINATOR_CODES]
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
                partitions = partition_results(answer.topics)
                codes = [answer.error_code, *(one.error_code for _tp, one in partitions)]
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
        partitions = partition_results(answer.topics)
        refused = [(one.error_code, tp.topic) for tp, one in partitions if one.error_code]
        if not refused:
            return None
        # An error of the group takes precedence over an error of a partition.
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


def _offsets(answer: Any) -> dict[TopicPartition, CommittedOffset]:
    return {
        tp: CommittedOffset(one.committed_offset, one.metadata or "", one.committed_leader_epoch)
        for tp, one in partition_results(answer.topics)
        if one.committed_offset >= 0
    }
