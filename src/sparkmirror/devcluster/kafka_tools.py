# SPDX-License-Identifier: Apache-2.0
"""Kafka's command-line tools in a JVM, without a Kafka installation.

The tools always have the default version; they work with brokers of every version in use.
"""

from __future__ import annotations

import re
import signal
import subprocess
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from sparkmirror.devcluster.jars import DEFAULT_KAFKA
from sparkmirror.devcluster.jvm import KafkaJvm, extract_failure_reason
from sparkmirror.devcluster.metadata_probe import BrokerMetadata, fetch_broker_metadata
from sparkmirror.errors import ClusterError, UnreachableError
from sparkmirror.system.cache_directory import cache_directory, ensure_writable

TOPICS = "org.apache.kafka.tools.TopicCommand"
CONSOLE_PRODUCER = "org.apache.kafka.tools.ConsoleProducer"
CONSOLE_CONSUMER = "org.apache.kafka.tools.consumer.ConsoleConsumer"
PRODUCER_PERFORMANCE = "org.apache.kafka.tools.ProducerPerformance"

_HEAP = "256m"
_CONSUME_MS = 30_000  # the console consumer waits so long for another record
_TOOL_SECONDS = 120.0
_NO_ERROR = 0
_LOAD_SECONDS = 600.0
_SUMMARY = re.compile(r"^(\d+) records sent, ([\d.,]+) records/sec", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class LoadSummary:
    """The result of a load run, as Kafka's tool reports it."""

    records: int
    records_per_second: float


class KafkaTools:
    """The tools for one cluster; `name` is its name in errors."""

    def __init__(self, bootstrap_servers: str, *, name: str | None = None) -> None:
        self.bootstrap_servers = bootstrap_servers
        self.name = name or bootstrap_servers

    def topics(self) -> list[str]:
        """Return the sorted names of all topics, internal ones included."""
        return sorted(self._run(TOPICS, "--list").split())

    def describe(self, topic: str | None = None) -> str:
        """Return partitions, leaders, replicas and configs as Kafka prints them."""
        which = ("--topic", topic) if topic is not None else ()
        return self._run(TOPICS, "--describe", *which)

    def create_topic(
        self,
        topic: str,
        *,
        partitions: int = 1,
        replication_factor: int = 1,
        config: Mapping[str, str] | None = None,
    ) -> None:
        """Create a topic unless it exists."""
        configs = [f"--config={key}={value}" for key, value in (config or {}).items()]
        self._run(
            TOPICS,
            "--create",
            "--if-not-exists",
            f"--topic={topic}",
            f"--partitions={partitions}",
            f"--replication-factor={replication_factor}",
            *configs,
        )

    def produce(self, topic: str, lines: Iterable[str]) -> None:
        """Send one record per line; a tab separates key and value."""
        self.require_topic(topic)
        lines = list(lines)
        keyed = any("\t" in line for line in lines)
        arguments = produce_arguments(topic, keyed=keyed)
        self._run(CONSOLE_PRODUCER, *arguments, text="".join(f"{line}\n" for line in lines))

    def consume(self, topic: str, *, records: int, keys: bool = False) -> list[str]:
        """Return the first `records` records; fewer if the timeout expires first."""
        self.require_topic(topic)
        arguments = consume_arguments(topic, from_beginning=True, records=records, keys=keys)
        timeout = f"--timeout-ms={_CONSUME_MS}"
        # On a timeout Kafka's consumer exits with 1 after printing what it has received.
        return self._run(CONSOLE_CONSUMER, *arguments, timeout, may_fail=True).splitlines()

    def load(
        self,
        topic: str,
        *,
        records: int,
        record_size: int,
        properties: Mapping[str, str] | None = None,
    ) -> LoadSummary:
        """Send random records at full speed with Kafka's performance tool."""
        self.require_topic(topic)
        settings = [f"{key}={value}" for key, value in (properties or {}).items()]
        output = self._run(
            PRODUCER_PERFORMANCE,
            f"--topic={topic}",
            f"--num-records={records}",
            f"--record-size={record_size}",
            "--throughput=-1",
            *(["--command-property", *settings] if settings else []),
            timeout_seconds=_LOAD_SECONDS,
        )
        summaries = _SUMMARY.findall(output)
        if not summaries:
            raise self._failure(PRODUCER_PERFORMANCE, output)
        sent, speed = summaries[-1]
        return LoadSummary(int(sent), float(speed.replace(",", "")))

    def fetch_metadata(self, topic: str | None = None) -> BrokerMetadata:
        """Return the metadata of the first broker that responds; else raise UnreachableError."""
        for address in self.bootstrap_servers.split(","):
            host, _, port = address.strip().rpartition(":")
            if host and port.isdecimal():
                known = fetch_broker_metadata(host, int(port), topic=topic)
                if known is not None:
                    return known
        owner = "" if self.name == self.bootstrap_servers else f"of {self.name} "
        raise UnreachableError(
            f"No broker {owner}responds at {self.bootstrap_servers}; "
            "check the address and that the cluster is running.",
            cluster=self.name,
        )

    def has_topic(self, topic: str) -> bool:
        """Whether the topic exists. Needs no JVM."""
        return self.fetch_metadata(topic).topic_error == _NO_ERROR

    def require_topic(self, topic: str) -> None:
        """Raise ClusterError unless the topic exists: Kafka's consoles would wait silently."""
        if not self.has_topic(topic):
            raise ClusterError(
                f"Topic {topic} does not exist on {self.name}; "
                "`sparkmirror local topics` lists the topics.",
                cluster=self.name,
            )

    def command(self, tool: str, *arguments: str) -> list[str]:
        """Return the command line of a tool, for callers that handle its streams."""
        return self._jvm.command(
            tool,
            f"--bootstrap-server={self.bootstrap_servers}",
            *arguments,
            logging=self._logging,
        )

    def run_attached(self, tool: str, *arguments: str) -> None:
        """Run a tool on this process's stdin and stdout until it exits or Ctrl-C."""
        self.fetch_metadata()
        process = subprocess.Popen(
            self.command(tool, *arguments), stderr=subprocess.PIPE, text=True
        )
        text = ""
        with process:
            try:
                _, text = process.communicate()
            except KeyboardInterrupt:
                # The terminal may have sent it already; a second SIGINT does no harm.
                process.send_signal(signal.SIGINT)
                raise
        if process.returncode != 0 or " ERROR " in text:
            raise self._failure(tool, text)

    @cached_property
    def _jvm(self) -> KafkaJvm:
        return KafkaJvm.of(DEFAULT_KAFKA, heap=_HEAP)

    @cached_property
    def _logging(self) -> Path:
        file = ensure_writable(cache_directory() / "kafka") / "tools-logging.properties"
        text = self._jvm.logging_text("error")
        if not file.exists() or file.read_text(encoding="utf-8") != text:
            file.write_text(text, encoding="utf-8")
        return file

    def _run(
        self,
        tool: str,
        *arguments: str,
        text: str = "",
        may_fail: bool = False,
        timeout_seconds: float = _TOOL_SECONDS,
    ) -> str:
        """Run a tool and return its output. Raises ClusterError with the tool's reason."""
        self.fetch_metadata()
        try:
            done = subprocess.run(
                self.command(tool, *arguments),
                input=text,
                capture_output=True,
                text=True,
                timeout=timeout_seconds,
                check=False,
            )
        except subprocess.TimeoutExpired as error:
            raise self._failure(tool, f"timed out after {timeout_seconds:.0f} s") from error
        # The console producer reports failed sends on stderr and exits with 0.
        failed = done.returncode != 0 or " ERROR " in done.stderr
        if failed and not may_fail:
            raise self._failure(tool, done.stderr, done.stdout)
        return done.stdout

    def _failure(self, tool: str, *outputs: str) -> ClusterError:
        name = tool.rpartition(".")[2]
        return ClusterError(
            f"Kafka's {name} failed on {self.name}: {extract_failure_reason(*outputs)}",
            cluster=self.name,
        )


def produce_arguments(topic: str, *, keyed: bool = False) -> list[str]:
    """Options of the console producer: one record per line; `keyed`: key, tab, value."""
    arguments = [f"--topic={topic}", "--max-block-ms=15000"]
    return [*arguments, "--reader-property=parse.key=true"] if keyed else arguments


def consume_arguments(
    topic: str, *, from_beginning: bool, records: int | None = None, keys: bool = False
) -> list[str]:
    """Options of the console consumer; `keys`: print key, tab, value."""
    arguments = [f"--topic={topic}"]
    if from_beginning:
        arguments.append("--from-beginning")
    if records is not None:
        arguments.append(f"--max-messages={records}")
    if keys:
        arguments.append("--formatter-property=print.key=true")
    return arguments
