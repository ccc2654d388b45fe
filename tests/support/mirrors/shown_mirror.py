# SPDX-License-Identifier: Apache-2.0
"""A running mirror and everything that it shows about a flow, in one value."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Self

import typer
from typer.testing import CliRunner

from sparkmirror.cli import connect_commands
from sparkmirror.devcluster.ports import HOST, ReservedPort
from support.clients.connect_rest import ConnectRestClient
from support.clients.prometheus import Sample, scrape
from support.mirrors import both_views
from support.mirrors.mirror_process import MirrorProcess

_GET = ("connector", "type", "state", "tasks", "worker", "class", "lag", "latency", "problem")
_LIVE = (
    *("flow", "state", "topics", "partitions", "records", "records/s", "bytes/s", "lag"),
    *("latency p50", "latency p99", "copy p50", "copy p99", "reason"),
)
_GAP = re.compile(r" {2,}")  # between two columns of a table
_app = typer.Typer()
connect_commands.add_connect_commands(_app)


@dataclass(frozen=True, slots=True)
class Shown:
    """What one flow shows at one moment; a process that has ended answers nothing."""

    get: dict[str, str]  # the line of its source connector, by heading
    live: dict[str, str]  # its line of the live view, and the lines below it as `problem`
    log: str  # the lines of the log since a given one that name the flow
    health: int = 0
    ready: int = 0
    metrics: dict[Sample, float] = field(default_factory=dict)
    rest: str = ""  # /status and /lag as JSON


class ShownMirror:
    """A process of `sparkmirror run` with REST, metrics and both views; a context manager."""

    def __init__(self, directory: Path, lines: Sequence[str]) -> None:
        self._port, self._metrics = ReservedPort(), ReservedPort()
        for port in (self._port, self._metrics):
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
        self.rest = ConnectRestClient(f"{HOST}:{self._port.number}")
        self.log_start = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.process.__exit__(*error)  # type: ignore[arg-type]
        for port in (self._port, self._metrics):
            port.release()

    @property
    def url(self) -> str:
        return f"http://{HOST}:{self._port.number}"

    def forget_log(self) -> None:
        """Show only lines that are logged from now on."""
        self.log_start = len(self.process.log)

    def shown(self, flow: str) -> Shown:
        """Everything that it shows about a flow."""
        log = self.process.log[self.log_start :].splitlines()
        if not self.process.is_running:
            done = CliRunner().invoke(_app, ["get", "connectors", "--url", self.url])
            get = {"exit": str(done.exit_code), "problem": done.output}
            return Shown(get, {}, "\n".join(log))
        name = f"{flow}.MirrorSourceConnector"
        done = CliRunner().invoke(_app, ["get", "connectors", name, "--url", self.url])
        line = done.stdout.rstrip("\n").split("\t")
        path = f"/connectors/{name.replace('>', '%3E')}"
        answers = [self.rest.get(f"{path}/{part}") for part in ("status", "lag")]
        frame = self._frames.read_text(encoding="utf-8").splitlines()
        row, *below = (one for one in frame if one.startswith(flow))
        return Shown(
            dict(zip(_GET, line, strict=True)),
            {
                **dict(zip(_LIVE, _GAP.split(row.strip()), strict=False)),
                "problem": "\n".join(one for one in below if one.startswith(flow)),
            },
            "\n".join(one for one in log if flow in one),
            *(self.rest.request("GET", path)[0] for path in ("/health", "/health/ready")),
            scrape(HOST, self._metrics.number),
            "\n".join(map(json.dumps, answers)),
        )


_TESTS = Path(both_views.__file__).parents[2]
