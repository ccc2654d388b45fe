# SPDX-License-Identifier: Apache-2.0
"""Plans which remote topics to delete after their source topic was deleted. Pure.

A mistake here deletes the last copy, so every doubt keeps the topic. The source must report the
topic as unknown by name (a topic without DESCRIBE looks the same in a list). It must be the cluster
that was copied: some other topic must still have its stored id. The remote topic must be the one
that was written, with no records after the written ones.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

    from sparkmirror.errors import BrokerError
    from sparkmirror.formats.source_offsets import StoredPosition
    from sparkmirror.kafka.descriptions import TopicDescription
    from sparkmirror.model import TopicPartition

UNKNOWN_TOPIC = 3


@dataclass(frozen=True, slots=True)
class DeleteTopic:
    """Delete a remote topic because its source topic was deleted."""

    source: str
    remote: str
    topic_id: str  # of the remote topic: another topic with that name is not ours


@dataclass(frozen=True, slots=True)
class KeptTopic:
    """A remote topic that is kept although its source topic was deleted, with the reason."""

    source: str
    remote: str
    reason: str

    def __str__(self) -> str:
        return f"'{self.source}' was deleted on the source; '{self.remote}' is kept: {self.reason}."


@dataclass(frozen=True, slots=True)
class DeletionPlan:
    """What to delete, what is kept, and what is deleted on both clusters already."""

    actions: tuple[DeleteTopic, ...] = ()
    kept: tuple[KeptTopic, ...] = ()
    gone: tuple[str, ...] = ()  # source topics


@dataclass(frozen=True, slots=True)
class MirroredTopic:
    """A source topic that exists and is selected."""

    remote: str
    topic_id: str | None


@dataclass(frozen=True, slots=True)
class CopiedTopic:
    """The stored positions of a source topic."""

    source_id: str | None
    target_id: str | None
    ends: Mapping[int, int]  # partition -> one past the target offset of our last record


@dataclass(frozen=True, slots=True)
class RemoteTopics:
    """The target's responses about remote topics."""

    found: Mapping[str, TopicDescription]
    failed: Mapping[str, BrokerError]
    ends: Mapping[TopicPartition, int]


def copied_topics(positions: Mapping[TopicPartition, StoredPosition]) -> dict[str, CopiedTopic]:
    """Group stored positions by source topic."""
    ends: dict[str, dict[int, int]] = {}
    ids: dict[str, tuple[str | None, str | None]] = {}
    for tp, position in positions.items():
        ids[tp.topic] = position.source_topic, position.target_topic
        ends.setdefault(tp.topic, {})
        if position.downstream is not None:
            ends[tp.topic][tp.partition] = position.downstream + 1
    return {topic: CopiedTopic(*ids[topic], ends[topic]) for topic in ids}


def deleted_topics(errors: Mapping[str, BrokerError]) -> list[str]:
    """Return the topics that the source reports as unknown, by name."""
    return sorted(name for name, error in errors.items() if error.code == UNKNOWN_TOPIC)


def plan_deletions(
    deleted: Mapping[str, str],
    copied: Mapping[str, CopiedTopic],
    mirrored: Mapping[str, MirroredTopic],
    target: RemoteTopics,
    *,
    markers: int,
) -> DeletionPlan:
    """`deleted` is source topic -> remote topic; `markers` may follow our last record."""
    actions: list[DeleteTopic] = []
    kept: list[KeptTopic] = []
    gone: list[str] = []
    others = {one.remote: name for name, one in mirrored.items()}
    is_same_cluster = any(
        one.topic_id is not None and name in copied and copied[name].source_id == one.topic_id
        for name, one in mirrored.items()
    )
    for source, remote in sorted(deleted.items()):
        if remote in target.failed and target.failed[remote].code == UNKNOWN_TOPIC:
            gone.append(source)
            continue
        reason = ""
        if not is_same_cluster:
            reason = "no topic on the source has its stored id, so it may be another cluster"
        elif remote in others:
            reason = f"'{others[remote]}' is also copied to it"
        elif remote not in target.found:
            reason = f"the target cannot describe it ({target.failed.get(remote)})"
        else:
            reason = _reason_to_keep(target.found[remote], copied[source], target.ends, markers)
        if reason:
            kept.append(KeptTopic(source, remote, reason))
        else:
            topic_id = str(target.found[remote].topic_id)
            actions.append(DeleteTopic(source, remote, topic_id))
    return DeletionPlan(tuple(actions), tuple(kept), tuple(gone))


def _reason_to_keep(
    remote: TopicDescription,
    copied: CopiedTopic,
    ends: Mapping[TopicPartition, int],
    markers: int,
) -> str:
    """Return why a remote topic may not be ours alone; empty if it is."""
    if copied.target_id is None or remote.topic_id is None:
        return "the id of the written topic is unknown"
    if str(remote.topic_id) != copied.target_id:
        return "it is not the topic that was written"
    known = {tp.partition: end for tp, end in ends.items() if tp.topic == remote.name}
    if len(known) != remote.partitions:
        return "the target did not return its end offsets"
    if any(
        end > copied.ends[partition] + markers if partition in copied.ends else end > 0
        for partition, end in known.items()
    ):
        return "another producer has written to it"
    return ""
