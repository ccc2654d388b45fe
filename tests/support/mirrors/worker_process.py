# SPDX-License-Identifier: Apache-2.0
"""`sparkmirror worker` in a separate process, controlled over its REST API."""

from __future__ import annotations

import contextlib
import signal
from collections.abc import Mapping
from pathlib import Path
from typing import Self

import psutil

from sparkmirror.devcluster.ports import HOST, ReservedPort
from support.clients.connect_rest import ConnectRestClient
from support.clients.librdkafka import Cluster
from support.mirrors.java_connect import ConnectTopics
from support.mirrors.mirror_process import MirrorProcess
from support.unique_names import unique_name
from support.waiting import PATIENCE_SECONDS, eventually


class _Process(MirrorProcess):
    verb = "worker"


class WorkerProcess(ConnectRestClient):
    """A running worker of a group on one cluster; a context manager that kills what is left."""

    def __init__(
        self,
        cluster: Cluster,
        scratch: Path,
        topics: ConnectTopics,
        *,
        environment: Mapping[str, str] | None = None,
        **more: str,
    ) -> None:
        self._port = ReservedPort()
        self._port.reserve()
        super().__init__(f"{HOST}:{self._port.number}")
        file = scratch / f"{unique_name('worker')}.properties"
        file.write_text(topics.worker_file(cluster, self._port.number, **more), encoding="utf-8")
        self._port.prepare_bind()
        self.process = _Process(file, environment=environment)

    def __enter__(self) -> Self:
        self.process.__enter__()
        return self

    def __exit__(self, *error: object) -> None:
        self.process.__exit__(*error)  # type: ignore[arg-type]
        self._port.release()

    def await_health(self, seconds: float = PATIENCE_SECONDS) -> None:
        """Wait until the group has taken it in."""

        def healthy() -> bool:
            assert self.process.is_running, self.process.log
            return self.request("GET", "/health")[0] == 200

        eventually(healthy, seconds, "the worker is healthy", not_yet=(OSError,))

    @property
    def url(self) -> str:
        """By which other workers know it."""
        return f"http://{self.worker_id}/"

    def suspend(self, *, everything: bool) -> None:
        """SIGSTOP, to the worker alone or to all that it has started as well."""
        self._signal(signal.SIGSTOP, everything=everything)

    def wake_up(self) -> None:
        """SIGCONT to all of it."""
        self._signal(signal.SIGCONT, everything=True)

    def _signal(self, number: signal.Signals, *, everything: bool) -> None:
        for one in self.process.processes():
            if everything or one.pid == self.process.pid:
                with contextlib.suppress(psutil.NoSuchProcess):
                    one.send_signal(number)

    def kill(self) -> None:
        """SIGKILL to the worker and all it has started, at once: the machine is gone."""
        self.process.kill_everything()
