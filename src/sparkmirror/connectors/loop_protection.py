# SPDX-License-Identifier: Apache-2.0
"""Keeps copied records from returning: registers the flow's producers, and plans what to skip.

`policy/loops.py` has the rule. The flows that it needs are those of this process's configuration
and those in the registries of both clusters (`state/producer_registry.py`). A flow that renames
every topic only registers, and a failure is a warning; a flow that keeps a name cannot run without
the registries, unless loop.policy=ignore.

The flow's thread plans and registers; the thread of `TopologySync` refreshes. A lock separates
them.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Collection, Container, Iterable, Mapping, Sequence
from dataclasses import replace

from sparkmirror.config.settings import FlowSettings
from sparkmirror.connectors.earlier_producers import EarlierProducers
from sparkmirror.connectors.known_flows import (
    KnownFlows,
    own_flow,
    registered_edge,
    registered_topics,
)
from sparkmirror.connectors.source_topics import MirroredPartitions
from sparkmirror.errors import BrokerError, ClusterError, WireError
from sparkmirror.formats.producer_registry import (
    PRODUCERS_TOPIC,
    RegisteredFlow,
    RegisteredProducer,
)
from sparkmirror.kafka.admin import ClusterAdmin
from sparkmirror.kafka.cluster_client import Closable
from sparkmirror.policy.loops import LoopEdge, LoopPlan, plan_loops
from sparkmirror.spark.flow_status import FlowStatus
from sparkmirror.state.producer_registry import ProducerRegistry
from sparkmirror.task.messages import OtherWriter, Split
from sparkmirror.topology.internal_topics import Side, ensure_internal_topics, producers_topic
from sparkmirror.topology.replication_factors import ReplicationFactorChooser
from sparkmirror.wire import error_codes
from sparkmirror.wire.settings import ConnectionSettings

REFRESH_SECONDS = 5.0
_SEEN_SECONDS = 3600.0  # how often a running flow updates its entry
_PROBLEM = "loops"


class LoopProtection(Closable):
    """The loop protection of one flow."""

    def __init__(
        self,
        settings: FlowSettings,
        factors: ReplicationFactorChooser,
        status: FlowStatus,
        configured_flows: Callable[[], Sequence[FlowSettings]],
    ) -> None:
        self._settings = settings
        self._flow = settings.flow
        self._factors = factors
        self._status = status
        # Called by `refresh` if other records must be skipped from now on.
        self.on_change: Callable[[], None] = lambda: None
        self._lock = threading.Lock()
        self._source = ProducerRegistry(settings.source_admin)
        self._target = ProducerRegistry(settings.target_admin)
        self._flows = KnownFlows(settings, configured_flows, self._source, self._target)
        self._earlier = EarlierProducers(settings.source_admin)
        self._took_over_from_java = False
        self._is_prepared = False
        self._is_imported = False  # what earlier versions left on the source
        self._kept: frozenset[str] = frozenset()  # topics that the flow copies under their names
        self._own: dict[int, RegisteredProducer] = {}
        self._plan = LoopPlan()
        self._edges: tuple[LoopEdge, ...] = ()

    @property
    def is_required(self) -> bool:
        """Whether the flow must not run without the registries."""
        return self._settings.source.skips_loops and bool(self._kept)

    @property
    def source_cluster_id(self) -> str:
        return self._source.cluster_id

    @property
    def target_cluster_id(self) -> str:
        """Empty if the flow cannot register there."""
        return self._target.cluster_id if self._is_prepared else ""

    def close(self) -> None:
        """Close the connections; the flow's thread and that of TopologySync do so at their ends."""
        self._source.close()
        self._target.close()

    # --- the flow's thread

    def prepare(self, mirrored: MirroredPartitions, ready_topics: Container[str]) -> bool:
        """Read the registries and register the flow, before an epoch with other topics.

        Returns True, for the caller's retry loop. Raises ClusterError if the flow must not run:
        a registry cannot be used, or the flow would lose or repeat records.
        """
        kept = frozenset(
            one.source.topic for one in mirrored if one.remote_topic == one.source.topic
        )
        with self._lock:
            has_new = not kept <= self._kept
            self._kept = kept
            if not self.is_required and PRODUCERS_TOPIC not in ready_topics:
                return True  # the status shows already why
            # An attempt that fails is repeated, also if it is for new topics only.
            self._is_prepared = self._is_prepared and not has_new
            if not self._is_prepared:
                with self._errors_as_warnings():
                    self._prepare()
            if self.is_required:
                self._plan_skipping()
                by_java = self._earlier.java_topics(self._flow.target)
                refuse_loops(self._settings, self._plan, self._edges, by_java)
        return True

    def register(self, splits: Iterable[Split], earlier: Mapping[int, str | None]) -> bool:
        """Register the producer ids of the tasks, and those that wrote earlier.

        Both map to transactional ids. Returns True when all replicas have them.
        """
        with self._lock, self._errors_as_warnings():
            if not self._is_prepared:
                if not self.is_required:
                    return True
                self._prepare()  # `refresh` has failed meanwhile
            source = self._source.cluster_id
            ids = {i: n for i, n in earlier.items() if not self._target.is_of_another(i, source)}
            ids |= _producer_ids(splits)
            own = {
                i: RegisteredProducer(i, self._target.cluster_id, str(self._flow), source, name)
                for i, name in ids.items()
            }
            self._target.register(own.values())
            self._own |= own
        return True

    def register_java(self) -> None:
        """Register that the flow continues where Java MM2 has written to the target."""
        with self._lock, self._errors_as_warnings():
            self._took_over_from_java = True
            if self._is_prepared:
                self._refresh_registries()

    def is_taken(self, producer_id: int) -> bool:
        """Whether a producer id of the target is registered for a flow from another cluster."""
        with self._lock:
            return self._target.is_of_another(producer_id, self._source.cluster_id)

    def skip_origins(self, topic: str) -> tuple[str, ...]:
        """Return the ids of the clusters whose records of a topic are skipped."""
        return self._plan.skip_origins.get(topic, ())

    # --- a thread of ForeignWriters

    def foreign_writers(self, writers: Iterable[OtherWriter]) -> dict[OtherWriter, str]:
        """Return the writers of remote topics that should not write there, and why.

        Raises ClusterError.
        """
        with self._lock:
            if not self._is_prepared:
                return {}
            self._target.refresh()
            causes = {one: self._foreign_cause(one) for one in writers}
        return {one: cause for one, cause in causes.items() if cause}

    def _foreign_cause(self, writer: OtherWriter) -> str:
        registered = self._target.producers.get(writer.producer_id)
        if registered is None:
            if writer.topic in self._plan.shared:
                return ""
            one = (
                f"producer id {writer.producer_id}" if writer.producer_id >= 0 else "one without id"
            )
            return f"{one} belongs to no flow; its records are mixed with the mirrored ones"
        flows = [
            registered_edge(one)
            for one in self._target.flows.values()
            if (one.flow, one.source_cluster_id, one.target_cluster_id)
            == (registered.flow, registered.source_cluster_id, registered.cluster_id)
        ]
        is_own = registered.source_cluster_id == self._source.cluster_id
        if is_own or not flows or any(one.keeps(writer.topic) for one in flows):
            return ""
        return (
            f"producer id {writer.producer_id} is registered for {registered.flow}, which does not "
            "copy this topic; its records would be taken for records of that flow"
        )

    # --- the thread of TopologySync

    def refresh(self) -> None:
        """Read new entries, and copy the flows of the source's registry to the target's.

        Without the right to do so, a flow that needs it plans again, which fails with the reason.
        """
        with self._lock:
            if not self._is_prepared or not self._kept:
                return  # the flow's thread could not, or nothing depends on other flows
            before = self._plan.skip_origins
            try:
                self._refresh_registries()
            except ClusterError as error:
                if error.retriable or not self.is_required:
                    raise
                self._is_prepared = False
            else:
                if self.is_required:
                    self._plan_skipping()
            changed = before != self._plan.skip_origins or not self._is_prepared
        if changed:
            self.on_change()

    # --- both, with the lock

    def _errors_as_warnings(self) -> _Warnings:
        """Errors are raised if the flow needs the registries; else its status shows them."""
        return _Warnings(self, self._status)

    def _prepare(self) -> None:
        self._source.identify()
        if self.is_required:
            self._source.refresh()
            if not self._is_imported:
                self._is_imported = self._import_earlier()
        self._target.refresh()
        if not self._target.exists:
            raise ClusterError(
                f"Cluster '{self._flow.target}' has no topic '{PRODUCERS_TOPIC}'",
                cluster=self._flow.target,
            )
        self._refresh_registries()
        self._is_prepared = True

    def _import_earlier(self) -> bool:
        """Register producer ids of flows into the source that ran before there was a registry.

        Returns whether the ids of all clusters are known.
        """
        self._target.identify()
        sources = self._flows.source_ids()
        self._earlier.read(sources)
        found = self._earlier.registrations(self._source.cluster_id, sources)
        new = [one for one in found if one.producer_id not in self._source.producers]
        is_complete = all(sources.values())
        if not new:
            return is_complete
        try:
            if not self._source.exists:
                self._ensure_registry(self._settings.source_admin, Side.SOURCE)
            self._source.register(new)
        except ClusterError as error:
            flows = ", ".join(sorted({one.flow for one in new}))
            raise ClusterError(
                f"{error} Flow {flows} wrote to '{self._flow.source}' before there was a registry, "
                f"and its producer ids must be written there: start {flows} once",
                cluster=self._flow.source,
            ) from error
        return is_complete

    def _refresh_registries(self) -> None:
        self._target.refresh()
        if not self._target.exists:  # deleted while the flow runs; `register` writes all again
            self._ensure_registry(self._settings.target_admin, Side.TARGET)
        if self.is_required:
            self._source.refresh()
        flows = [
            one
            for key, one in self._source.flows.items()
            if key not in self._target.flows or self._target.flows[key].seen_ms < one.seen_ms
        ]
        own = self._registered_flow()
        if own is not None:
            flows = [*(one for one in flows if one.key() != own.key()), own]
        self._target.register(self._own.values(), flows)

    def _ensure_registry(self, connection: ConnectionSettings, side: Side) -> None:
        with ClusterAdmin(connection) as admin:
            topic = producers_topic(self._settings, side)
            ensure_internal_topics([topic], admin, self._factors)

    def _registered_flow(self) -> RegisteredFlow | None:
        """Return the flow's own entry; None if the registry has it, and it is not old."""
        now = int(time.time() * 1000)
        topics, excluded = registered_topics(self._settings, self._kept)
        wanted = replace(
            self._own_flow(),
            topics=topics,
            topics_exclude=excluded,
            took_over_from_java=self._took_over_from_java,
            since_ms=now,
            seen_ms=now,
        )
        known = self._target.flows.get(wanted.key())
        if known is None:
            return wanted
        self._took_over_from_java |= known.took_over_from_java
        wanted = replace(
            wanted, took_over_from_java=self._took_over_from_java, since_ms=known.since_ms
        )
        is_recent = now - known.seen_ms < _SEEN_SECONDS * 1000
        return None if is_recent and replace(wanted, seen_ms=known.seen_ms) == known else wanted

    # --- what to skip

    def _plan_skipping(self) -> None:
        own = self._own_edge()
        self._edges = (own, *self._flows.edges())
        self._plan = plan_loops(self._edges, own, self._kept)

    def _own_edge(self) -> LoopEdge:
        ids = (self._source.cluster_id, self._target.cluster_id)
        known = self._target.flows[self._own_flow().key()]
        return LoopEdge(*ids, str(self._flow), self._kept.__contains__, known.since_ms)

    def _own_flow(self) -> RegisteredFlow:
        return own_flow(self._settings, self._source.cluster_id, self._target.cluster_id)


