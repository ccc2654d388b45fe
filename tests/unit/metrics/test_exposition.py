# SPDX-License-Identifier: Apache-2.0
"""The metric table, and the text that a scrape gets."""

from __future__ import annotations

import math
from collections.abc import Iterator

import pytest

from sparkmirror.config.settings import MetricsSettings
from sparkmirror.devcluster.ports import HOST, ReservedPort
from sparkmirror.errors import SetupError
from sparkmirror.metrics.exposition import render
from sparkmirror.metrics.metric import MetricType, jmx_value
from sparkmirror.metrics.process_view import (
    Certificate,
    FlowView,
    ProcessView,
    ReloadMetrics,
    ReloadResult,
    WorkerMetrics,
)
from sparkmirror.metrics.server import MetricsServer
from sparkmirror.metrics.table import METRICS
from sparkmirror.model import TopicPartition
from sparkmirror.spark.flow_status import FlowState, FlowStatus
from sparkmirror.state.incidents import Incident, IncidentKind
from sparkmirror.task import latency_histogram
from sparkmirror.task.messages import (
    PartitionProgress,
    PartitionTimes,
    Progress,
    RequestErrors,
    TaskFigures,
)
from support.clients.prometheus import Sample, parse, sample, scrape

FORBIDDEN = 29
NOT_LEADER = 6


@pytest.fixture
def status() -> FlowStatus:
    """A flow that has copied records, with a gap and a refused record."""
    flow = FlowStatus("a->b")
    flow.set_state(FlowState.RUNNING)
    partitions = [TopicPartition("t", index) for index in range(2)]
    flow.begin_epoch(1, [(tp, 0, None) for tp in partitions], dict.fromkeys(partitions, 0))
    gap = Incident(IncidentKind.GAP, "t", 0, 5, 9, 5, "retention", 1, "continue")
    rows = (
        PartitionProgress("t", 0, 10, 4, 30, 5, 500, 0, ""),
        PartitionProgress("t", 1, 0, -1, 7, 0, 0, FORBIDDEN, "may not", skipped_records=3),
    )
    more = {
        "incidents": (gap,),
        "figures": TaskFigures(source_received=70, target_sent=60, raw_batches=3, merged_batches=2),
        "times": (PartitionTimes(0, 5, 500, 50, 150, 120, 1_000, 100, 300, 250),),
        "request_errors": (RequestErrors("target", NOT_LEADER, 2),),
    }
    flow.on_progress(Progress(0, 1, rows, (), 64, 0.0, 1.5, (), **more))  # type: ignore[arg-type]
    return flow


def view(status: FlowStatus, max_partitions: int = 10) -> ProcessView:
    flow = FlowView(
        status.snapshot(),
        "a",
        "b",
        "a->b.MirrorSourceConnector",
        status.figures(max_partitions),
        lambda topic: f"a.{topic}",
    )
    return ProcessView(flows=[flow])


def scraped(process: ProcessView) -> dict[Sample, float]:
    return parse(render(METRICS, process).decode())


def figure(name: str, **labels: str) -> Sample:
    return sample(f"sparkmirror_{name}", flow="a->b", **labels)


def mm2(name: str, topic: str = "a.t", partition: str = "0") -> Sample:
    name = f"kafka_connect_mirror_mirrorsourceconnector_{name}"
    return sample(name, source="a", target="b", topic=topic, partition=partition)


GAPS = figure("incidents_total", topic="t", partition="0", kind="gap")


def test_a_scrape_has_the_state_of_a_flow(status: FlowStatus) -> None:
    found = scraped(view(status))
    assert found[figure("records_total")] == 5
    assert found[figure("bytes_total")] == 500
    assert found[figure("lag_records")] == 20  # the driver has not read the other one
    assert found[figure("lag_known")] == 0
    assert found[figure("lag_unknown_partitions")] == 1
    assert found[figure("epoch")] == 1
    assert found[figure("splits")] == 1
    assert found[figure("partitions")] == 2
    assert found[figure("quarantined_partitions")] == 1
    assert found[figure("held_bytes")] == 64
    assert found[figure("flow_state", state="RUNNING")] == 1
    assert found[figure("flow_state", state="FAILED")] == 0


def test_a_scrape_has_what_tasks_count(status: FlowStatus) -> None:
    """Bytes on the wire, record batches, request errors, incidents."""
    found = scraped(view(status))
    assert found[figure("wire_bytes_total", cluster="a", direction="in")] == 70
    assert found[figure("wire_bytes_total", cluster="b", direction="out")] == 60
    assert found[figure("batches_total", treatment="raw")] == 3
    assert found[figure("batches_total", treatment="merged")] == 2
    not_leader = "NOT_LEADER_OR_FOLLOWER"
    assert found[figure("request_errors_total", cluster="b", error=not_leader)] == 2
    assert found[figure("request_errors_total", cluster="a", error=not_leader)] == 0
    skipped = "loop_skipped_records_total"
    assert found[figure(skipped, topic="t", partition="1")] == 3
    assert figure(skipped, topic="t", partition="0") not in found
    assert found[GAPS] == 1
    assert found[figure("flow_incidents_total", kind="gap")] == 1
    assert found[figure("flow_incidents_total", kind="dead-letter")] == 0  # for rate()
    assert found[figure("incident_records_total", kind="gap")] == 5
    assert found[figure("ledger_entries_total")] == 1


