# SPDX-License-Identifier: Apache-2.0
"""Remote topics whose source topic was deleted: which of them may follow, as a pure plan.

A mistake here deletes a company's records, so every doubt speaks against it: the source must say
that it does not know the topic (one that we may no longer see looks the same in a list), the
remote topic must be the one that we wrote to, and something else must still be mirrored (a source
without any topic is more likely another cluster, or an empty one in its place).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from sparkmirror.errors import BrokerError
    from sparkmirror.kafka.descriptions import TopicDescription

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
    """What to delete, and what stays."""

    actions: tuple[DeleteTopic, ...] = ()
    kept: tuple[KeptTopic, ...] = ()


def deleted_topics(answers: Mapping[str, BrokerError]) -> list[str]:
    """Those that the source does not know, out of its answers about topics by name."""
    return sorted(name for name, error in answers.items() if error.code == UNKNOWN_TOPIC)


def plan_deletions(
    deleted: Mapping[str, str],
    written: Mapping[str, str | None],
    target: Mapping[str, TopicDescription],
    mirrored: Collection[str],
) -> DeletionPlan:
    """`deleted` is source topic -> remote topic, `written` has the ids of what we wrote to.

    `mirrored` are the source topics that are still there.
    """
    actions: list[DeleteTopic] = []
    kept: list[KeptTopic] = []
    for source, remote in sorted(deleted.items()):
        there = target.get(remote)
        if there is None:
            continue
        ours = written.get(source)
        if not mirrored:
            reason = "no topic at all is left there to mirror, so it may be another cluster"
            kept.append(KeptTopic(source, remote, reason))
        elif ours is None or there.topic_id is None:
            reason = "it is not known which topic of that name was written"
            kept.append(KeptTopic(source, remote, reason))
        elif str(there.topic_id) != ours:
            kept.append(KeptTopic(source, remote, "it is not the topic that was written"))
        else:
            actions.append(DeleteTopic(source, remote, ours))
    return DeletionPlan(tuple(actions), tuple(kept))