def refuse_loops(
    settings: FlowSettings, plan: LoopPlan, edges: Sequence[LoopEdge], by_java: Collection[str]
) -> None:
    """Raise ClusterError for a ring, or for a topic that Java MM2 copied to the source.

    `edges` begin with the flow itself; `by_java` are topics that Java copied from its target.
    """
    flow, own = settings.flow, edges[0]
    if plan.ring is not None:
        raise ClusterError(str(plan.ring), cluster=flow.target)
    if settings.source.loop_java_policy != "refuse":
        return
    back = [one for one in edges if (one.source, one.target) == (own.target, own.source)]
    for topic in plan.skip_origins:
        opposite = [one for one in back if one.keeps(topic)]
        if any(one.took_over_from_java for one in opposite) or (opposite and topic in by_java):
            raise ClusterError(
                f"Java MirrorMaker 2 has copied topic '{topic}' from '{flow.target}' to "
                f"'{flow.source}' under the same name. Nothing marks its records, so {flow} would "
                f"copy them back. Let {flow} begin behind them (auto.offset.reset=latest, or "
                f"stored offsets), and then set {flow}.loop.java.policy=copy.",
                cluster=flow.source,
            )


class _Warnings:
    """A context: raises errors with their remedy, or shows them as a problem of the flow."""

    def __init__(self, owner: LoopProtection, status: FlowStatus) -> None:
        self._owner = owner
        self._status = status

    def __enter__(self) -> None:
        return None

    def __exit__(self, _kind: object, error: object, _trace: object) -> bool:
        if error is None:
            self._status.set_problem(_PROBLEM, "")
            return False
        if not isinstance(error, (ClusterError, WireError)):
            return False
        if self._owner.is_required:
            if isinstance(error, ClusterError):
                raise with_loop_remedy(error) from error
            return False
        self._status.set_problem(
            _PROBLEM, f"{error} A flow that copies from the target cannot recognize these records."
        )
        return True


def with_loop_remedy(error: ClusterError) -> ClusterError:
    """Add the remedy to an error that is not retried."""
    if error.retriable:
        return error
    granted = "grant READ and WRITE on it" if _is_denied(error) else "create it"
    remedy = (
        f"Without topic '{PRODUCERS_TOPIC}' records that another flow has copied cannot be "
        f"recognized: {granted} (one partition, cleanup.policy=compact), or set loop.policy=ignore "
        "if no record can return."
    )
    return ClusterError(f"{str(error).rstrip('.')}. {remedy}", cluster=error.cluster)


def _is_denied(error: ClusterError) -> bool:
    return isinstance(error, BrokerError) and error.code in error_codes.NOT_AUTHORIZED


def _producer_ids(splits: Iterable[Split]) -> dict[int, str | None]:
    found: dict[int, str | None] = {}
    for split in splits:
        if split.transaction is not None:
            found[split.transaction.producer_id] = split.transaction.transactional_id
        else:
            found |= dict.fromkeys(one.producer.producer_id for one in split.partitions)
    return found
