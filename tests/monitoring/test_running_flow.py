# SPDX-License-Identifier: Apache-2.0
"""Every query of the dashboards and rules on a running flow, and each alert made true and false.

The rules are the shipped ones with durations that are twenty times shorter; promtool tests those of
the files. The tests share one flow and run in order.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from contextlib import ExitStack
from datetime import timedelta
from pathlib import Path

import pytest
from confluent_kafka.admin import (
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    ResourceType,
)

from sparkmirror.devcluster.cluster import LocalCluster
from sparkmirror.devcluster.ports import HOST, ReservedPort
from support.clients.connect_rest import ConnectRestClient
from support.clients.consumer_groups import commit
from support.clients.librdkafka import Record, admin, create_topics, end_offsets, produce
from support.clients.load_generator import Load
from support.clients.prometheus import scrape
from support.clusters.log_restore import delete_before
from support.data.certificates import Authority, key_store
from support.mirrors.mirror_file import mirror_file
from support.mirrors.mirror_process import MirrorProcess
from support.monitoring.panel_queries import (
    DEPLOY,
    JOB,
    RELABELLED,
    STRIMZI_LABELS,
    STRIMZI_PANELS,
    dashboard_queries,
    faster_rules,
    relabelled_queries,
    rule_queries,
)
from support.monitoring.prometheus_server import PrometheusServer, scrape_job
from support.unique_names import unique_name
from support.waiting import PATIENCE_SECONDS, eventually

FACTOR = 20  # how much faster than in the shipped rules time passes
PARTITIONS = 2
RATE = 300  # records per second: more than 1,000 within a few seconds of a pause
SMALL = "1000"  # max.message.bytes that refuses LARGE
LARGE = os.urandom(5_000)
SOON, LATER = timedelta(days=10), timedelta(days=90)
_SECONDS = PATIENCE_SECONDS


class MonitoredFlow:
    """`run` with one flow under load, scraped by Prometheus."""

    def __init__(self, clusters: dict[str, LocalCluster], directory: Path) -> None:
        self.source, self.target = clusters["source"], clusters["target"]
        self._directory = directory
        self._stack = ExitStack()
        self._authority = Authority()
        self.keystore = directory / "listener.pem"
        self.alias, target_alias = unique_name("us"), unique_name("eu")
        self.flow = f"{self.alias}->{target_alias}"
        self.topic, self.small_topic = unique_name("orders"), unique_name("small")
        self._ports = [ReservedPort() for _ in range(3)]
        for port in self._ports:
            port.reserve()
            port.prepare_bind()
        self.rest_port, https_port, self.metrics_port = (port.number for port in self._ports)
        self._file = mirror_file(
            directory,
            {self.alias: self.source, target_alias: self.target},
            f"{self.flow}.enabled = true",
            f"topics = {self.topic}, {self.small_topic}",
            "groups = billing-.*",
            "refused.record.policy = stop",
            "emit.checkpoints.interval.seconds = 1",
            "sync.group.offsets.enabled = true",
            "sync.group.offsets.interval.seconds = 1",
            "refresh.groups.interval.seconds = 2",
            "heartbeats.replication.enabled = false",
            "sync.topic.configs.enabled = false",
            "sync.topic.acls.enabled = false",
            "replication.factor = 1",
            f"metrics.port = {self.metrics_port}",
            f"listeners = http://{HOST}:{self.rest_port}, https://{HOST}:{https_port}",
            f"listeners.https.ssl.keystore.location = {self.keystore}",
            "listeners.https.ssl.keystore.type = PEM",
        )
        self.rest = ConnectRestClient(f"{HOST}:{self.rest_port}")
        self.process: MirrorProcess | None = None
        self.use_certificate(LATER)

    def start(self) -> None:
        """Write and commit, start the process and Prometheus."""
        create_topics(self.source, {self.topic: PARTITIONS, self.small_topic: 1})
        self.load = self._stack.enter_context(
            Load(self.source, self.topic, per_second=RATE, partitions=PARTITIONS)
        )
        eventually(lambda: end_offsets(self.source, self.topic)[0] > 20, _SECONDS, "records")
        produce(self.source, self.small_topic, [(0, Record(b"k", b"v"))])
        commit(
            self.source, unique_name("billing"), self.topic, dict.fromkeys(range(PARTITIONS), 20)
        )
        self.start_process()
        address = f"{HOST}:{self.metrics_port}"
        relabelled = [
            scrape_job(
                name, address, relabel=(DEPLOY / "prometheus/relabel" / f"{name}.yml").read_text()
            )
            for name in RELABELLED
        ]
        self.prometheus = self._stack.enter_context(
            PrometheusServer(
                self._directory / "prometheus",
                [scrape_job(JOB, address, STRIMZI_LABELS), *relabelled],
                faster_rules(self._directory, FACTOR),
            )
        )

    def start_process(self) -> None:
        self.process = self._stack.enter_context(MirrorProcess(self._file))

    def use_certificate(self, lifetime: timedelta) -> None:
        """Replace the certificate of the https listener."""
        identity = self._authority.identity(lifetime=lifetime)
        key_store(self.keystore, "PEM", identity)
        if self.process is not None:
            os.kill(self.process.pid, signal.SIGHUP)

    def set_connector(self, kind: str, action: str) -> None:
        """Pause, stop or resume a connector over REST."""
        self.rest.request_ok("PUT", f"/connectors/{self.flow}.{kind}/{action}")

    def limit_small_topic(self, value: str) -> None:
        """Set the size that the remote topic accepts."""
        name = f"{self.alias}.{self.small_topic}"
        entry = ConfigEntry("max.message.bytes", value, incremental_operation=AlterConfigOpType.SET)
        resource = ConfigResource(ResourceType.TOPIC, name, incremental_configs=[entry])
        client = admin(self.target)
        for future in client.incremental_alter_configs([resource]).values():
            future.result(PATIENCE_SECONDS)

    def await_alert(self, name: str) -> None:
        eventually(lambda: name in self.prometheus.firing(), _SECONDS, f"{name} fires")

    def await_no_alert(self, name: str) -> None:
        eventually(lambda: name not in self.prometheus.firing(), _SECONDS, f"{name} is over")

    def close(self) -> None:
        self._stack.close()
        for port in self._ports:
            port.release()


@pytest.fixture(scope="module")
def flow(
    shared_clusters: dict[str, LocalCluster], tmp_path_factory: pytest.TempPathFactory
) -> Iterator[MonitoredFlow]:
    monitored = MonitoredFlow(shared_clusters, tmp_path_factory.mktemp("monitoring"))
    try:
        monitored.start()
        yield monitored
    finally:
        if monitored.process is not None:
            monitored.process.show_log()
        monitored.close()


def await_data(prometheus: PrometheusServer, queries: dict[str, str]) -> None:
    """Wait until each query returns a number."""

    def missing() -> bool:
        empty = [
            f"{title}: {query}" for title, query in queries.items() if not prometheus.query(query)
        ]
        assert empty == []
        return True

    eventually(missing, _SECONDS, "every query returns data")


def test_every_query_of_the_dashboards_returns_data(flow: MonitoredFlow) -> None:
    await_data(flow.prometheus, dashboard_queries(flow.flow))


def test_every_query_of_a_dashboard_of_strimzis_shape_returns_data(flow: MonitoredFlow) -> None:
    """It is written for Java's MirrorMaker 2 with the JMX exporter."""
    await_data(flow.prometheus, STRIMZI_PANELS)


