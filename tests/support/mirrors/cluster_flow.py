# SPDX-License-Identifier: Apache-2.0
"""A flow on a standalone Spark cluster, as its operator sees it: log, REST API and metrics."""

from __future__ import annotations

import json
import os
import re
import subprocess
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import quote

from sparkmirror.devcluster.ports import ReservedPort
from support.clients.connect_rest import ConnectRestClient
from support.clients.librdkafka import (
    Cluster,
    Record,
    create_topics,
    duplicates,
    end_offsets,
    read_topic,
)
from support.clients.load_generator import Load
from support.clients.partition_progress import PartitionProgress
from support.clients.prometheus import sample, scrape
from support.measurements import measured
from support.mirrors.mirror_file import mirror_file
from support.mirrors.mirror_process import MirrorProcess, command
from support.unique_names import unique_name
from support.waiting import PATIENCE_SECONDS, eventually

PARTITIONS = 8
PER_SECOND = 400
NOT_YET = (AssertionError, OSError, KeyError)  # nothing answers yet, or has this figure
_SERVED = re.compile(r"advertised as http://(127\.0\.0\.1:\d+)/")


@dataclass(frozen=True, slots=True)
class Seen:
    """What REST and metrics say of a flow at one moment."""

    state: str
    reason: str  # trace of a failure, or warning
    tasks: tuple[str, ...]
    lag: float


