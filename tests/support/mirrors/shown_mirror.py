# SPDX-License-Identifier: Apache-2.0
"""A running mirror and everything that it shows about a flow, in one value."""

from __future__ import annotations

import json
import sys
import urllib.error
import urllib.request
from dataclasses import dataclass, field
from pathlib import Path

import typer
from typer.testing import CliRunner

from sparkmirror.cli import connect_commands
from sparkmirror.devcluster.ports import HOST, ReservedPort
from support.clients.prometheus import Sample, scrape
from support.mirrors import both_views
from support.mirrors.mirror_process import MirrorProcess
from support.waiting import PATIENCE_SECONDS

HEADINGS = ("connector", "type", "state", "tasks", "worker", "class", "lag", "latency", "problem")
_app = typer.Typer()
connect_commands.add_connect_commands(_app)


@dataclass(frozen=True, slots=True)
class Shown:
    """What one flow shows at one moment; a process that has ended answers nothing."""

    get: dict[str, str]  # the line of its source connector, by heading
    live: str  # the lines of the live view that name the flow
    log: str  # the lines of the log since a given one that name the flow
    health: int = 0
    ready: int = 0
    metrics: dict[Sample, float] = field(default_factory=dict)
    rest: str = ""  # /status and /lag as JSON


class ShownMirror:
    """A process of `sparkmirror run` with REST, metrics and both views; a context manager."""

    def __init__(self, directory: Path, lines: list[str]) -> None:
        self._rest, self._metrics = ReservedPort(), ReservedPort()
        for port in (self._rest, self._metrics):
            port.reserve()
            port.prepare_bind()
        directory.mkdir()
        self._file = directory / "mm2.properties"
        ports = [f"listeners = {self.url}", f"metrics.port = {self._metrics.number}", ""]
        self._file.write_text("\n".join([*lines, *ports]), encoding="utf-8")
        self._frames = directory / "frames"
        self.process = MirrorProcess(
            self._file,
            environment={"FRAMES": str(self._frames), "PYTHONPATH": str(_TESTS)},
            prefix=(sys.executable, str(both_views.__file__)),
        )
        self.log_start = 0

    def __enter__(self) -> ShownMirror:
        return self

    def __exit__(self, *error: object) -> None:
        self.process.__exit__(*error)  # type: ignore[arg-type]
        for port in (self._rest, self._metrics):
            port.release()

    @property
    def url(self) -> str:
        return f"http://{HOST}:{self._rest.number}"

    def forget_log(self) -> None:
        """Show only lines that are logged from now on."""
        self.log_start = len(self.process.log)

    def put(self, path: str) -> int:
        request = urllib.request.Request(f"{self.url}{path}", method="PUT")
        with urllib.request.urlopen(request, timeout=PATIENCE_SECONDS) as answer:
            return int(answer.status)

    def shown(self, flow: str) -> Shown:
        """Everything that it shows about a flow."""
        log = self.process.log[self.log_start :].splitlines()
        if not self.process.is_running:
            done = CliRunner().invoke(_app, ["get", "connectors", "--url", self.url])
            get = {"exit": str(done.exit_code), "problem": done.output}
            return Shown(get, "", "\n".join(log))
        name = f"{flow}.MirrorSourceConnector"
        done = CliRunner().invoke(_app, ["get", "connectors", name, "--url", self.url])
        line = done.stdout.rstrip("\n").split("\t")
        path = f"/connectors/{name.replace('>', '%3E')}"
        status, lag = self._get(f"{path}/status")[1], self._get(f"{path}/lag")[1]
        frame = self._frames.read_text(encoding="utf-8").splitlines()
        return Shown(
            dict(zip(HEADINGS, line, strict=False)),
            "\n".join(" ".join(one.split()) for one in frame if one.startswith(flow)),
            "\n".join(one for one in log if flow in one),
            self._get("/health")[0],
            self._get("/health/ready")[0],
            scrape(HOST, self._metrics.number),
            f"{json.dumps(json.loads(status))}\n{json.dumps(json.loads(lag))}",
        )

    def _get(self, path: str) -> tuple[int, str]:
        try:
            with urllib.request.urlopen(f"{self.url}{path}", timeout=PATIENCE_SECONDS) as answer:
                return int(answer.status), answer.read().decode()
        except urllib.error.HTTPError as error:
            return error.code, error.read().decode()


_TESTS = Path(both_views.__file__).parents[2]