def test_every_recording_rule_returns_data(flow: MonitoredFlow) -> None:
    rules = {one: one.replace("[5m]", "[10s]") for one in rule_queries()}
    await_data(flow.prometheus, rules)
    assert flow.prometheus.rule_errors() == []


@pytest.mark.parametrize("family", RELABELLED)
def test_relabel_rules_make_other_names(flow: MonitoredFlow, family: str) -> None:
    queries = relabelled_queries(family)
    await_data(flow.prometheus, dict(zip(queries, queries, strict=True)))


def test_the_rest_api_serves_the_same_metrics(flow: MonitoredFlow) -> None:
    own, rest = (scrape(HOST, port) for port in (flow.metrics_port, flow.rest_port))
    assert own.keys() == rest.keys()


def test_no_alert_fires_on_a_flow_that_runs(flow: MonitoredFlow) -> None:
    """Also not after the longest duration of the rules."""
    began = flow.prometheus.now()
    longest = 15 * 60 / FACTOR + 5
    eventually(lambda: flow.prometheus.now() > began + longest, _SECONDS, "time has passed")
    assert flow.prometheus.firing() == set()


def test_a_paused_flow_is_stopped_and_its_lag_grows(flow: MonitoredFlow) -> None:
    """Records that retention deletes meanwhile are a gap afterwards."""
    flow.set_connector("MirrorSourceConnector", "pause")
    flow.await_alert("SparkmirrorFlowStopped")
    flow.await_alert("SparkmirrorLagGrowing")
    assert "SparkmirrorGapRecorded" not in flow.prometheus.firing()
    ends = end_offsets(flow.source, flow.topic)
    delete_before(flow.source, {(flow.topic, n): end for n, end in ends.items()})
    flow.set_connector("MirrorSourceConnector", "resume")
    flow.await_alert("SparkmirrorGapRecorded")
    for one in ("SparkmirrorFlowStopped", "SparkmirrorLagGrowing", "SparkmirrorGapRecorded"):
        flow.await_no_alert(one)


