# SPDX-License-Identifier: Apache-2.0
"""Detects deleted source topics, reports them, and deletes their remote topics if configured.

A topic with a stored position counts as mirrored, so one that was deleted while nothing ran is
detected, too. The grace period starts when this process detected the deletion: a restart, or a
doubt about the topic, extends it.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Collection, Iterable, Mapping
from contextlib import closing
from datetime import UTC, datetime, timedelta

from sparkmirror.config.settings import FlowSettings
from sparkmirror.formats.map_chunk import COPIED_BEFORE, ChunkKey
from sparkmirror.formats.source_offsets import StoredPosition
from sparkmirror.kafka.admin import ClusterAdmin
from sparkmirror.kafka.cluster_client import ClusterClient
from sparkmirror.model import TopicPartition
from sparkmirror.offsets.map_topic import MapTopic
from sparkmirror.quantities import and_more, counted, format_duration, number_form
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

_MAX_LISTED = 5
_log = logging.getLogger(__name__)


class TopicDeletionSync:
    """The deleted topics of one flow. Not thread-safe."""

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
        self._grace = settings.source.deletions_grace_seconds  # None: delete nothing
        self._store = OffsetStore(
            settings.state_cluster,
            settings.internal_topics.offsets,
            connector=settings.source.name,
            source_alias=settings.flow.source,
        )
        self._names: set[str] | None = None  # source topics that are or were copied
        self._since: dict[str, float] = {}
        self._kept: dict[str, str] = {}

    def sync(
        self, mirrored: Mapping[str, MirroredTopic], source: ClusterAdmin, target: ClusterAdmin
    ) -> None:
        """Run one round; `mirrored` are the existing and selected topics."""
        is_first = self._names is None
        if self._names is None:
            stored = {tp.topic for tp in self._store.read().positions}
            self._names = {topic for topic in stored if self._rules.replicates(topic)}
        self._names |= mirrored.keys()
        for restored in [topic for topic in self._since if topic in mirrored]:
            self._clear(restored)
        missing = sorted(self._names - mirrored.keys())
        deleted = deleted_topics(source.topics(missing).failed) if missing else []
        self._report_deleted(
            [name for name in deleted if name not in self._since], is_new=not is_first
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

    # --- reporting

    def _report_deleted(self, names: Collection[str], *, is_new: bool) -> None:
        """Log deletions; those from before this process started in one line."""
        if not names:
            return
        for name in names:
            self._since[name] = time.monotonic()
        consequence = "is kept (sync.topic.deletions.enabled is false)"
        if self._grace is not None:
            consequence = f"will be deleted in {format_duration(self._grace)}"
        if not is_new:
            listed = ", ".join(sorted(names)[:_MAX_LISTED])
            more = and_more(len(names) - _MAX_LISTED)
            remotes = number_form(len(names), "the remote topic", "each remote topic")
            _log.info(
                f"{self._flow}: {counted(len(names), 'mirrored topic')} "
                f"{number_form(len(names), 'was', 'were')} deleted earlier on "
                f"'{self._flow.source}' ({listed}{more}); {remotes} on '{self._flow.target}' "
                f"{consequence}."
            )
            return
        self._status.count_change("source deleted", len(names))
        for name in names:
            _log.warning(
                f"{self._flow}: {self._flow.source}: {name} was deleted on the source; "
                f"{self._flow.target}: {self._rules.remote_name(name)} {consequence}."
            )

    def _note_pending(self, name: str, seconds: float) -> None:
        """Show the time of the deletion: the text stays the same until then."""
        at = (datetime.now(UTC) + timedelta(seconds=seconds)).isoformat(timespec="minutes")
        self._status.set_problem(
            f"deleted {name}",
            f"{self._flow.source}: {name} was deleted on the source; {self._flow.target}: "
            f"{self._rules.remote_name(name)} will be deleted at {at} "
            "(sync.topic.deletions.enabled)",
        )

    def _postpone(self, name: str, sentence: str) -> None:
        """Keep the topic for now, and restart its grace period."""
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
        on_target = (
            target.topics([one.remote for one in plan.actions]).found if plan.actions else {}
        )
        same = [
            on_target[one.remote]
            for one in plan.actions
            if one.remote in on_target and str(on_target[one.remote].topic_id) == one.topic_id
        ]
        results = target.delete_topics(same)
        forgotten = [*plan.gone]
        for action in plan.actions:
            if action.remote not in results:
                continue  # it changed between two requests: the next round checks again
            error = results[action.remote]
            if error is not None:
                self._postpone(
                    action.source, str(KeptTopic(action.source, action.remote, str(error)))
                )
                continue
            _log.warning(
                f"{self._flow}: {self._flow.target}: deleted {action.remote}, because "
                f"{action.source} was deleted on {self._flow.source} "
                f"(sync.topic.deletions.enabled)."
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
    """Plan the deletion of remote topics whose source topic is unknown; changes nothing."""
    remotes = {name: rules.remote_name(name) for name in names}
    result = target.topics(sorted(set(remotes.values())))
    partitions = [
        TopicPartition(topic.name, index)
        for topic in result.found.values()
        for index in range(topic.partitions)
    ]
    ends = target.end_offsets(partitions, "read_uncommitted").found if partitions else {}
    return plan_deletions(
        remotes,
        copied_topics(positions),
        mirrored,
        RemoteTopics(result.found, result.failed, ends),
        markers=int(settings.transactions.is_enabled),  # of the last transaction
    )


def delete_topic_state(
    settings: FlowSettings, store: OffsetStore, map_topic: str, topics: Collection[str]
) -> None:
    """Delete the stored state of topics deleted on both clusters: a new topic starts over."""
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
                for first in (*known.firsts, COPIED_BEFORE)
            ]
        )
