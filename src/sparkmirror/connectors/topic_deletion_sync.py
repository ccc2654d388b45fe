# SPDX-License-Identifier: Apache-2.0
"""Notices source topics that were deleted, tells of them, and deletes their copies if asked to.

A topic counts as ours if a position of it is stored, so one that was deleted while nothing ran is
noticed, too. The time of grace begins when this process noticed: a restart makes it longer, never
shorter, and so does a doubt about the topic.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Collection, Iterable, Mapping
from contextlib import closing
from datetime import UTC, datetime, timedelta

from sparkmirror.config.settings import FlowSettings
from sparkmirror.formats.map_chunk import ChunkKey
from sparkmirror.formats.source_offsets import StoredPosition
from sparkmirror.kafka.admin import ClusterAdmin
from sparkmirror.kafka.cluster_client import ClusterClient
from sparkmirror.model import TopicPartition
from sparkmirror.offsets.map_topic import MapTopic
from sparkmirror.spark.flow_status import FlowStatus
from sparkmirror.state.offset_store import OffsetStore
from sparkmirror.topology.topic_deletions import (
    DeletionPlan,
    KeptTopic,
    MirroredTopic,
    RemoteTopics,
    copied_topics,
    deleted_topics,
    plan_deletions,
)
from sparkmirror.topology.topics import TopicRules

_NAMED = 5
_log = logging.getLogger(__name__)


class TopicDeletionSync:
    """The deleted topics of one flow; belongs to one thread."""

    def __init__(
        self,
        settings: FlowSettings,
        rules: TopicRules,
        status: FlowStatus,
        map_topic: str,
        on_forgotten: Callable[[str], None],
    ) -> None:
        self._settings = settings
        self._flow = settings.flow
        self._rules = rules
        self._status = status
        self._map_topic = map_topic
        self._on_forgotten = on_forgotten
        self._grace = settings.source.deletions_grace_seconds  # None: nothing is deleted
        self._store = OffsetStore(
            settings.state_cluster,
            settings.internal_topics.offsets,
            connector=settings.source.name,
            source_alias=settings.flow.source,
        )
        self._names: set[str] | None = None  # source topics that are, or were, copied
        self._since: dict[str, float] = {}
        self._kept: dict[str, str] = {}

    def sync(
        self, mirrored: Mapping[str, MirroredTopic], source: ClusterAdmin, target: ClusterAdmin
    ) -> None:
        """Look once; `mirrored` is what is there and selected now."""
        is_first = self._names is None
        if self._names is None:
            stored = {tp.topic for tp in self._store.read().positions}
            self._names = {topic for topic in stored if self._rules.replicates(topic)}
        self._names |= mirrored.keys()
        for back in [topic for topic in self._since if topic in mirrored]:
            self._clear(back)
        missing = sorted(self._names - mirrored.keys())
        deleted = deleted_topics(source.topics(missing).failed) if missing else []
        self._report_deleted(
            [name for name in deleted if name not in self._since], is_news=not is_first
        )
        if self._grace is None:
            return
        now = time.monotonic()
        due = [name for name in deleted if now - self._since[name] >= self._grace]
        for name in deleted:
            if name not in due and name not in self._kept:
                self._note_pending(name, self._since[name] + self._grace - now)
        if due:
            self._delete(due, mirrored, target)

    # --- telling

    def _report_deleted(self, names: Collection[str], *, is_news: bool) -> None:
        """Of those that were gone before this process looked, one line is enough."""
        if not names:
            return
        for name in names:
            self._since[name] = time.monotonic()
        follows = "stays as it is"
        if self._grace is not None:
            follows = f"follows in {_duration(self._grace)}"
        if not is_news:
            listed = ", ".join(sorted(names)[:_NAMED])
            more = f" and {len(names) - _NAMED} more" if len(names) > _NAMED else ""
            _log.info(
                f"{self._flow}: of earlier topics {len(names)} were deleted on "
                f"'{self._flow.source}' ({listed}{more}); what there is of them on "
                f"'{self._flow.target}' {follows}."
            )
            return
        self._status.count_change("source deleted", len(names))
        for name in names:
            _log.warning(
                f"{self._flow}: {self._flow.source}: {name} was deleted on the source; "
                f"{self._flow.target}: {self._rules.remote_name(name)} {follows}."
            )

    def _note_pending(self, name: str, seconds: float) -> None:
        """A time rather than what is left of it: the same sentence until then."""
        at = datetime.now(UTC) + timedelta(seconds=seconds)
        self._status.set_problem(
            f"deleted {name}",
            f"{self._flow.source}: {name} was deleted on the source; {self._flow.target}: "
            f"{self._rules.remote_name(name)} follows at {at:%Y-%m-%d %H:%M} UTC "
            "(sync.topic.deletions.enabled)",
        )

    def _postpone(self, name: str, sentence: str) -> None:
        """It stays for now, and has all of its time of grace again when the doubt is gone."""
        self._since[name] = time.monotonic()
        self._status.set_problem(f"deleted {name}", sentence)
        if self._kept.get(name) != sentence:
            self._kept[name] = sentence
            _log.warning("%s: %s", self._flow, sentence)

    def _clear(self, name: str) -> None:
        self._since.pop(name, None)
        self._kept.pop(name, None)
        self._status.set_problem(f"deleted {name}", "")

    # --- deleting

    def _delete(
        self, due: Collection[str], mirrored: Mapping[str, MirroredTopic], target: ClusterAdmin
    ) -> None:
        positions = self._store.read().positions
        plan = plan_topic_deletions(due, positions, mirrored, self._rules, target, self._settings)
        for kept in plan.kept:
            self._postpone(kept.source, str(kept))
        there = target.topics([one.remote for one in plan.actions]).found if plan.actions else {}
        wanted = [
            there[one.remote]
            for one in plan.actions
            if one.remote in there and str(there[one.remote].topic_id) == one.topic_id
        ]
        answers = target.delete_topics(wanted)
        forgotten = [*plan.gone]
        for action in plan.actions:
            if action.remote not in answers:
                continue  # it changed between two questions: the next round looks again
            refusal = answers[action.remote]
            if refusal is not None:
                self._postpone(
                    action.source, str(KeptTopic(action.source, action.remote, str(refusal)))
                )
                continue
            _log.warning(
                f"{self._flow}: {self._flow.target}: {action.remote} was deleted, as "
                f"{action.source} was on {self._flow.source} (sync.topic.deletions.enabled)."
            )
            self._status.count_change("deleted")
            forgotten.append(action.source)
        delete_topic_state(self._settings, self._store, self._map_topic, forgotten)
        for name in forgotten:
            self._on_forgotten(name)
            self._clear(name)
        if self._names is not None:
            self._names.difference_update(forgotten)


def plan_topic_deletions(
    names: Iterable[str],
    positions: Mapping[TopicPartition, StoredPosition],
    mirrored: Mapping[str, MirroredTopic],
    rules: TopicRules,
    target: ClusterAdmin,
    settings: FlowSettings,
) -> DeletionPlan:
    """What may become of the copies of topics that the source does not know; touches nothing."""
    remotes = {name: rules.remote_name(name) for name in names}
    answer = target.topics(sorted(set(remotes.values())))
    places = [
        TopicPartition(topic.name, index)
        for topic in answer.found.values()
        for index in range(topic.partitions)
    ]
    ends = target.end_offsets(places, "read_uncommitted").found if places else {}
    return plan_deletions(
        remotes,
        copied_topics(positions),
        mirrored,
        RemoteTopics(answer.found, answer.failed, ends),
        markers=int(settings.transactions.is_enabled),  # that of the last transaction
    )


def delete_topic_state(
    settings: FlowSettings, store: OffsetStore, map_topic: str, topics: Collection[str]
) -> None:
    """Remove what is stored of topics that are gone on both sides: one made anew is another."""
    if not topics:
        return
    positions = [tp for tp in store.read().positions if tp.topic in topics]
    store.write(dict.fromkeys(positions))
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
                if tp.topic in topics
                for first in known.firsts
            ]
        )


def _duration(seconds: float) -> str:
    for unit, length in (("days", 86400), ("hours", 3600), ("minutes", 60)):
        if seconds >= 2 * length:
            return f"{seconds / length:.0f} {unit}"
    return f"{max(seconds, 0):.0f} seconds"
