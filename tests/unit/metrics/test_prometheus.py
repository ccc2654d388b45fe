# SPDX-License-Identifier: Apache-2.0
"""Metrics over a real socket, parsed by Prometheus' parser."""

from __future__ import annotations

import math
from collections.abc import Iterator

import pytest

from sparkmirror.config.settings import MetricsSettings
from sparkmirror.devcluster.ports import HOST, ReservedPort
from sparkmirror.errors import SetupError
from sparkmirror.metrics.prometheus import MetricsServer, ReloadMetrics, ReloadResult
from sparkmirror.model import TopicPartition
from sparkmirror.spark.flow_status import FlowState, FlowStatus
from sparkmirror.state.incidents import Incident, IncidentKind
from sparkmirror.task import latency_histogram
from sparkmirror.task.messages import PartitionProgress, Progress
from support.clients.prometheus import Sample, sample, scrape

FORBIDDEN = 29
SKIPPED = "sparkmirror_loop_skipped_records_total"


@pytest.fixture
def status() -> FlowStatus:
    """A flow that has copied records, with a gap and a refused record."""
    flow = FlowStatus("a->b")
    flow.set_state(FlowState.RUNNING)
    flow.begin_epoch(1, [(TopicPartition("t", index), 0, None) for index in range(2)])
    gap = Incident(IncidentKind.GAP, "t", 0, 5, 9, 5, "retention", 1, "continue")
    rows = (
        PartitionProgress("t", 0, 10, 4, 30, 5, 500, 0, ""),
        PartitionProgress("t", 1, 0, -1, 7, 0, 0, FORBIDDEN, "may not", skipped_records=3),
    )
    flow.on_progress(Progress(0, 1, rows, (), 64, 0.0, 1.5, (), incidents=(gap,)))
    return flow


def latency(kind: str, quantile: str) -> Sample:
    return figure(f"sparkmirror_{kind}_latency_seconds", quantile=quantile)


@pytest.fixture
def settings() -> Iterator[MetricsSettings]:
    """A reserved free port."""
    port = ReservedPort()
    port.reserve()
    port.prepare_bind()
    yield MetricsSettings(HOST, port.number)
    port.release()


@pytest.fixture
def server(status: FlowStatus, settings: MetricsSettings) -> Iterator[MetricsServer]:
    made = MetricsServer(settings, lambda: [status.snapshot()], ReloadMetrics())
    yield made
    made.stop()


def figure(name: str, **labels: str) -> Sample:
    return sample(name, flow="a->b", **labels)


GAPS = figure("sparkmirror_incidents_total", topic="t", partition="0", kind="gap")


@pytest.mark.usefixtures("server")
def test_a_scrape_has_every_figure(settings: MetricsSettings) -> None:
    """Per flow, and incidents by topic, partition and kind."""
    found = scrape(settings.host, settings.port)
    assert found[figure("sparkmirror_records_total")] == 5
    assert found[figure("sparkmirror_bytes_total")] == 500
    assert found[figure("sparkmirror_lag_records")] == 20  # the driver has not read the other one
    assert found[figure("sparkmirror_lag_known")] == 0
    assert found[figure("sparkmirror_lag_unknown_partitions")] == 1
    assert found[figure("sparkmirror_epoch")] == 1
    assert found[figure("sparkmirror_partitions")] == 2
    assert found[figure("sparkmirror_quarantined_partitions")] == 1
    assert found[figure("sparkmirror_held_bytes")] == 64
    assert found[figure("sparkmirror_flow_state", state="RUNNING")] == 1
    assert found[figure("sparkmirror_flow_state", state="FAILED")] == 0
    assert found[GAPS] == 1
    assert found[figure(SKIPPED, topic="t", partition="1")] == 3
    assert figure(SKIPPED, topic="t", partition="0") not in found
    assert latency("replication", "0.99") not in found  # unknown is not zero


