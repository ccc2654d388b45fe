# SPDX-License-Identifier: Apache-2.0
"""A copy job on real Spark whose clusters cannot be reached: it starts, reports and ends."""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import psutil
import pytest
from pyspark import SparkContext, cloudpickle

from sparkmirror.model import Flow, Secret, TopicPartition
from sparkmirror.security.settings import (
    OAuthSettings,
    SaslMechanism,
    SaslSettings,
    SecurityProtocol,
    SecuritySettings,
    TlsSettings,
)
from sparkmirror.spark.context import LOOPBACK, choose_master, spark_options, start_spark
from sparkmirror.spark.control_server import ControlServer, EpochTasks
from sparkmirror.spark.epoch_runner import EpochResult, EpochRunner
from sparkmirror.spark.split_planner import plan_splits
from sparkmirror.task.entry_point import copy_function
from sparkmirror.task.messages import PartitionStart, Progress, Split, TaskSettings
from sparkmirror.wire.settings import ConnectionSettings, FetchSettings, ProduceSettings
from support.data.certificates import Authority
from support.secret_search import forms
from support.waiting import PATIENCE_SECONDS, eventually

FLOW = Flow("a", "b")
GROUP = "a->b epoch 1"
SPARKS_OWN = {  # as a file has them
    "spark.authenticate.secret": "s3cret-of-executors",
    "spark.hadoop.fs.s3a.secret.key": "s3cret-of-a-bucket",
    "spark.hadoop.fs.azure.account.key.x": "s3cret-of-a-storage",
    "spark.ssl.ui.keyPassword": "s3cret-of-a-page",
}


@pytest.fixture(scope="module")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkContext]:
    """A local Spark as flows use it, for two splits and a spare slot, that writes all down."""
    folder = tmp_path_factory.mktemp("spark")
    (folder / "events").mkdir()
    wanted = {
        "spark.ui.enabled": "false",
        "spark.eventLog.enabled": "true",
        "spark.eventLog.compress": "false",
        "spark.eventLog.dir": (folder / "events").as_uri(),
        "spark.local.dir": str(folder / "local"),
        "spark.authenticate": "true",
        **SPARKS_OWN,
    }
    running = start_spark(
        spark_options(choose_master(None, 2), wanted, archive=None), folder / "spark.log"
    )
    yield running.context
    running.stop()


@pytest.fixture(scope="module")
def control() -> Iterator[ControlServer]:
    """The driver's control channel."""
    server = ControlServer()
    server.start(LOOPBACK, LOOPBACK)
    yield server
    server.stop()


@pytest.fixture(scope="module")
def closed_port() -> Iterator[int]:
    """A port that is ours and on which nobody listens."""
    with socket.socket() as sock:
        sock.bind((LOOPBACK, 0))
        yield sock.getsockname()[1]


@pytest.fixture
def settings(closed_port: int) -> TaskSettings:
    """Both clusters at the closed port."""
    where = (f"{LOOPBACK}:{closed_port}",)
    return TaskSettings(
        flow=str(FLOW),
        connector="MirrorSourceConnector",
        source_alias="a",
        consumer=ConnectionSettings("a", where, "reader"),
        producer=ConnectionSettings("b", where, "writer"),
        fetch=FetchSettings(),
        produce=ProduceSettings(),
        offsets_topic="mm2-offsets.a.internal",
        offsets_partitions=25,
        flush_seconds=1.0,
        buffer_bytes=1 << 24,
        epoch_seconds=600.0,  # no test waits for so long
        lease_seconds=60.0,
    )


def splits() -> tuple[Split, ...]:
    """Five topic partitions in two splits."""
    return plan_splits([PartitionStart("t", number, "a.t", 100 + number) for number in range(5)], 2)


class Running:
    """An epoch on its own thread."""

    def __init__(self, epochs: EpochRunner, settings: TaskSettings) -> None:
        self.results: list[EpochResult] = []
        self._run: Callable[[], None] = lambda: self.results.append(epochs.run(splits(), settings))
        self.thread = threading.Thread(target=self._run)
        self.thread.start()

    def result(self, seconds: float) -> EpochResult:
        """What the epoch returned, within that time."""
        self.thread.join(seconds)
        assert not self.thread.is_alive(), f"the epoch did not end within {seconds:g} s"
        (result,) = self.results
        return result


def test_a_job_without_brokers_reports_and_ends_when_told(
    spark: SparkContext, control: ControlServer, settings: TaskSettings
) -> None:
    """Progress names the trouble; the end comes at once; every partition has a receipt."""
    reports: list[Progress] = []
    epochs = EpochRunner(str(FLOW), lambda: spark, control, reports.append)
    running = Running(epochs, settings)
    eventually(
        lambda: {report.split for report in reports} == {0, 1}, 120, "a report from both splits"
    )
    tracker: Any = spark.statusTracker()
    (job,) = tracker.getJobIdsForGroup(GROUP)
    assert tracker.getJobInfo(job).status == "RUNNING"
    store: Any = spark._jsc.sc().statusStore()
    assert store.job(job).description().get() == f"{GROUP}: 5 topic partitions"
    eventually(
        lambda: any("cluster 'b'" in report.error for report in reports),
        PATIENCE_SECONDS,
        "the trouble",
    )

    epochs.end()
    result = running.result(PATIENCE_SECONDS)

    assert result.failure is None
    ends = {TopicPartition(one.topic, one.partition): one for one in result.receipts}
    assert {tp.partition: one.position for tp, one in ends.items()} == {
        number: 100 + number for number in range(5)
    }
    # Nobody could look at the target: the next task has to.
    assert all(one.records == 0 and not one.is_clean for one in ends.values())
    assert {tp: standing.position for tp, standing in result.ends.items()} == {
        tp: one.position for tp, one in ends.items()
    }


