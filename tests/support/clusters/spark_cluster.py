# SPDX-License-Identifier: Apache-2.0
"""A standalone Spark cluster on loopback, from the pyspark package: a master and workers."""

from __future__ import annotations

import contextlib
import os
import re
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from importlib.metadata import distribution
from pathlib import Path
from subprocess import PIPE, STDOUT
from types import TracebackType
from typing import Self
from urllib.parse import urlencode
from urllib.request import urlopen

import psutil

from sparkmirror.devcluster.server_process import ServerProcess
from support.waiting import PATIENCE_SECONDS, eventually

_LOOPBACK = "127.0.0.1"
_OF_THE_MACHINE = ("PATH", "HOME", "LANG", "JAVA_HOME", "TMPDIR")
_KILL_FORM = re.compile(r'<form action="app/kill/".*?</form>', re.DOTALL)
_FIELD = re.compile(r'<input type="hidden" name="(\w+)" value="([^"]*)"')
_DEPLOY = "org.apache.spark.deploy"


_OTHER = """
import sys
from pyspark import SparkConf, SparkContext
conf = SparkConf().setMaster("{master}").setAppName("other")
conf.set("spark.cores.max", "{cores}").set("spark.executor.memory", "512m")
conf.set("spark.driver.host", "127.0.0.1").set("spark.ui.enabled", "false")
spark = SparkContext(conf=conf)
assert spark.parallelize(range({cores}), {cores}).map(abs).count() == {cores}
print("holds its cores", flush=True)
sys.stdin.read()
"""


class _SparkServer(ServerProcess):
    """A daemon of Spark; `settings` are system properties of its JVM."""

    def __init__(
        self, title: str, log_file: Path, arguments: Sequence[str], settings: Mapping[str, str]
    ) -> None:
        super().__init__(cluster="spark", title=title, log_file=log_file, detached=False)
        self._arguments = arguments
        self._settings = settings

    def start(self) -> None:
        home = Path(str(distribution("pyspark").locate_file("pyspark")))
        options = " ".join(f"-D{key}={value}" for key, value in self._settings.items())
        # Executors inherit this and nothing else: as on another machine.
        environment = {
            **{key: os.environ[key] for key in _OF_THE_MACHINE if key in os.environ},
            "SPARK_HOME": str(home),
            "SPARK_LOCAL_IP": _LOOPBACK,
            "SPARK_DAEMON_MEMORY": "256m",
            "SPARK_DAEMON_JAVA_OPTS": f"-XX:TieredStopAtLevel=1 -XX:+UseSerialGC {options}",
        }
        setting = [f"{key}={value}" for key, value in environment.items()]
        self._spawn(["env", "-i", *setting, str(home / "bin" / "spark-class"), *self._arguments])

    def await_line(self, pattern: str) -> re.Match[str]:
        """Wait for a line of the log since the latest start."""

        def found() -> re.Match[str] | None:
            if not self.running:
                raise self.error("ended")
            text = self.log_file.read_bytes()[self._log_start :].decode(errors="replace")
            return re.search(pattern, text)

        answer = eventually(found, PATIENCE_SECONDS, f"{pattern} in {self.log_file}")
        assert answer
        return answer


