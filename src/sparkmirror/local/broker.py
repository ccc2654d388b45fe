# SPDX-License-Identifier: Apache-2.0
"""One real broker as a child process: started, stopped, killed, suspended and started again.

A broker that is not detached ends with this process, however that ends: a tiny shell waits on a
pipe which only this process holds open, and kills the broker when the pipe closes.
"""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Mapping
from pathlib import Path

from sparkmirror.errors import SetupError
from sparkmirror.local.jvm import KafkaJvm
from sparkmirror.local.ports import HOST, HeldPort
from sparkmirror.local.probe import Membership, membership
from sparkmirror.local.readiness import await_ready
from sparkmirror.local.server_properties import Listener

_STOP_SECONDS = 20.0
_KILL_SECONDS = 10.0
_TAIL_LINES = 12
_TAIL_BYTES = 16_384
_WATCH = 'read -r _; kill -9 "$1" 2>/dev/null'
# A JVM that ends on SIGTERM reports 128 + 15.
_CLEAN_ENDS = (0, 128 + signal.SIGTERM)


class LocalBroker:
    """One broker of a local cluster; made by LocalCluster, used by tests to hurt it."""

    def __init__(
        self,
        *,
        cluster: str,
        node_id: int,
        directory: Path,
        port: int = 0,
        detour_port: int = 0,
        listeners: Mapping[str, str] | None = None,
        detached: bool = False,
    ) -> None:
        self.cluster = cluster
        self.node_id = node_id
        self.directory = directory / f"broker-{node_id}"
        self.data = self.directory / "data"
        self.properties_file = self.directory / "server.properties"
        self.logging_file = self.directory / "logging.properties"
        self.log_file = directory / "logs" / f"broker-{node_id}.log"
        self._recording = self.directory / "classes.jsa"
        self._detached = detached
        self._port = HeldPort(port)
        self._controller_port = HeldPort()
        self._detour_port = HeldPort()
        self._advertised_detour = detour_port
        self._protocols = dict(listeners or {})
        self._further_ports = {name: HeldPort() for name in self._protocols}
        self._jvm: KafkaJvm | None = None
        self._process: subprocess.Popen[bytes] | None = None
        self._watch: subprocess.Popen[bytes] | None = None
        self._log_start = 0

    @property
    def port(self) -> int:
        """The port that clients use; the same after a restart."""
        return self._port.number

    @property
    def port_chosen(self) -> bool:
        """Whether the user wants this very port."""
        return self._port.chosen

    @property
    def controller_port(self) -> int:
        """The port on which the brokers' controllers talk to each other."""
        return self._controller_port.number

    @property
    def detour(self) -> Listener | None:
        """The listener behind a proxy, if the cluster was asked for one."""
        if not self._advertised_detour:
            return None
        return Listener("DETOUR", "PLAINTEXT", self._detour_port.number, self._advertised_detour)

    @property
    def listeners(self) -> list[Listener]:
        """All listeners but the plain one and the controllers'."""
        further = [
            Listener(name, self._protocols[name], port.number, port.number)
            for name, port in self._further_ports.items()
        ]
        return further if self.detour is None else [self.detour, *further]

    @property
    def _ports(self) -> list[HeldPort]:
        ports = [self._port, self._controller_port, *self._further_ports.values()]
        return [*ports, self._detour_port] if self._advertised_detour else ports

    @property
    def address(self) -> str:
        """host:port for clients."""
        return f"{HOST}:{self.port}"

    @property
    def pid(self) -> int | None:
        """The process id, or None when the broker does not run."""
        return self._process.pid if self._process and self.running else None

    @property
    def running(self) -> bool:
        """Whether the process is there (suspended counts)."""
        if self._process is None:
            return False
        if self._process.poll() is None:
            return True
        # From now on the pid may mean another program, which the shell must not kill.
        self._end_watch()
        return False

    @property
    def stopped_on_request(self) -> bool:
        """Whether it has ended, and cleanly, because somebody asked it to."""
        return self._process is not None and self._process.returncode in _CLEAN_ENDS

    def hold_ports(self, *, others: bool = False) -> None:
        """Take all ports; `others` gives up free-choice ports for different ones."""
        for port in self._ports:
            if others:
                port.change()
            else:
                port.hold()

    def release_ports(self) -> None:
        """Give all ports back to the system."""
        for port in self._ports:
            port.release()

    def launch(self, jvm: KafkaJvm) -> None:
        """Start the process without waiting for it to be of use."""
        self._jvm = jvm
        # One broker a cluster will do, and nobody is there to see a detached one end. An archive
        # holds Kafka's classes only.
        is_plain = not self._detached and not jvm.plugins
        records = self.node_id == 1 and is_plain and jvm.archive.wanted
        command = jvm.command(
            "kafka.Kafka",
            str(self.properties_file),
            logging=self.logging_file,
            recording=self._recording if records else None,
        )
        self.log_file.parent.mkdir(parents=True, exist_ok=True)
        for port in self._ports:
            port.make_way()
        with self.log_file.open("ab") as log:
            self._log_start = log.seek(0, 2)
            self._process = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                # Ctrl-C in a terminal must reach only us: brokers are stopped in order.
                start_new_session=True,
            )
        if not self._detached:
            self._watch = subprocess.Popen(
                ["/bin/sh", "-c", _WATCH, "sh", str(self._process.pid)],
                stdin=subprocess.PIPE,
                start_new_session=True,
            )

    def start(self) -> None:
        """Start again on the same data and port after `stop()` or `kill()`, until it serves."""
        if self._jvm is None:
            raise SetupError(f"The local cluster {self.cluster} has not been started yet.")
        if not self.running:
            self._forget_process()
            self.hold_ports()
            self.launch(self._jvm)
        await_ready([self], expected=frozenset({self.node_id}))

    def stop(self) -> None:
        """Ask the broker to end, and make it end when it does not within seconds."""
        if self._process is None:
            return
        self.ask_to_stop()
        try:
            self._process.wait(_STOP_SECONDS)
        except subprocess.TimeoutExpired:
            self._process.kill()
        self._forget_process()

    def ask_to_stop(self) -> None:
        """Send SIGTERM without waiting, so that several brokers can end at the same time."""
        # A suspended process would not see it.
        self.resume()
        self._signal(signal.SIGTERM)

    def kill(self) -> None:
        """SIGKILL: no goodbye to the cluster, nothing flushed."""
        self._signal(signal.SIGKILL)
        self._forget_process()

    def suspend(self) -> None:
        """SIGSTOP: connections stay open and nothing answers; returns when all threads stand."""
        if self._process is not None and self.running:
            self._process.send_signal(signal.SIGSTOP)
            # On a busy machine a thread may run on for a moment. The status stays for `running`.
            os.waitid(os.P_PID, self._process.pid, os.WSTOPPED | os.WEXITED | os.WNOWAIT)

    def resume(self) -> None:
        """SIGCONT after `suspend()`."""
        self._signal(signal.SIGCONT)

    def membership(self) -> Membership | None:
        """The brokers this one sees, or None while it does not answer."""
        return membership(HOST, self.port)

    def log_tail(self) -> str:
        """The last lines of what the broker has logged since its latest start."""
        if not self.log_file.exists():
            return ""
        with self.log_file.open("rb") as log:
            end = log.seek(0, 2)
            log.seek(max(self._log_start, end - _TAIL_BYTES))
            text = log.read().decode(errors="replace")
        return "\n".join(text.splitlines()[-_TAIL_LINES:])

    def failure(self, what: str) -> SetupError:
        """The error that says what became of this broker, with the end of its log."""
        tail = self.log_tail() or "(the log is empty)"
        return SetupError(
            f"Broker {self.node_id} of the local cluster {self.cluster} {what}; "
            f"the end of {self.log_file} says:\n{tail}"
        )

    def lost_its_port(self) -> bool:
        """Whether the broker ended because somebody else had one of its ports."""
        return not self.running and "Address already in use" in self.log_tail()

    def _signal(self, number: signal.Signals) -> None:
        if self._process is not None and self.running:
            self._process.send_signal(number)

    def _forget_process(self) -> None:
        """Reap what has ended or was killed; the pid may mean another program from then on."""
        self._end_watch()
        if self._process is not None:
            ended = self._process.wait(_KILL_SECONDS)
            if self._jvm is not None and ended in _CLEAN_ENDS:
                self._jvm.archive.publish(self._recording)
            self._recording.unlink(missing_ok=True)
            self._process = None

    def _end_watch(self) -> None:
        if self._watch is not None:
            self._watch.kill()
            self._watch.communicate(timeout=_KILL_SECONDS)
            self._watch = None
