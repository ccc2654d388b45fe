# SPDX-License-Identifier: Apache-2.0
"""Classifies other producers on a flow's remote topics: another flow of ours, or a foreign writer.

A flow's producer id is in its stored positions before it writes. So the offsets topics on the
target, and that of the flow's own worker, contain the ids of all our flows, of other processes too.
Exactly-once flows are known by their transactional ids.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Iterable

from sparkmirror.config.settings import FlowSettings
from sparkmirror.errors import ClusterError, WireError
from sparkmirror.kafka.admin import ClusterAdmin
from sparkmirror.kafka.transactions import TransactionalIds
from sparkmirror.spark.flow_status import FlowStatus
from sparkmirror.state.incidents import Incident, IncidentKind
from sparkmirror.state.offset_store import stored_producers
from sparkmirror.system.log_scope import ScopedThread
from sparkmirror.task.messages import OtherWriter

_NO_ID = -1  # a producer without id is never ours
_INTERVAL_SECONDS = 30.0
_RETRY_SECONDS = 5.0


class ForeignWriters:
    """Called from the control channel's thread; reads on its own threads."""

    def __init__(self, settings: FlowSettings, status: FlowStatus) -> None:
        self._flow = settings.flow
        self._target = settings.target_admin
        self._state = settings.state_cluster
        self._offsets_topic = settings.internal_topics.offsets
        self._id_prefix = settings.transactions.id_prefix
        self._status = status
        self._lock = threading.Lock()
        self._ours: set[int] = set()
        self._classified: set[OtherWriter] = set()
        self._is_running = False
        self._not_before = 0.0

    def report(self, writers: Iterable[OtherWriter]) -> None:
        """Report foreign writers; does not block."""
        with self._lock:
            new = [one for one in writers if one not in self._classified]
            if not new or self._is_running or time.monotonic() < self._not_before:
                return
            self._is_running = True
        ScopedThread(
            target=self._classify, args=(new,), name=f"{self._flow}/foreign-writers", daemon=True
        ).start()

    def _classify(self, writers: list[OtherWriter]) -> None:
        pause = _RETRY_SECONDS
        try:
            if any(one.producer_id not in self._ours | {_NO_ID} for one in writers):
                self._ours |= self._own_producer_ids()
        except (ClusterError, WireError) as error:
            self._status.set_problem("writers", f"{self._flow.target}: other producers: {error}")
        else:
            pause = _INTERVAL_SECONDS
            now_ms = int(time.time() * 1000)
            foreign = [one for one in writers if one.producer_id not in self._ours]
            self._status.add_incidents([self._incident(one, now_ms) for one in foreign])
            self._status.set_problem("writers", "")
            with self._lock:
                self._classified.update(writers)
        with self._lock:
            self._is_running = False
            self._not_before = time.monotonic() + pause

    def _own_producer_ids(self) -> set[int]:
        with ClusterAdmin(self._target) as admin:
            names = admin.topics().found
        topics = {n for n in names if n.startswith("mm2-offsets") and n.endswith("internal")}
        found = stored_producers(self._state, self._offsets_topic)
        for topic in sorted(topics):
            found |= stored_producers(self._target, topic)
        sources = {name.removeprefix("mm2-offsets").removesuffix("internal") for name in topics}
        groups = {f"{source[1:-1]}-mm2-" for source in sources}
        with TransactionalIds(self._target) as ids:
            return found | ids.producer_ids(groups | {self._id_prefix})

    def _incident(self, writer: OtherWriter, time_ms: int) -> Incident:
        who = f"producer id {writer.producer_id}" if writer.producer_id >= 0 else "one without id"
        cause = (
            f"{self._flow.target}: {who} belongs to no flow; its records are mixed with the "
            "mirrored ones"
        )
        return Incident(
            IncidentKind.FOREIGN_WRITER, writer.topic, writer.partition, -1, -1, -1, cause, time_ms
        )