@pytest.mark.usefixtures("server")
def test_a_scrape_has_both_latencies(status: FlowStatus, settings: MetricsSettings) -> None:
    """An hour in the source's backlog is replication latency, not copy latency."""
    hour, moment = latency_histogram.bucket(3_600_000), latency_histogram.bucket(10)
    counts = (((hour, 99),), ((moment, 99),))
    status.on_progress(Progress(0, 1, (), counts[0], 64, 0.0, 1.5, (), copy_latency=counts[1]))
    found = scrape(settings.host, settings.port)
    for quantile in ("0.5", "0.99"):
        assert found[latency("replication", quantile)] == pytest.approx(3600, rel=0.1)
        assert found[latency("copy", quantile)] == pytest.approx(0.01, rel=0.1)


@pytest.mark.usefixtures("server")
def test_an_unknown_lag_is_not_a_number(status: FlowStatus, settings: MetricsSettings) -> None:
    """And no flow loses its series, as long as it copies."""
    status.begin_epoch(2, [(TopicPartition("u", 0), 0, None)])
    status.set_scope([TopicPartition("u", 0)])
    found = scrape(settings.host, settings.port)
    assert math.isnan(found[figure("sparkmirror_lag_records")])
    assert found[figure("sparkmirror_lag_known")] == 0
    status.set_end_offsets({TopicPartition("u", 0): 70})
    found = scrape(settings.host, settings.port)
    assert found[figure("sparkmirror_lag_records")] == 70
    assert found[figure("sparkmirror_lag_known")] == 1


@pytest.mark.usefixtures("server")
def test_a_cluster_that_does_not_answer_is_a_figure(
    status: FlowStatus, settings: MetricsSettings
) -> None:
    """And the state of the flow, which alerts watch."""
    for cluster, reason in (("a", ""), ("b", "Cluster 'b' cannot be reached.")):
        status.set_unreachable(cluster, reason, is_source=False)
    found = scrape(settings.host, settings.port)
    assert found[figure("sparkmirror_cluster_reachable", cluster="a")] == 1
    assert found[figure("sparkmirror_cluster_reachable", cluster="b")] == 0
    assert found[figure("sparkmirror_flow_state", state="RETRYING")] == 1
    assert found[figure("sparkmirror_problems")] == 2  # and the partition that is refused


@pytest.mark.usefixtures("server")
def test_every_scrape_takes_a_new_snapshot(status: FlowStatus, settings: MetricsSettings) -> None:
    scrape(settings.host, settings.port)
    status.add_incidents([Incident(IncidentKind.GAP, "t", 0, 50, 59, 10, "again", 2, "continue")])
    assert scrape(settings.host, settings.port)[GAPS] == 2


@pytest.mark.usefixtures("server")
def test_a_port_in_use_is_an_error_message(settings: MetricsSettings) -> None:
    """The error names the key."""
    with pytest.raises(SetupError, match=r"metrics\.port"):
        MetricsServer(settings, list, ReloadMetrics())


def test_a_refused_file_shows_until_a_good_one_comes(settings: MetricsSettings) -> None:
    """Counted by result; the time is that of the configuration in use."""
    tally = ReloadMetrics()
    since = tally.in_use_since
    server = MetricsServer(settings, list, tally)
    try:
        tally.record(ReloadResult.REFUSED)
        tally.record(ReloadResult.UNCHANGED)
        tally.record(ReloadResult.REFUSED)
        refused = scrape(settings.host, settings.port)
        tally.record(ReloadResult.APPLIED)
        applied = scrape(settings.host, settings.port)
    finally:
        server.stop()
    name = "sparkmirror_config_reloads_total"
    counts = {one.value: applied[sample(name, result=one.value)] for one in ReloadResult}
    assert counts == {"applied": 1, "refused": 2, "unchanged": 1}
    assert refused[sample("sparkmirror_config_last_reload_successful")] == 0
    assert applied[sample("sparkmirror_config_last_reload_successful")] == 1
    assert refused[sample("sparkmirror_config_in_use_since_seconds")] == since
    assert applied[sample("sparkmirror_config_in_use_since_seconds")] > since