class ClusterFlow:
    """One topic, the flow that copies it, and the process that runs it."""

    def __init__(
        self,
        clusters: tuple[Cluster, Cluster],
        directory: Path,
        stack: ExitStack,
        *,
        python: Path | None = None,
        environment: Mapping[str, str] | None = None,
        driver_host: str = "127.0.0.1",
        has_metrics: bool = True,
    ) -> None:
        """Python is the executors'; None leaves it to the flow's configuration.

        Without a driver's host Spark chooses one. Processes that run at the same time cannot share
        the port of the metrics.
        """
        self._host = (f"spark.driver.host = {driver_host}",) if driver_host else ()
        self.source, self.target = clusters
        self.directory = directory
        self.directory.mkdir(parents=True, exist_ok=True)
        self.alias, self.topic = unique_name("a"), unique_name("orders")
        self.flow = f"{self.alias}->b"
        self.environment = {
            # Nothing of the tests' own environment reaches Spark.
            "PYTHONPATH": "",
            **({"PYSPARK_PYTHON": str(python)} if python else {}),
            **(environment or {}),
        }
        self._stack = stack
        self._metrics = ReservedPort()
        self._has_metrics = has_metrics
        self._file: Path | None = None
        create_topics(self.source, {self.topic: PARTITIONS})
        self.mirror: MirrorProcess
        self._prefix: tuple[str, ...] = ()

    @property
    def remote(self) -> str:
        return f"{self.alias}.{self.topic}"

    def start(self, *lines: str, options: tuple[str, ...] = ()) -> MirrorProcess:
        """Start a process with these further lines; a further one has the same file."""
        if self._file is None:
            self._metrics.reserve()
            self._metrics.prepare_bind()
            self._stack.callback(self._metrics.release)
            self._file = mirror_file(
                self.directory,
                {self.alias: self.source, "b": self.target},
                "spark.executor.memory = 512m",
                *self._host,
                f"{self.flow}.enabled = true",
                f"{self.flow}.topics = {self.topic}",
                f"{self.flow}.tasks.max = {PARTITIONS}",
                "emit.heartbeats.enabled = false",
                "emit.checkpoints.enabled = false",
                "sync.topic.acls.enabled = false",
                "listeners = http://127.0.0.1:0",
                *((f"metrics.port = {self._metrics.number}",) if self._has_metrics else ()),
                *lines,
            )
        self.mirror = self._stack.enter_context(
            MirrorProcess(self._file, *options, environment=self.environment, prefix=self._prefix)
        )
        return self.mirror

    def start_with_hosts(self, hosts: Path, *lines: str) -> MirrorProcess:
        """Start a process that sees another /etc/hosts, in a mount namespace."""
        self._prefix = (
            "unshare",
            "--mount",
            "--propagation",
            "private",
            "/bin/sh",
            "-c",
            'mount --bind "$0" /etc/hosts && exec "$@"',
            str(hosts),
        )
        return self.start(*lines)

    def load(self) -> Load:
        """Write to all partitions until the end of the context."""
        return Load(self.source, self.topic, per_second=PER_SECOND, partitions=PARTITIONS)

    def progress(self) -> PartitionProgress:
        """Follow the partitions on the target."""
        return PartitionProgress(self.target, self.remote, PARTITIONS)

    # --- what its operator sees

    def status(self) -> Mapping[str, Any]:
        """Return the status of the source connector over REST."""
        found = _SERVED.search(self.mirror.log)
        assert found, "the REST API is not served yet"
        name = quote(f"{self.flow}.MirrorSourceConnector", safe="")
        answer = ConnectRestClient(found[1]).get(f"/connectors/{name}/status")
        assert isinstance(answer, dict)
        return answer

    def described(self) -> str:
        """Return what `sparkmirror describe` prints."""
        found = _SERVED.search(self.mirror.log)
        assert found, "the REST API is not served yet"
        name, url = f"{self.flow}.MirrorSourceConnector", f"http://{found[1]}"
        words = [command(), "describe", name, "--url", url]
        return subprocess.run(words, capture_output=True, text=True, check=True).stdout

    def checked(self) -> tuple[int, Mapping[str, Any]]:
        """Return exit code and report of `sparkmirror check FILE --connect --json` about Spark."""
        done = subprocess.run(
            [command(), "check", str(self._file), "--connect", "--json"],
            stdout=subprocess.PIPE,
            text=True,
            check=False,
            env={**os.environ, **self.environment},
        )
        report = json.loads(done.stdout)["spark_cluster"]
        assert isinstance(report, dict)
        return done.returncode, report

    def seen(self) -> Seen:
        """Return what REST and metrics say."""
        status, figures = self.status(), scrape("127.0.0.1", self._metrics.number)
        connector = status["connector"]
        reasons = [
            one.get(key, "")
            for one in (connector, *status["tasks"])
            for key in ("trace", "warning")
        ]
        return Seen(
            connector["state"],
            "\n".join(filter(None, reasons)),
            tuple(one["state"] for one in status["tasks"]),
            figures[sample("sparkmirror_lag_records", flow=self.flow)],
        )

    def real_lag(self) -> int:
        """How many records the target does not have."""
        here = sum(end_offsets(self.source, self.topic).values())
        return here - sum(end_offsets(self.target, self.remote).values())

    def await_tasks(self, count: int, timeout: float = PATIENCE_SECONDS) -> None:
        """Wait until REST says that the flow copies with this many tasks, all running."""

        def has_them() -> bool:
            tasks = [one["state"] for one in self.status()["tasks"]]
            assert tasks == ["RUNNING"] * count, tasks
            return True

        eventually(has_them, timeout, f"{count} tasks of {self.flow}", not_yet=NOT_YET)

    def await_failed(self, timeout: float) -> str:
        """Wait until REST says FAILED, or the process has ended; returns the reasons given."""

        def given() -> str:
            if not self.mirror.is_running:
                return self.mirror.log
            connector = self.status()["connector"]
            assert connector["state"] == "FAILED", (connector, self.mirror.log[-600:])
            return str(connector["trace"])

        return eventually(given, timeout, f"{self.flow} is FAILED", not_yet=NOT_YET)

    def await_every_partition(self, records: int = 1) -> None:
        """Wait until each partition has got so many further records."""
        before = end_offsets(self.target, self.remote)

        def has_moved() -> bool:
            now = end_offsets(self.target, self.remote)
            still = [p for p in now if now[p] < before.get(p, 0) + records]
            assert len(now) == PARTITIONS, now
            assert not still, f"partitions {still} do not move"
            return True

        eventually(has_moved, PATIENCE_SECONDS, "every partition moves")

    def assert_equal(self) -> int:
        """Each record of the source is on the target, once; returns how many there are."""
        originals = read_topic(self.source, self.topic)
        wanted = sum(len(records) for records in originals.values())

        def arrived() -> dict[int, list[Record]] | None:
            # With transactions the end counts their markers as well.
            if sum(end_offsets(self.target, self.remote).values()) < wanted:
                return None
            found = read_topic(self.target, self.remote)
            return found if sum(map(len, found.values())) >= wanted else None

        copies = eventually(arrived, PATIENCE_SECONDS, f"all {wanted} records arrive")
        assert copies
        twice = sum(duplicates(originals[p], copies[p]) for p in originals)
        measured(f"{self.topic}: {wanted} records, lost 0, twice {twice}")
        assert twice == 0
        return wanted


NewFlow = Callable[..., ClusterFlow]  # a fixture that takes what ClusterFlow takes


def own_temporary_folder(folder: Path) -> Mapping[str, str]:
    """Environment variables that make Python and Java use this folder for temporary files."""
    folder.mkdir()
    return {
        "TMPDIR": str(folder),
        "SPARK_LOCAL_DIRS": str(folder),
        "JAVA_TOOL_OPTIONS": f"{os.environ.get('JAVA_TOOL_OPTIONS', '')} -Djava.io.tmpdir={folder}",
    }