def test_a_scrape_has_mm2s_names(status: FlowStatus) -> None:
    """By remote topic; rates over at least 30 seconds, as Kafka computes them."""
    found = scraped(view(status))
    assert found[mm2("record_count")] == 5
    assert found[mm2("record_rate")] == pytest.approx(5 / 30)
    assert found[mm2("byte_rate")] == pytest.approx(500 / 30)
    assert found[mm2("record_age_ms")] == 120
    assert found[mm2("record_age_ms_avg")] == 100
    assert found[mm2("replication_latency_ms_min")] == 100
    assert found[mm2("replication_latency_ms_max")] == 300
    assert math.isnan(found[mm2("record_age_ms_avg", partition="1")])  # it copied nothing
    client = '"a->b|a->b.MirrorSourceConnector-0|replication-consumer"'
    name = "kafka_consumer_fetch_manager_records_lag"
    assert found[sample(name, clientid=client, topic="t", partition="0")] == 20
    assert math.isnan(found[sample(name, clientid=client, topic="t", partition="1")])


def test_a_scrape_has_the_lag_of_each_partition(status: FlowStatus) -> None:
    """Unknown is not zero."""
    found = scraped(view(status))
    first, second = {"topic": "t", "partition": "0"}, {"topic": "t", "partition": "1"}
    assert found[figure("partition_lag_records", **first)] == 20
    assert found[figure("partition_lag_bytes", **first)] == 20 * 100  # 100 bytes each so far
    assert found[figure("partition_lag_seconds", **first)] >= 0.25
    assert math.isnan(found[figure("partition_lag_seconds", **second)])


def test_partitions_above_the_limit_are_summed(status: FlowStatus) -> None:
    """Their number is shown; a lag is unknown if one of them is."""
    found = scraped(view(status, 1))
    rest = {"topic": "(other)", "partition": ""}
    assert found[figure("partitions_summed")] == 1
    assert found[figure("partition_records_total", topic="t", partition="0")] == 5
    assert figure("partition_records_total", topic="t", partition="1") not in found
    assert found[figure("partition_records_total", **rest)] == 0
    assert math.isnan(found[figure("partition_lag_records", **rest)])
    assert found[mm2("record_count", "(other)", "")] == 0


def test_latencies_are_histograms(status: FlowStatus) -> None:
    """An hour in the source's backlog is replication latency, not copy latency."""
    hour, moment = latency_histogram.bucket(3_500_000), latency_histogram.bucket(8)
    sums = (99 * 3_500_000, 99 * 8)
    counts = (((hour, 99),), ((moment, 99),))
    report = Progress(
        0, 1, (), counts[0], 64, 0.0, 1.5, (), copy_latency=counts[1], latency_sums=sums
    )
    status.on_progress(report)
    found = scraped(view(status))
    assert found[figure("replication_latency_seconds_bucket", le="1800")] == 0
    assert found[figure("replication_latency_seconds_bucket", le="+Inf")] == 99
    assert found[figure("replication_latency_seconds_sum")] == pytest.approx(99 * 3_500)
    assert found[figure("copy_latency_seconds_bucket", le="0.005")] == 0
    assert found[figure("copy_latency_seconds_bucket", le="0.01")] == 99
    assert found[figure("copy_latency_seconds_count")] == 99


def test_an_unknown_lag_is_not_a_number(status: FlowStatus) -> None:
    """And no flow loses its series, as long as it copies."""
    status.begin_epoch(2, [(TopicPartition("u", 0), 0, None)])
    status.set_scope([TopicPartition("u", 0)])
    found = scraped(view(status))
    assert math.isnan(found[figure("lag_records")])
    assert found[figure("lag_known")] == 0
    status.set_end_offsets({TopicPartition("u", 0): 70})
    found = scraped(view(status))
    assert found[figure("lag_records")] == 70
    assert found[figure("lag_known")] == 1


def test_a_cluster_that_does_not_answer_is_a_figure(status: FlowStatus) -> None:
    """And the state of the flow, which alerts watch."""
    for cluster, reason in (("a", ""), ("b", "Cluster 'b' cannot be reached.")):
        status.set_unreachable(cluster, reason, is_source=False)
    found = scraped(view(status))
    assert found[figure("cluster_reachable", cluster="a")] == 1
    assert found[figure("cluster_reachable", cluster="b")] == 0
    assert found[figure("flow_state", state="RETRYING")] == 1
    assert found[figure("problems")] == 2  # and the partition that is refused


