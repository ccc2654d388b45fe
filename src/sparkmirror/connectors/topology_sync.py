# SPDX-License-Identifier: Apache-2.0
"""Syncs configs and ACLs of remote topics, and deleted topics; refreshes the loop protection.

Has its own thread and clients, so that neither copying nor the search for new topics waits for it.
A failed round shows in the status and is retried at its next time.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass

from sparkmirror.config.settings import FlowSettings
from sparkmirror.connectors.acl_sync import AclSync
from sparkmirror.connectors.config_sync import ConfigSync
from sparkmirror.connectors.loop_protection import REFRESH_SECONDS, LoopProtection
from sparkmirror.connectors.source_topics import MirroredPartitions, SourceTopics
from sparkmirror.connectors.topic_deletion_sync import TopicDeletionSync
from sparkmirror.errors import ClusterError, WireError
from sparkmirror.kafka.admin import ClusterAdmin
from sparkmirror.spark.flow_status import FlowStatus
from sparkmirror.system.log_scope import ScopedThread
from sparkmirror.topology.topic_deletions import MirroredTopic
from sparkmirror.topology.topics import TopicRules

_START_DELAY_SECONDS = 2.0  # copying starts first: new topics have their configs already
_PAUSE_FACTOR = 2  # a slow round is followed by a pause of this many times its duration
_log = logging.getLogger(__name__)


@dataclass(slots=True)
class _PeriodicSync:
    name: str
    seconds: float
    sync: Callable[[MirroredPartitions], None]
    due: float = 0.0


class TopologySync:
    """The sync of one flow; starts when its topics are known."""

    def __init__(
        self,
        settings: FlowSettings,
        rules: TopicRules,
        status: FlowStatus,
        topics: SourceTopics,
        acls: AclSync,
        deleted: TopicDeletionSync,
        loops: LoopProtection,
    ) -> None:
        self._flow = settings.flow
        self._status = status
        self._topics = topics
        self._source = ClusterAdmin(settings.source_admin)
        self._target = ClusterAdmin(settings.target_admin)
        self._configs = ConfigSync(self._flow, rules, status)
        self._acls = acls
        self._deleted = deleted
        self._loops = loops
        self._stop = threading.Event()
        self._begin = threading.Event()
        self._first_round = threading.Event()
        source = settings.source
        plan = (
            ("loops", REFRESH_SECONDS, self._refresh_loops),
            ("config sync", source.sync_configs_seconds, self._sync_configs),
            ("ACL sync", source.sync_acls_seconds, self._sync_acls),
            ("deleted topics", source.refresh_topics_seconds, self._sync_deletions),
        )
        self._syncs = [_PeriodicSync(name, s, sync) for name, s, sync in plan if s is not None]
        self._thread = ScopedThread(
            target=self._run, name=f"{self._flow}/source/topology", daemon=True
        )

    def start(self) -> None:
        """Start the thread; the first round runs once the topics are known."""
        self._thread.start()

    def stop(self) -> None:
        """Request a stop; a pending request ends first."""
        self._stop.set()
        self._begin.set()
        self._first_round.set()

    def wait_first_round(self) -> None:
        """Block until the first round has ended. For a bounded run."""
        self._begin.set()
        self._first_round.wait()

    @property
    def is_running(self) -> bool:
        """Whether its thread runs: a round in progress may still delete and revoke."""
        return self._thread.is_alive()

    def _run(self) -> None:
        try:
            self._topics.first_round.wait()
            self._begin.wait(_START_DELAY_SECONDS)
            with self._source, self._target, self._acls, self._loops:
                while self._syncs and not self._stop.is_set():
                    self._round()
                    self._first_round.set()
                    soonest = min(one.due for one in self._syncs)
                    self._stop.wait(max(soonest - time.monotonic(), 0))
        except Exception as error:  # noqa: BLE001 - a thread's root: report it in the status
            _log.exception(
                "%s: config and ACL sync failed unexpectedly; restart the connector", self._flow
            )
            self._status.set_problem("topology", f"failed: {type(error).__name__}: {error}")
        finally:
            self._first_round.set()

    def _round(self) -> None:
        for one in self._syncs:
            started = time.monotonic()
            if one.due > started or self._stop.is_set():
                continue
            problem = ""
            try:
                one.sync(self._topics.current or ())
            except (ClusterError, WireError) as error:
                problem = f"{one.name}: {error}"
            self._status.set_problem(one.name, problem)
            took = time.monotonic() - started
            one.due = max(started + one.seconds, time.monotonic() + took * _PAUSE_FACTOR)

    def _refresh_loops(self, _mirrored: MirroredPartitions) -> None:
        self._loops.refresh()

    def _sync_configs(self, mirrored: MirroredPartitions) -> None:
        remotes = {one.source.topic: one.remote_topic for one in mirrored}
        self._configs.sync(remotes, self._source, self._target)

    def _sync_acls(self, mirrored: MirroredPartitions) -> None:
        self._acls.sync(sorted({one.source.topic for one in mirrored}))

    def _sync_deletions(self, mirrored: MirroredPartitions) -> None:
        topics = {
            one.source.topic: MirroredTopic(one.remote_topic, one.topic_id) for one in mirrored
        }
        self._deleted.sync(topics, self._source, self._target)
