# SPDX-License-Identifier: Apache-2.0
"""Keeps what surrounds the records in line: configs and ACLs of remote topics, deleted topics.

A thread of its own with clients of its own, so that neither copying nor the search for new topics
waits for it. A failed round shows in the status and is tried again at its next time.
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
from sparkmirror.connectors.source_topics import MirroredPartitions, SourceTopics
from sparkmirror.connectors.topic_deletion_sync import TopicDeletionSync
from sparkmirror.errors import ClusterError, WireError
from sparkmirror.kafka.admin import ClusterAdmin
from sparkmirror.spark.flow_status import FlowStatus
from sparkmirror.topology.topic_deletions import MirroredTopic
from sparkmirror.topology.topics import TopicRules

_SETTLED_SECONDS = 2.0  # the copying begins first: new topics have their configs already
_LONGEST_SHARE = 2  # a round that takes long waits so many times as long
_log = logging.getLogger(__name__)


@dataclass(slots=True)
class _PeriodicSync:
    what: str
    seconds: float
    do: Callable[[MirroredPartitions], None]
    due: float = 0.0


class TopologySync:
    """The sync of one flow; begins when its topics are known."""

    def __init__(
        self,
        settings: FlowSettings,
        rules: TopicRules,
        status: FlowStatus,
        topics: SourceTopics,
        acls: AclSync,
        deleted: TopicDeletionSync,
    ) -> None:
        self._flow = settings.flow
        self._status = status
        self._topics = topics
        self._source = ClusterAdmin(settings.source_admin)
        self._target = ClusterAdmin(settings.target_admin)
        self._configs = ConfigSync(self._flow, rules, status)
        self._acls = acls
        self._deleted = deleted
        self._stop = threading.Event()
        self._begin = threading.Event()
        self._first_round = threading.Event()
        wanted = settings.source
        plan = (
            ("config sync", wanted.sync_configs_seconds, self._sync_configs),
            ("ACL sync", wanted.sync_acls_seconds, self._sync_acls),
            ("deleted topics", wanted.refresh_topics_seconds, self._sync_deletions),
        )
        self._works = [_PeriodicSync(what, s, do) for what, s, do in plan if s is not None]
        self._thread = threading.Thread(
            target=self._run, name=f"{self._flow}/source/topology", daemon=True
        )

    def start(self) -> None:
        """Begin with a round of everything once the topics are known."""
        self._thread.start()

    def stop(self) -> None:
        """End within a request's time."""
        self._stop.set()
        self._begin.set()
        self._first_round.set()

    def wait_first_round(self) -> None:
        """For a bounded run: returns when everything has been looked at once."""
        self._begin.set()
        self._first_round.wait()

    @property
    def is_running(self) -> bool:
        """Whether its thread runs: a round that is under way may still delete and revoke."""
        return self._thread.is_alive()

    def _run(self) -> None:
        try:
            self._topics.first_round.wait()
            self._begin.wait(_SETTLED_SECONDS)
            with self._source, self._target, self._acls:
                while self._works and not self._stop.is_set():
                    self._round()
                    self._first_round.set()
                    soonest = min(work.due for work in self._works)
                    self._stop.wait(max(soonest - time.monotonic(), 0))
        except Exception as error:  # noqa: BLE001 - a thread's root: the status must tell
            _log.exception("%s: the sync of configs and rights failed", self._flow)
            self._status.set_problem("topology", f"ended: {type(error).__name__}: {error}")
        finally:
            self._first_round.set()

    def _round(self) -> None:
        for work in self._works:
            began = time.monotonic()
            if work.due > began or self._stop.is_set():
                continue
            trouble = ""
            try:
                work.do(self._topics.current or ())
            except (ClusterError, WireError) as error:
                trouble = f"{work.what}: {error}"
            self._status.set_problem(work.what, trouble)
            took = time.monotonic() - began
            work.due = max(began + work.seconds, time.monotonic() + took * _LONGEST_SHARE)

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
