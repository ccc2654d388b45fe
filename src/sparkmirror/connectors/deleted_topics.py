# SPDX-License-Identifier: Apache-2.0
"""Notices source topics that were deleted, tells of them, and deletes their copies if asked to.

A topic counts as ours if a position of it is stored, so one that was deleted while nothing ran is
noticed, too. The time of grace begins when this process noticed: a restart makes it longer, never
shorter.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Mapping
from contextlib import closing

from sparkmirror.config.settings import FlowSettings
from sparkmirror.formats.map_chunk import ChunkKey
from sparkmirror.formats.source_offsets import StoredPosition
from sparkmirror.kafka.admin import ClusterAdmin
from sparkmirror.kafka.cluster_client import ClusterClient
from sparkmirror.model import TopicPartition
from sparkmirror.offsets.map_topic import MapTopic
from sparkmirror.pipeline.status import FlowStatus
from sparkmirror.state.offsets import OffsetStore
from sparkmirror.topology.deletions import deleted_topics, plan_deletions

_log = logging.getLogger(__name__)


class DeletedTopics:
    """The deleted topics of one flow; belongs to one thread."""

    def __init__(
        self,
        settings: FlowSettings,
        status: FlowStatus,
        remote_name: Callable[[str], str],
        map_topic: str,
        on_forgotten: Callable[[str], None],
    ) -> None:
        self._settings = settings
        self._flow = settings.flow
        self._status = status
        self._remote_name = remote_name
        self._map_topic = map_topic
        self._on_forgotten = on_forgotten
        self._grace = settings.source.deletions_grace_seconds  # None: nothing is deleted
        self._store = OffsetStore(
            settings.target_admin,
            settings.internal_topics.offsets,
            connector=settings.source.name,
            source_alias=settings.flow.source,
        )
        self._written: dict[str, str | None] | None = None  # source topic -> remote topic's id
        self._since: dict[str, float] = {}
        self._kept: set[str] = set()

    def round(
        self, mirrored: Mapping[str, str | None], source: ClusterAdmin, target: ClusterAdmin
    ) -> None:
        """Look once; `mirrored` has the ids of the remote topics of what is mirrored now."""
        if self._written is None:
            self._written = written_topics(self._store.read().positions)
        self._written |= mirrored
        for back in [topic for topic in self._since if topic in mirrored]:
            self._settle(back)
        missing = sorted(self._written.keys() - mirrored.keys())
        if not missing:
            return
        answer = source.topics(missing)
        for name in answer.found:  # not selected any more, which is not our business here
            self._settle(name)
            self._written.pop(name)
        deleted = deleted_topics(answer.failed)
        for name in deleted:
            self._notice(name)
        due = [name for name in deleted if self._is_due(name)]
        if due:
            self._delete(due, mirrored, target)

    def _settle(self, topic: str) -> None:
        self._since.pop(topic, None)
        self._kept.discard(topic)
        self._status.note(f"deleted {topic}", "")

    def _notice(self, topic: str) -> None:
        remote = self._remote_name(topic)
        here = f"{self._flow.source}: {topic} was deleted on the source"
        if topic not in self._since:
            self._since[topic] = time.monotonic()
            self._status.did("source deleted")
            what = f"{self._flow.target}: {remote} stays as it is"
            if self._grace is not None:
                what = f"{self._flow.target}: {remote} follows in {_duration(self._grace)}"
            _log.warning(f"{self._flow}: {here}; {what}.")
        if self._grace is not None and topic not in self._kept:
            left = self._since[topic] + self._grace - time.monotonic()
            self._status.note(
                f"deleted {topic}",
                f"{here}; {self._flow.target}: {remote} follows in {_duration(max(left, 0))} "
                "(sync.topic.deletions.enabled)",
            )

    def _is_due(self, topic: str) -> bool:
        return self._grace is not None and time.monotonic() - self._since[topic] >= self._grace

    def _delete(
        self, due: list[str], mirrored: Mapping[str, str | None], target: ClusterAdmin
    ) -> None:
        remotes = {topic: self._remote_name(topic) for topic in due}
        there = target.topics(sorted(remotes.values())).found
        plan = plan_deletions(remotes, self._written or {}, there, mirrored)
        for kept in plan.kept:
            self._status.note(f"deleted {kept.source}", str(kept))
            if kept.source not in self._kept:
                self._kept.add(kept.source)
                _log.warning("%s: %s", self._flow, kept)
        answers = target.delete_topics([there[one.remote] for one in plan.actions])
        for action in plan.actions:
            refusal = answers.get(action.remote)
            if refusal is not None:
                self._status.note(f"deleted {action.source}", str(refusal))
                if action.source not in self._kept:
                    self._kept.add(action.source)
                    _log.warning("%s: %s", self._flow, refusal)
                continue
            _log.warning(
                f"{self._flow}: {self._flow.target}: {action.remote} was deleted, as "
                f"{action.source} was on {self._flow.source} (sync.topic.deletions.enabled)."
            )
            self._status.did("deleted")
            self._forget(action.source)
        settled = {one.source for one in plan.kept} | {one.source for one in plan.actions}
        for topic in due:
            if topic not in settled:  # somebody else has deleted it
                self._forget(topic)

    def _forget(self, topic: str) -> None:
        forget_topic(self._settings, self._store, self._map_topic, topic)
        self._on_forgotten(topic)
        if self._written is not None:
            self._written.pop(topic, None)
        self._settle(topic)


def forget_topic(settings: FlowSettings, store: OffsetStore, map_topic: str, topic: str) -> None:
    """Remove what is stored of a topic that is gone on both sides: one made anew is another."""
    positions = [tp for tp in store.read().positions if tp.topic == topic]
    store.write(dict.fromkeys(positions))
    if not map_topic:
        return
    with ClusterAdmin(settings.target_admin) as admin:
        if map_topic not in admin.topics([map_topic]).found:
            return
    client = ClusterClient(settings.target_admin)
    with closing(client):
        offsets = MapTopic(client, map_topic)
        offsets.refresh()
        offsets.delete(
            [
                ChunkKey(tp, first)
                for tp, known in offsets.maps.items()
                if tp.topic == topic
                for first in known.firsts
            ]
        )


def written_topics(positions: Mapping[TopicPartition, StoredPosition]) -> dict[str, str | None]:
    """The source topics of stored positions, with the ids of the remote topics written to."""
    return {tp.topic: position.target_topic for tp, position in positions.items()}


def _duration(seconds: float) -> str:
    for unit, length in (("days", 86400), ("hours", 3600), ("minutes", 60)):
        if seconds >= 2 * length:
            return f"{seconds / length:.0f} {unit}"
    return f"{seconds:.0f} seconds"