def test_connectors_and_tasks_are_counted() -> None:
    """By state, and one by one."""
    tasks = {"a": ["running", "failed"], "b->c": []}
    worker = WorkerMetrics(tasks, "x:8083", generation=4, is_leader=True)
    found = scraped(ProcessView(worker=worker))
    prefix = "kafka_connect_worker"
    assert found[sample(f"{prefix}_connector_count")] == 2
    assert found[sample(f"{prefix}_task_count")] == 2
    assert found[sample(f"{prefix}_connector_total_task_count", connector='"b->c"')] == 0
    assert found[sample(f"{prefix}_connector_failed_task_count", connector="a")] == 1
    failed = sample("kafka_connect_connector_status", connector="a", status="failed", task="1")
    assert found[failed] == 1
    assert found[sample(f"{prefix}_rebalance_epoch")] == 4
    assert found[sample("sparkmirror_worker_is_leader")] == 1
    assigned = sample("kafka_connect_coordinator_assigned_tasks", clientid='"connect-x:8083"')
    assert found[assigned] == 2


def test_an_idle_process_can_be_scraped() -> None:
    """Its counts are zero; what it does not have is missing."""
    found = scraped(ProcessView())
    assert found[sample("kafka_connect_worker_connector_count")] == 0
    assert not [name for name, _ in found if name.startswith("jvm_")]
    assert sample("kafka_connect_worker_rebalance_epoch") not in found


def test_a_refused_file_shows_until_a_good_one_comes() -> None:
    """Counted by result; the time is that of the configuration in use."""
    tally = ReloadMetrics()
    since = tally.in_use_since
    for result in (ReloadResult.REFUSED, ReloadResult.UNCHANGED, ReloadResult.REFUSED):
        tally.record(result)
    refused = scraped(ProcessView(reloads=tally))
    tally.record(ReloadResult.APPLIED)
    applied = scraped(ProcessView(reloads=tally))
    name = "sparkmirror_config_reloads_total"
    counts = {one.value: applied[sample(name, result=one.value)] for one in ReloadResult}
    assert counts == {"applied": 1, "refused": 2, "unchanged": 1}
    assert refused[sample("sparkmirror_config_last_reload_successful")] == 0
    assert applied[sample("sparkmirror_config_last_reload_successful")] == 1
    assert refused[sample("sparkmirror_config_in_use_since_seconds")] == since
    assert applied[sample("sparkmirror_config_in_use_since_seconds")] > since


def test_label_values_are_escaped() -> None:
    """Prometheus' parser reads them back."""
    odd = 'CN="a\\b"\n'
    found = scraped(ProcessView(certificates=[Certificate("listeners", odd, 5.0)]))
    name = "sparkmirror_certificate_expiry_timestamp_seconds"
    assert found[sample(name, owner="listeners", subject=odd)] == 5


@pytest.mark.parametrize(
    ("text", "quoted"),
    [
        ("plain-1.2_3 %", "plain-1.2_3 %"),
        ("", ""),
        ("a->b", '"a->b"'),
        ("host:9", '"host:9"'),
        ('x"y*', r'"x\"y\*"'),
        ("gr\u00fcn", '"gr\u00fcn"'),
    ],
)
def test_values_are_quoted_as_kafka_does(text: str, quoted: str) -> None:
    assert jmx_value(text) == quoted


def test_every_metric_is_described() -> None:
    """Names are unique and valid; counters end with _total."""
    names = [one.name for one in METRICS]
    assert len(set(names)) == len(names)
    for one in METRICS:
        assert one.help.endswith("."), one.name
        assert one.help.isascii()
        assert one.origin.isascii()
        assert (one.type is MetricType.COUNTER) == one.name.endswith("_total"), one.name


# --- the listener


@pytest.fixture
def settings() -> Iterator[MetricsSettings]:
    """A reserved free port."""
    port = ReservedPort()
    port.reserve()
    port.prepare_bind()
    yield MetricsSettings(HOST, port.number, 10)
    port.release()


@pytest.fixture
def server(status: FlowStatus, settings: MetricsSettings) -> Iterator[MetricsServer]:
    made = MetricsServer(settings, lambda: render(METRICS, view(status)))
    yield made
    made.stop()


@pytest.mark.usefixtures("server")
def test_every_scrape_is_rendered_again(status: FlowStatus, settings: MetricsSettings) -> None:
    assert settings.port is not None
    assert scrape(settings.host, settings.port)[GAPS] == 1
    status.add_incidents([Incident(IncidentKind.GAP, "t", 0, 50, 59, 10, "again", 2, "continue")])
    assert scrape(settings.host, settings.port)[GAPS] == 2


@pytest.mark.usefixtures("server")
def test_a_port_in_use_is_an_error_message(settings: MetricsSettings) -> None:
    """The error names the key."""
    with pytest.raises(SetupError, match=r"metrics\.port"):
        MetricsServer(settings, bytes)
