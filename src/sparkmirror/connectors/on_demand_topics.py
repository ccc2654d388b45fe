# SPDX-License-Identifier: Apache-2.0
"""Creates the ledger and the dead-letter topic of a flow when they are first needed.

Most flows never do, and their targets then hold MM2's topics only. A task says so in its progress
until the topic is there, so a failed attempt need not be remembered for longer than a pause. What
the driver itself meets it writes to the ledger through here as well.
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
    """The on-demand topics of one flow; callable from any thread."""

    def __init__(
        self,
        settings: FlowSettings,
        names: InternalTopicNaming,
        factors: ReplicationFactorChooser,
        status: FlowStatus,
    ) -> None:
        self._flow = settings.flow
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
        """Create these topics unless that is being done already; returns at once."""
        with self._lock:
            wanted = [self._topics[n] for n in names if n in self._topics and n not in self._busy]
            if not wanted or time.monotonic() < self._not_before:
                return
            self._busy |= {topic.name for topic in wanted}
        threading.Thread(
            target=self._create, args=(wanted,), name=f"{self._flow}/on-demand-topics", daemon=True
        ).start()

    def record_incidents(self, incidents: Sequence[Incident]) -> None:
        """What the driver itself met: log, count, and write it to the ledger before going on.

        A ledger that cannot be written shows in the status and keeps nobody from copying.
        """
        self._status.add_incidents(incidents)
        entries = [
            entry_for_incident(str(self._flow), one) for one in incidents if one.belongs_in_ledger
        ]
        if not entries:
            return
        trouble = ""
        try:
            with ClusterAdmin(self._target) as admin:
                for one in self._ensure([self._ledger], admin):
                    if one.error is not None:
                        raise one.error
            append_entries(self._target, self._ledger.name, entries)
        except ClusterError as error:
            trouble = f"the ledger cannot be written: {error}"
        self._status.set_problem("ledger", trouble)

    def _create(self, wanted: list[InternalTopic]) -> None:
        trouble = ""
        try:
            with ClusterAdmin(self._target) as admin:
                for one in self._ensure(wanted, admin):
                    if one.error is not None:
                        trouble = str(one.error)
                    elif one.state is EnsureOutcome.CREATED:
                        _log.info(f"{self._flow}: created {one.topic.name} on {admin.alias}")
        except ClusterError as error:
            trouble = str(error)
        self._status.set_problem("side topics", trouble)
        with self._lock:
            self._busy -= {topic.name for topic in wanted}
            if trouble:
                self._not_before = time.monotonic() + self._backoff.next_pause()
            else:
                self._backoff.reset()

    def _ensure(self, wanted: list[InternalTopic], admin: ClusterAdmin) -> list[EnsuredTopic]:
        """As planned; a target that refuses our configs gets its own."""
        ensured = ensure_internal_topics(wanted, admin, self._factors, creates=self._creates)
        refused = [
            replace(one.topic, extra_configs={})
            for one in ensured
            if isinstance(one.error, BrokerError)
            and one.error.code in _CONFIG_CODES
            and one.topic.extra_configs
        ]
        if not refused:
            return ensured
        names = {topic.name for topic in refused}
        accepted = [one for one in ensured if one.topic.name not in names]
        return accepted + ensure_internal_topics(refused, admin, self._factors)