def test_a_refused_record_is_a_quarantine(flow: MonitoredFlow) -> None:
    flow.limit_small_topic(SMALL)
    assert "SparkmirrorQuarantineNotEmpty" not in flow.prometheus.firing()
    produce(flow.source, flow.small_topic, [(0, Record(b"large", LARGE))])
    flow.await_alert("SparkmirrorQuarantineNotEmpty")
    flow.limit_small_topic("1000000")
    flow.await_no_alert("SparkmirrorQuarantineNotEmpty")


@pytest.mark.parametrize(
    ("connector", "alert"),
    [
        ("MirrorCheckpointConnector", "SparkmirrorCheckpointStale"),
        ("MirrorHeartbeatConnector", "SparkmirrorHeartbeatLate"),
    ],
)
def test_a_stopped_connector_is_noticed(flow: MonitoredFlow, connector: str, alert: str) -> None:
    assert alert not in flow.prometheus.firing()
    flow.set_connector(connector, "stop")
    flow.await_alert(alert)
    flow.set_connector(connector, "resume")
    flow.await_no_alert(alert)


def test_a_certificate_that_expires_soon_is_noticed(flow: MonitoredFlow) -> None:
    """Until it is replaced."""
    alert = "SparkmirrorCertificateAboutToExpire"
    assert alert not in flow.prometheus.firing()
    flow.use_certificate(SOON)
    flow.await_alert(alert)
    flow.use_certificate(LATER)
    flow.await_no_alert(alert)


def test_a_source_that_cannot_be_read_makes_the_lag_unknown(flow: MonitoredFlow) -> None:
    """All connectors are suspended with the source's broker; last but one: the broker pauses."""
    broker = flow.source.brokers[0]
    assert "SparkmirrorLagUnknown" not in flow.prometheus.firing()
    pid = broker.pid
    os.kill(pid, signal.SIGSTOP)
    try:
        flow.await_alert("SparkmirrorLagUnknown")
    finally:
        os.kill(pid, signal.SIGCONT)
    flow.await_no_alert("SparkmirrorLagUnknown")


def test_a_killed_process_is_noticed(flow: MonitoredFlow) -> None:
    assert flow.process is not None
    assert "SparkmirrorWorkerLost" not in flow.prometheus.firing()
    flow.process.kill_everything()
    flow.await_alert("SparkmirrorWorkerLost")
    flow.start_process()
    flow.await_no_alert("SparkmirrorWorkerLost")
    eventually(lambda: not flow.prometheus.firing(), _SECONDS, "no alert fires at the end")
