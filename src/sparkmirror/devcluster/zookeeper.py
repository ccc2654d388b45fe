# SPDX-License-Identifier: Apache-2.0
"""The ZooKeeper of a local cluster whose Kafka version has no complete KRaft, from the same jars.

directory/zookeeper/            zoo.cfg, logging.properties, data/
directory/logs/zookeeper.log    its log, kept over restarts
"""

from __future__ import annotations

import socket
import time
from pathlib import Path

from sparkmirror.devcluster.jvm import KafkaJvm
from sparkmirror.devcluster.ports import HOST, ReservedPort
from sparkmirror.devcluster.server_process import ServerProcess

SESSION_MILLISECONDS = 4000

_TICK_MILLISECONDS = 500
_START_SECONDS = 120.0
_SESSION_END_SECONDS = 60.0
_ANSWER_SECONDS = 5.0
_POLL_SECONDS = 0.05
_CHUNK_BYTES = 65_536


class LocalZooKeeper(ServerProcess):
    """One ZooKeeper for all brokers of a cluster. Starts before them and stops after them."""

    def __init__(self, *, cluster: str, directory: Path, detached: bool = False) -> None:
        super().__init__(
            cluster=cluster,
            title="ZooKeeper",
            log_file=directory / "logs" / "zookeeper.log",
            detached=detached,
        )
        self.directory = directory / "zookeeper"
        self._config_file = self.directory / "zoo.cfg"
        self._logging_file = self.directory / "logging.properties"
        self._port = ReservedPort()

    @property
    def port(self) -> int:
        """The port for brokers; unchanged after a restart."""
        return self._port.number

    def start(self, jvm: KafkaJvm) -> None:
        """Start it unless it is running, and wait until it responds."""
        if not self.running:
            self._forget_process()
            self._port.reserve()
            self.directory.mkdir(parents=True, exist_ok=True)
            self._config_file.write_text(self._config(), encoding="utf-8")
            self._logging_file.write_text(jvm.logging_text("warn"), encoding="utf-8")
            self._port.prepare_bind()
            self._spawn(
                jvm.command(
                    "org.apache.zookeeper.server.quorum.QuorumPeerMain",
                    str(self._config_file),
                    logging=self._logging_file,
                )
            )
        deadline = time.monotonic() + _START_SECONDS
        while "Mode: standalone" not in self._four_letter_command("srvr"):
            if not self.running:
                raise self.error("exited during its start")
            if time.monotonic() > deadline:
                raise self.error(f"was not ready after {_START_SECONDS:.0f} s")
            time.sleep(_POLL_SECONDS)

    def await_session_end(self, node_id: int) -> None:
        """Block until no session registers that broker."""
        deadline = time.monotonic() + _SESSION_END_SECONDS
        entry = f"/brokers/ids/{node_id}"
        while True:
            sessions = self._four_letter_command("dump").split()
            if sessions and entry not in sessions:
                return
            if time.monotonic() > deadline:
                raise self.error(f"still has the session of broker {node_id}")
            time.sleep(_POLL_SECONDS)

    def change_port(self) -> None:
        """Reserve another port for the next start."""
        self._port.reserve_another()

    def release_port(self) -> None:
        self._port.release()

    def _config(self) -> str:
        return (
            f"dataDir={self.directory / 'data'}\n"
            f"clientPortAddress={HOST}\n"
            f"clientPort={self.port}\n"
            "maxClientCnxns=0\n"
            # Sessions last for 2 to 20 ticks.
            f"tickTime={_TICK_MILLISECONDS}\n"
            "admin.enableServer=false\n"
            "jmx.log4j.disable=true\n"
            "4lw.commands.whitelist=srvr,dump\n"
            # The data must survive a killed process, not a power failure.
            "forceSync=no\n"
        )

    def _four_letter_command(self, command: str) -> str:
        """Send a four-letter command. Returns an empty string if there is no response."""
        received = bytearray()
        try:
            with socket.create_connection((HOST, self.port), timeout=_ANSWER_SECONDS) as connection:
                connection.sendall(command.encode())
                while chunk := connection.recv(_CHUNK_BYTES):
                    received += chunk
        except OSError:
            # A starting server refuses or resets connections: not ready yet.
            return ""
        return received.decode(errors="replace")
