# SPDX-License-Identifier: Apache-2.0
"""Creates the ledger and the dead-letter topic of a flow when they are first needed.

Most flows never need them; their targets then have MM2's topics only. A task reports a missing
topic in its progress until it exists, so a failed attempt is simply repeated after a pause. The
driver's own incidents are written to the ledger here as well.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Iterable, Sequence
from dataclasses import replace

from sparkmirror.config.settings import FlowSettings
from sparkmirror.errors import BrokerError, ClusterError
from sparkmirror.kafka.admin import ClusterAdmin
from sparkmirror.spark.flow_status import FlowStatus
from sparkmirror.state.incidents import Incident
from sparkmirror.state.ledger import append_entries, entry_for_incident
from sparkmirror.state.remedies import with_command
from sparkmirror.system.log_scope import ScopedThread
from sparkmirror.topology.internal_topics import (
    EnsuredTopic,
    EnsureOutcome,
    InternalTopic,
    InternalTopicNaming,
    ensure_internal_topics,
    on_demand_topics,
)
from sparkmirror.topology.replication_factors import ReplicationFactorChooser
from sparkmirror.wire.backoff import Backoff

_CONFIG_CODES = frozenset({40, 44})  # INVALID_CONFIG, POLICY_VIOLATION
_log = logging.getLogger(__name__)


class OnDemandTopics:
    """The on-demand topics of one flow. Thread-safe."""

    def __init__(
        self,
        settings: FlowSettings,
        names: InternalTopicNaming,
        factors: ReplicationFactorChooser,
        status: FlowStatus,
    ) -> None:
        self._flow = settings.flow
        self._connector = settings.source.name
        self._target = settings.target_admin
        self._factors = factors
        self._creates = settings.source.topic_creation_enabled
        self._status = status
        topics = on_demand_topics(settings, names)
        self._ledger = topics[0]
        self._topics = {topic.name: topic for topic in topics}
        self._lock = threading.Lock()
        self._busy: set[str] = set()
        self._backoff = Backoff()
        self._not_before = 0.0

    def request(self, names: Iterable[str]) -> None:
        """Create these topics unless that is in progress; does not block."""
        with self._lock:
            topics = [self._topics[n] for n in names if n in self._topics and n not in self._busy]
            if not topics or time.monotonic() < self._not_before:
                return
            self._busy |= {topic.name for topic in topics}
        ScopedThread(
            target=self._create, args=(topics,), name=f"{self._flow}/on-demand-topics", daemon=True
        ).start()

    def record_incidents(self, incidents: Sequence[Incident]) -> None:
        """Log and count the driver's incidents, and write them to the ledger before returning.

        A failed write shows in the status and does not stop copying.
        """
        flow = str(self._flow)
        incidents = [with_command(one, flow, self._connector) for one in incidents]
        self._status.add_incidents(incidents)
        entries = [entry_for_incident(flow, one) for one in incidents if one.belongs_in_ledger]
        if not entries:
            return
        problem = ""
        try:
            with ClusterAdmin(self._target) as admin:
                for one in self._ensure([self._ledger], admin):
                    if one.error is not None:
                        raise one.error
            append_entries(self._target, self._ledger.name, entries)
        except ClusterError as error:
            problem = f"cannot write to the ledger: {error}"
        self._status.set_problem("ledger", problem)

    def _create(self, topics: list[InternalTopic]) -> None:
        problem = ""
        try:
            with ClusterAdmin(self._target) as admin:
                for one in self._ensure(topics, admin):
                    if one.error is not None:
                        problem = str(one.error)
                    elif one.state is EnsureOutcome.CREATED:
                        _log.info(f"{self._flow}: created {one.topic.name} on {admin.alias}")
        except ClusterError as error:
            problem = str(error)
        self._status.set_problem("on-demand topics", problem)
        with self._lock:
            self._busy -= {topic.name for topic in topics}
            if problem:
                self._not_before = time.monotonic() + self._backoff.next_pause()
            else:
                self._backoff.reset()

    def _ensure(self, topics: list[InternalTopic], admin: ClusterAdmin) -> list[EnsuredTopic]:
        """Create topics; without extra configs if the target rejects these."""
        ensured = ensure_internal_topics(topics, admin, self._factors, creates=self._creates)
        rejected = [
            replace(one.topic, extra_configs={})
            for one in ensured
            if isinstance(one.error, BrokerError)
            and one.error.code in _CONFIG_CODES
            and one.topic.extra_configs
        ]
        if not rejected:
            return ensured
        names = {topic.name for topic in rejected}
        accepted = [one for one in ensured if one.topic.name not in names]
        return accepted + ensure_internal_topics(rejected, admin, self._factors)
