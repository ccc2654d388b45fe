# SPDX-License-Identifier: Apache-2.0
"""Offset resets of a flow that a file defines, from any process with the file.

The request is stored first. If a process runs the flow, its source connector is asked to restart,
and carries the request out. Otherwise this process joins the flow's group and does it itself; a
process that starts meanwhile is on standby until it has left.
"""

from __future__ import annotations

import os
import socket
import threading
import time
from contextlib import closing
from enum import Enum

from sparkmirror.config.keys.connector_classes import ConnectorClass
from sparkmirror.config.settings import FlowSettings
from sparkmirror.config.worker_settings import GroupSettings
from sparkmirror.connect.group_state import ConfigTopic
from sparkmirror.connectors.offset_reset_plan import mirrored_partitions, read_positions
from sparkmirror.connectors.offset_resets import OffsetResets
from sparkmirror.connectors.on_demand_topics import OnDemandTopics
from sparkmirror.errors import BrokerError
from sparkmirror.formats.connect_config_records import RestartRequest, TargetState
from sparkmirror.kafka.groups import GroupAdmin
from sparkmirror.kafka.transactions import TransactionalIds
from sparkmirror.model import TopicPartition
from sparkmirror.policy.loading import load_policy
from sparkmirror.runtime.commands import connector_names
from sparkmirror.runtime.ownership import FlowOwnership
from sparkmirror.spark.flow_status import FlowStatus
from sparkmirror.state.offset_resets import OffsetReset
from sparkmirror.topology.replication_factors import ReplicationFactorChooser
from sparkmirror.wire import error_codes

_POLL_SECONDS = 0.5
_LEAVE_SECONDS = 5.0


class Runner(Enum):
    """Who carries a request out."""

    PROCESS = "a process runs the flow"
    IDLE_PROCESS = "a process has the flow; its source connector is paused or stopped"
    NO_PROCESS = "no process runs the flow"


class FlowResets:
    """The resets of one flow."""

    def __init__(self, settings: FlowSettings, group: GroupSettings) -> None:
        self._settings = settings
        self._group = group

    def pending(self) -> dict[TopicPartition, OffsetReset]:
        """Return the requests that are not carried out, and refused ones."""
        return read_positions(self._settings).resets

    def start(self, timeout_seconds: float) -> Runner:
        """Have the stored requests carried out; does not wait for a running process."""
        if self.carry_out_unless_running(timeout_seconds):
            return Runner.NO_PROCESS
        return self._restart(timeout_seconds)

    def carry_out_unless_running(self, timeout_seconds: float) -> bool:
        """Carry the requests out here if no process runs the flow. Returns whether none does.

        A killed process counts until its session has expired.
        """
        with GroupAdmin(self._settings.target_admin) as admin:
            found = admin.listings([self._group.group_id]).found.get(self._group.group_id)
        if found is not None and found.is_active:
            return False
        self._carry_out_here(timeout_seconds)
        return True

    def _restart(self, timeout_seconds: float) -> Runner:
        """Restart the source connector with its tasks, unless it is paused or stopped."""
        name = connector_names(self._settings)[ConnectorClass.SOURCE]
        topic = ConfigTopic(
            self._settings.target_admin, self._settings.internal_topics.configs, lambda: None
        )
        with closing(topic):
            topic.refresh(timeout_seconds)
            state = topic.state.target_states.get(name, TargetState.STARTED)
            if state is not TargetState.STARTED:
                return Runner.IDLE_PROCESS
            with topic.writing() as log:
                log.put_restart_request(RestartRequest(name, include_tasks=True, only_failed=False))
        return Runner.PROCESS

    def _carry_out_here(self, timeout_seconds: float) -> None:
        """Carry the requests out as the only member of the flow's group, if it is that in time."""
        is_changed = threading.Event()
        ownership = FlowOwnership(
            self._settings,
            self._group,
            f"{socket.gethostname()}/{os.getpid()}",
            on_change=is_changed.set,
            release=lambda: None,
        )
        ownership.start()
        try:
            deadline = time.monotonic() + timeout_seconds
            while not ownership.is_owner and time.monotonic() < deadline:
                is_changed.wait(_POLL_SECONDS)
            if ownership.is_owner:
                self._carry_out()
        finally:
            ownership.stop(_LEAVE_SECONDS)

    def _carry_out(self) -> None:
        settings = self._settings
        if settings.transactions.is_enabled:
            fence_writers(settings)
        stored = read_positions(settings)
        names = load_policy(settings.policy, settings.flow).replication
        on_demand = OnDemandTopics(
            settings, names, ReplicationFactorChooser(), FlowStatus(str(settings.flow))
        )
        resets = OffsetResets(settings, on_demand.record_incidents)
        topics = {tp.topic for tp in stored.resets}
        resets.apply(stored.resets, mirrored_partitions(settings, topics), stored.positions)


def fence_writers(settings: FlowSettings) -> None:
    """End the transactions of all earlier tasks of an exactly-once flow."""
    transactions = settings.transactions
    with TransactionalIds(settings.target_admin) as ids:
        try:
            used = ids.list_ids(transactions.id_prefix)
        except BrokerError as error:
            if error.code != error_codes.UNSUPPORTED_VERSION:
                raise
            used = []
        ids.fence(used, transaction_timeout_ms=transactions.timeout_ms)
