# SPDX-License-Identifier: Apache-2.0
"""Builds what a scrape shows from the connector instances of `run` or `worker`."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import lru_cache
from typing import NamedTuple, Protocol

from sparkmirror.config.keys.connector_classes import ConnectorClass
from sparkmirror.config.settings import FlowSettings
from sparkmirror.connectors.desired_state import DesiredState, InstanceView
from sparkmirror.errors import SparkmirrorError
from sparkmirror.metrics.exposition import render
from sparkmirror.metrics.process_view import (
    Certificate,
    FlowView,
    ProcessView,
    ReloadMetrics,
    WorkerMetrics,
)
from sparkmirror.metrics.table import METRICS
from sparkmirror.model import Flow
from sparkmirror.policy.loading import load_policy
from sparkmirror.policy.settings import PolicySettings
from sparkmirror.security.settings import TlsSettings
from sparkmirror.spark.flow_figures import FlowFiguresView
from sparkmirror.spark.flow_status import FlowSnapshot, FlowState
from sparkmirror.spark.shared_context import SharedSparkContext

LISTENERS = "listeners"  # the owner of the REST API's certificate


class MirroredFlow(NamedTuple):
    """A flow that this process knows, with or without a source connector."""

    snapshot: FlowSnapshot
    settings: FlowSettings
    connector: str  # the name of its source connector
    source: InstanceView | None


class MetricsSource(Protocol):
    """The process whose metrics are served."""

    def mirrored_flows(self) -> Sequence[MirroredFlow]:
        """Return the flows in the order of their file or names."""

    def instances(self) -> Mapping[str, InstanceView]:
        """Return the connector instances by name."""

    def worker_metrics(self) -> WorkerMetrics:
        """Return tasks and group membership."""

    @property
    def listener_tls(self) -> TlsSettings | None:
        """The TLS settings of the REST API."""

    @property
    def max_partitions(self) -> int:
        """How many partitions are shown one by one."""


class ProcessMetrics:
    """The metrics of one process. Any thread."""

    def __init__(
        self, process: MetricsSource, spark: SharedSparkContext[str], reloads: ReloadMetrics
    ) -> None:
        self._process = process
        self._spark = spark
        self._reloads = reloads
        self._names: dict[Flow, tuple[PolicySettings, Callable[[str], str]]] = {}

    def render(self) -> bytes:
        """Return a scrape in Prometheus' text format."""
        return render(METRICS, self.view())

    def view(self) -> ProcessView:
        """Return everything that a scrape shows."""
        flows = self._process.mirrored_flows()
        settings = [one.settings for one in flows]
        return ProcessView(
            flows=self._flows(flows),
            worker=self._process.worker_metrics(),
            reloads=self._reloads,
            certificates=[*_certificates(settings, self._process.listener_tls)],
            slots=self._spark.slot_count,
            jvm=self._spark.jvm_figures(),
        )

    def _flows(self, flows: Sequence[MirroredFlow]) -> list[FlowView]:
        instances = self._process.instances()
        room = self._process.max_partitions
        views = []
        for one in flows:
            figures = FlowFiguresView() if one.source is None else one.source.figures(room)
            room -= len(figures.partitions) - bool(figures.summed_partitions)
            flow = one.settings.flow
            checkpoint = _sibling(instances, flow, ConnectorClass.CHECKPOINT)
            views.append(
                FlowView(
                    one.snapshot,
                    flow.source,
                    flow.target,
                    one.connector,
                    figures,
                    self._remote_names(one.settings),
                    self._spark.capacity_slots(one.snapshot.flow),
                    {} if checkpoint is None else checkpoint.group_positions,
                    None if checkpoint is None else checkpoint.figures(0),
                    _age(checkpoint) if _emits_checkpoints(one.settings) else None,
                    _age(_sibling(instances, flow, ConnectorClass.HEARTBEAT))
                    if one.settings.heartbeat.interval_seconds is not None
                    else None,
                )
            )
        return views

    def _remote_names(self, settings: FlowSettings) -> Callable[[str], str]:
        """Return the function that names remote topics; loaded once for each policy."""
        known = self._names.get(settings.flow)
        if known is None or known[0] != settings.policy:
            known = settings.policy, _remote_names(settings.policy, settings.flow)
            self._names[settings.flow] = known
        return known[1]


def _sibling(
    instances: Mapping[str, InstanceView], flow: Flow, kind: ConnectorClass
) -> InstanceView | None:
    return next(
        (
            one
            for one in instances.values()
            if one.kind is kind and one.settings is not None and one.settings.flow == flow
        ),
        None,
    )


def task_states(instances: Mapping[str, InstanceView]) -> dict[str, list[str]]:
    """Return the task states by connector, without connectors that another process runs.

    Stopped connectors are left out, as Connect counts them.
    """
    idle = (DesiredState.STOPPED, DesiredState.STANDBY)
    return {
        name: [task.state.value.lower() for _, task in sorted(view.state.tasks.items())]
        for name, view in instances.items()
        if view.is_active or view.desired not in idle
    }


def _emits_checkpoints(settings: FlowSettings) -> bool:
    checkpoint = settings.checkpoint
    is_enabled = checkpoint.enabled and settings.source.offset_syncs_enabled
    return is_enabled and checkpoint.emit_seconds is not None


def _age(view: InstanceView | None) -> float | None:
    """Return the age of the last success; None if another process is responsible."""
    if view is None or view.snapshot.state is FlowState.STANDBY:
        return None
    return view.snapshot.seconds_since_success


def _remote_names(policy: PolicySettings, flow: Flow) -> Callable[[str], str]:
    try:
        names = load_policy(policy, flow).replication
    except SparkmirrorError:
        return str  # its connector does not start either
    return lambda topic: names.format_remote_topic(flow.source, topic)


def _certificates(
    flows: Iterable[FlowSettings], listener: TlsSettings | None
) -> Iterable[Certificate]:
    found: dict[tuple[str, str], Certificate] = {}
    chains = [(LISTENERS, "" if listener is None else listener.chain)]
    for one in flows:
        for client in (one.consumer, one.producer, one.source_admin, one.target_admin):
            tls = client.security.tls
            chains.append((client.alias, "" if tls is None else tls.chain))
    for owner, chain in chains:
        for subject, expires_at in _expiry(chain):
            found[owner, subject] = Certificate(owner, subject, expires_at)
    return found.values()


@lru_cache(maxsize=1_000)
def _expiry(chain: str) -> tuple[tuple[str, float], ...]:
    """Return subject and expiry of each certificate of a chain."""
    if not chain:
        return ()
    from cryptography import x509  # noqa: PLC0415 - few processes have certificates

    return tuple(
        (one.subject.rfc4514_string(), one.not_valid_after_utc.timestamp())
        for one in x509.load_pem_x509_certificates(chain.encode())
    )