def test_the_next_epoch_runs_after_an_early_end(
    spark: SparkContext, control: ControlServer, settings: TaskSettings
) -> None:
    """One end ends one epoch; the second one runs until it is told."""
    reports: list[Progress] = []
    epochs = EpochRunner(str(FLOW), lambda: spark, control, reports.append)
    for _ in range(2):
        reports.clear()
        running = Running(epochs, settings)
        eventually(lambda: len(reports) >= 4, PATIENCE_SECONDS, "reports of a running epoch")
        assert running.thread.is_alive()
        epochs.end()
        assert running.result(PATIENCE_SECONDS).failure is None
    assert epochs.number == 2


def test_the_closure_is_small_and_knows_no_cluster(
    control: ControlServer, settings: TaskSettings, closed_port: int
) -> None:
    """What Spark ships holds the driver's address, a token and a certificate, nothing else."""
    line = EpochTasks({split.index: split for split in splits()}, settings, lambda _progress: None)
    invitation = control.open_epoch(line)
    try:
        shipped = cloudpickle.dumps(copy_function(invitation))
    finally:
        control.close_epoch(line)

    assert len(shipped) < 10_000
    for word in (str(closed_port), "reader", "writer", "mm2-offsets", "MirrorSourceConnector"):
        assert word.encode() not in shipped
    assert invitation.token.encode() in shipped


def test_a_driver_that_is_gone_fails_the_job_with_a_reason(
    spark: SparkContext, settings: TaskSettings
) -> None:
    """Tasks that cannot check in do not hang; the epoch's standings are where it began."""
    server = ControlServer()
    server.start(LOOPBACK, LOOPBACK)
    epochs = EpochRunner(str(FLOW), lambda: spark, server, lambda _progress: None)
    server.stop()

    result = Running(epochs, settings).result(120)

    assert result.failure is not None
    assert "refused" in result.failure.reason.lower()
    assert result.receipts == []
    assert {tp.partition: one.position for tp, one in result.ends.items()} == {
        number: 100 + number for number in range(5)
    }


def words_of(process: psutil.Process) -> str:
    """Its command line and environment; nothing if it has ended meanwhile."""
    try:
        return f"{process.cmdline()} {process.environ()}"
    except psutil.NoSuchProcess:  # a zombie is one, too
        return ""


def test_no_secret_is_where_spark_writes(
    spark: SparkContext,
    control: ControlServer,
    settings: TaskSettings,
    tmp_path_factory: pytest.TempPathFactory,
    caplog: pytest.LogCaptureFixture,
) -> None:
    """Who needs them had them: no event, log, file, command line, environment or report has."""
    us = Authority("of a test").identity("us")
    key_line = us.key.splitlines()[1]
    login = SaslSettings(SaslMechanism.PLAIN, "us", Secret("s3cret-of-a-login"))
    tokens = OAuthSettings("http://127.0.0.1:1/", "us", Secret("s3cret-of-a-client"))
    tls = TlsSettings(chain=us.chain, key=Secret(us.key))
    secured = replace(
        settings,
        consumer=replace(
            settings.consumer, security=SecuritySettings(SecurityProtocol.SASL_SSL, tls, login)
        ),
        producer=replace(
            settings.producer,
            security=SecuritySettings(
                SecurityProtocol.SASL_PLAINTEXT,
                sasl=SaslSettings(SaslMechanism.OAUTHBEARER, oauth=tokens),
            ),
        ),
    )
    reports: list[Progress] = []
    epochs = EpochRunner("secrets", lambda: spark, control, reports.append)
    running = Running(epochs, secured)
    eventually(lambda: len(reports) >= 4, PATIENCE_SECONDS, "reports of a running epoch")
    [token] = control._epochs
    processes = psutil.Process().children(recursive=True)
    told = [words_of(one) for one in processes]
    epochs.end()
    result = running.result(PATIENCE_SECONDS)

    folder = tmp_path_factory.getbasetemp()
    files = [one for one in folder.glob("spark*/**/*") if one.is_file()]
    written = "".join(one.read_text("utf-8", "replace") for one in files)
    assert "secrets epoch 1" in written  # or there would be nothing to find it in
    assert any("java" in one for one in told)
    conf = spark.getConf()
    assert {key: conf.get(key) for key in SPARKS_OWN} == SPARKS_OWN
    everything = f"{written} {told} {reports} {result} {caplog.text}"
    secrets = ("s3cret-of-a-login", "s3cret-of-a-client", key_line, token)
    for secret in (*secrets, *SPARKS_OWN.values()):
        assert all(form not in everything.encode() for form in forms(secret))
