# SPDX-License-Identifier: Apache-2.0
"""Remote topics whose source topic was deleted: which of them may follow, as a pure plan.

A mistake here deletes a company's last copy, so every doubt speaks against it. The source must say
that it does not know the topic (one that we may no longer see looks the same in a list), and must
be the cluster that was copied: some other topic must still be the one that it was, by its id. The
remote topic must be the one that we wrote to, and hold nothing behind what we wrote.
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
    """Delete a remote topic because its source topic is gone."""

    source: str
    remote: str
    topic_id: str  # of the remote topic: another one of that name is not ours


@dataclass(frozen=True, slots=True)
class KeptTopic:
    """A remote topic that stays although its source topic is gone, and why."""

    source: str
    remote: str
    reason: str

    def __str__(self) -> str:
        return (
            f"'{self.source}' was deleted on the source, and '{self.remote}' stays: {self.reason}."
        )


@dataclass(frozen=True, slots=True)
class DeletionPlan:
    """What to delete, what stays, and what is gone on both sides already."""

    actions: tuple[DeleteTopic, ...] = ()
    kept: tuple[KeptTopic, ...] = ()
    gone: tuple[str, ...] = ()  # source topics


@dataclass(frozen=True, slots=True)
class MirroredTopic:
    """A source topic that is there and selected."""

    remote: str
    topic_id: str | None


@dataclass(frozen=True, slots=True)
class CopiedTopic:
    """What stored positions say about a source topic."""

    source_id: str | None
    target_id: str | None
    ends: Mapping[int, int]  # partition -> the target offset behind what we wrote


@dataclass(frozen=True, slots=True)
class RemoteTopics:
    """The target's answers about remote topics."""

    found: Mapping[str, TopicDescription]
    failed: Mapping[str, BrokerError]
    ends: Mapping[TopicPartition, int]


def copied_topics(positions: Mapping[TopicPartition, StoredPosition]) -> dict[str, CopiedTopic]:
    """What was copied, by source topic."""
    ends: dict[str, dict[int, int]] = {}
    ids: dict[str, tuple[str | None, str | None]] = {}
    for tp, position in positions.items():
        ids[tp.topic] = position.source_topic, position.target_topic
        ends.setdefault(tp.topic, {})
        if position.downstream is not None:
            ends[tp.topic][tp.partition] = position.downstream + 1
    return {topic: CopiedTopic(*ids[topic], ends[topic]) for topic in ids}


def deleted_topics(answers: Mapping[str, BrokerError]) -> list[str]:
    """Those that the source does not know, out of its answers about topics by name."""
    return sorted(name for name, error in answers.items() if error.code == UNKNOWN_TOPIC)


def plan_deletions(
    deleted: Mapping[str, str],
    copied: Mapping[str, CopiedTopic],
    mirrored: Mapping[str, MirroredTopic],
    target: RemoteTopics,
    *,
    markers: int,
) -> DeletionPlan:
    """`deleted` is source topic -> remote topic; `markers` may lie behind what we wrote."""
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
            reason = "no topic on the source is one that was copied, so it may be another cluster"
        elif remote in others:
            reason = f"it is also where '{others[remote]}' is copied to"
        elif remote not in target.found:
            reason = f"the target does not tell about it ({target.failed.get(remote)})"
        else:
            reason = _reason_to_keep(target.found[remote], copied[source], target.ends, markers)
        if reason:
            kept.append(KeptTopic(source, remote, reason))
        else:
            topic_id = str(target.found[remote].topic_id)
            actions.append(DeleteTopic(source, remote, topic_id))
    return DeletionPlan(tuple(actions), tuple(kept), tuple(gone))


def _reason_to_keep(
    there: TopicDescription,
    copied: CopiedTopic,
    ends: Mapping[TopicPartition, int],
    markers: int,
) -> str:
    """Why a remote topic may not be ours alone; empty: it is."""
    if copied.target_id is None or there.topic_id is None:
        return "it is not known which topic of that name was written"
    if str(there.topic_id) != copied.target_id:
        return "it is not the topic that was written"
    known = {tp.partition: end for tp, end in ends.items() if tp.topic == there.name}
    if len(known) != there.partitions:
        return "the target does not tell where it ends"
    if any(
        end > copied.ends[partition] + markers if partition in copied.ends else end > 0
        for partition, end in known.items()
    ):
        return "somebody else has written to it"
    return ""