class SparkCluster:
    """A master and its workers, from `with` to its end; nothing is left behind."""

    def __init__(self, directory: Path, *, recovery: bool = False, port: int = 0) -> None:
        self._directory = directory
        self._directory.mkdir(parents=True, exist_ok=True)
        self._recovery = recovery
        self._port = port
        self._page = 0  # the port of the master's web page
        self._stack = ExitStack()
        self.workers: list[_SparkServer] = []
        self.master = self._new_master()

    def __enter__(self) -> Self:
        self._stack.callback(self._stop)
        self.start_master()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._stack.__exit__(kind, error, traceback)

    @property
    def url(self) -> str:
        return f"spark://{_LOOPBACK}:{self._port}"

    @property
    def directory(self) -> Path:
        """Logs of the daemons, and folders of the workers with those of executors."""
        return self._directory

    def start_master(self) -> None:
        """Start the master, after a kill on the same port."""
        self.master = self._new_master()
        self.master.start()
        found = self.master.await_line(rf"Starting Spark master at spark://{_LOOPBACK}:(\d+)")
        self._port = int(found[1])
        found = self.master.await_line(r"MasterWebUI.*http://[\w.]+:(\d+)")
        self._page = int(found[1])
        self.master.await_line("I have been elected leader")

    def add_worker(self, *, cores: int = 2, memory: str = "2g") -> _SparkServer:
        """Start a worker and wait until the master has registered it."""
        name = f"worker-{len(self.workers)}"
        arguments = (
            f"{_DEPLOY}.worker.Worker",
            f"--host={_LOOPBACK}",
            "--port=0",
            "--webui-port=0",
            f"--cores={cores}",
            f"--memory={memory}",
            f"--work-dir={self._directory / name}",
            self.url,
        )
        settings = {"spark.worker.timeout": "10"}  # its heartbeats are a quarter of it apart
        log_file = self._directory / f"{name}.log"
        worker = _SparkServer(f"Worker {name}", log_file, _spaced(arguments), settings)
        self.workers.append(worker)
        worker.start()
        worker.await_line("Successfully registered with master")
        return worker

    def kill_worker(self, worker: _SparkServer) -> None:
        """SIGKILL to a worker, its executors and their Python processes: a machine goes away."""
        assert worker.pid
        everyone = psutil.Process(worker.pid).children(recursive=True)
        worker.kill()
        for one in everyone:
            with contextlib.suppress(psutil.NoSuchProcess):
                one.kill()
        psutil.wait_procs(everyone, PATIENCE_SECONDS)

    def kill_applications(self) -> None:
        """Remove all running applications with the forms of the master's web page."""
        page = f"http://{_LOOPBACK}:{self._page}"
        with urlopen(f"{page}/", timeout=PATIENCE_SECONDS) as answer:  # noqa: S310 - ours
            forms = _KILL_FORM.findall(answer.read().decode())
        assert forms, "the page lists no running application"
        for form in forms:
            fields = urlencode(_FIELD.findall(form)).encode()
            with urlopen(f"{page}/app/kill/", fields, timeout=PATIENCE_SECONDS):  # noqa: S310
                pass

    @contextmanager
    def other_application(self, log_file: Path, *, cores: int) -> Iterator[None]:
        """Run another application, which holds these cores until the end."""
        text = _OTHER.format(master=self.url, cores=cores)
        with log_file.open("wb") as log:
            process = psutil.Popen(
                [sys.executable, "-c", text], stdin=PIPE, stdout=log, stderr=STDOUT
            )
        try:
            eventually(
                lambda: b"holds its cores" in log_file.read_bytes(),
                PATIENCE_SECONDS,
                f"the other application, see {log_file}",
            )
            yield
        finally:
            everyone = [process, *process.children(recursive=True)]
            for one in everyone:
                with contextlib.suppress(psutil.NoSuchProcess):
                    one.kill()
            process.communicate()

    def processes(self) -> list[psutil.Process]:
        """Everything that the workers have started: executors and their Python processes."""
        return [
            one
            for worker in self.workers
            if worker.pid
            for one in psutil.Process(worker.pid).children(recursive=True)
        ]

    def executors(self) -> list[psutil.Process]:
        """The executors of all workers."""
        return [one for one in self.processes() if _runs(one, "CoarseGrainedExecutorBackend")]

    def python_workers(self) -> list[psutil.Process]:
        """The processes of Python tasks: children of an executor's daemon."""
        found = []
        for one in self.processes():
            with contextlib.suppress(psutil.NoSuchProcess):
                parent = one.parent()
                if _runs(one, "daemon") and parent and _runs(parent, "daemon"):
                    found.append(one)
        return found

    def _new_master(self) -> _SparkServer:
        arguments = (
            f"{_DEPLOY}.master.Master",
            f"--host={_LOOPBACK}",
            f"--port={self._port}",
            "--webui-port=0",
        )
        settings = {"spark.master.rest.enabled": "false", "spark.worker.timeout": "10"}
        if self._recovery:
            settings |= {
                "spark.deploy.recoveryMode": "FILESYSTEM",
                "spark.deploy.recoveryDirectory": str(self._directory / "recovery"),
            }
        log_file = self._directory / "master.log"
        return _SparkServer("The master", log_file, _spaced(arguments), settings)

    def _stop(self) -> None:
        for worker in self.workers:
            if worker.pid:
                self.kill_worker(worker)
        self.master.kill()


def _runs(process: psutil.Process, word: str) -> bool:
    """Whether a process is alive and its command names this."""
    try:
        return any(word in argument for argument in process.cmdline())
    except psutil.NoSuchProcess:
        return False


def _spaced(arguments: Sequence[str]) -> list[str]:
    """Spark's daemons take an option and its value as two arguments."""
    return [part for one in arguments for part in one.split("=", 1)]
