# SPDX-License-Identifier: Apache-2.0
"""Debian's Prometheus on a free port of the loopback interface; `make monitoring` fetches it."""

from __future__ import annotations

import json
import math
import shutil
import subprocess
import urllib.error
import urllib.request
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Self
from urllib.parse import urlencode

from sparkmirror.devcluster.ports import HOST, ReservedPort
from support.waiting import PATIENCE_SECONDS, eventually

_ROOT = Path(__file__).parents[3]
_FETCHED = _ROOT / "build" / "prometheus" / "usr" / "bin"
_STOP_SECONDS = 30.0


def program(name: str) -> str:
    """The path of prometheus or promtool."""
    found = shutil.which(name) or shutil.which(name, path=_FETCHED)
    assert found, f"{name} is missing: make monitoring fetches it"
    return found


def scrape_job(
    name: str, target: str, labels: Mapping[str, str] | None = None, relabel: str = ""
) -> str:
    """A job of the configuration; `relabel` is the text of a file in deploy/prometheus/relabel."""
    static = json.dumps([{"targets": [target], "labels": dict(labels or {})}])
    lines = [f"  - job_name: {name}", f"    static_configs: {static}"]
    lines += [f"    {line}" for line in relabel.splitlines()]
    return "\n".join(lines)


class PrometheusServer:
    """Scrapes every second; a context manager."""

    def __init__(self, directory: Path, jobs: Sequence[str], rules: Sequence[Path] = ()) -> None:
        directory.mkdir(parents=True, exist_ok=True)
        config = directory / "prometheus.yml"
        lines = ["global: {scrape_interval: 1s, scrape_timeout: 1s, evaluation_interval: 1s}"]
        lines += [f"rule_files: {json.dumps([str(one) for one in rules])}", "scrape_configs:"]
        config.write_text("\n".join([*lines, *jobs, ""]), encoding="utf-8")
        self._port = ReservedPort()
        self._port.reserve()
        self._log = directory / "prometheus.log"
        self._command = [
            program("prometheus"),
            f"--config.file={config}",
            f"--storage.tsdb.path={directory / 'data'}",
            f"--web.listen-address={HOST}:{self._port.number}",
        ]
        self._process: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> Self:
        self._port.release()  # a Go program does not set SO_REUSEADDR as Java does
        with self._log.open("wb") as log:
            self._process = subprocess.Popen(
                self._command, stdin=subprocess.DEVNULL, stdout=log, stderr=subprocess.STDOUT
            )
        eventually(self._is_ready, PATIENCE_SECONDS, "Prometheus serves", not_yet=(OSError,))
        return self

    def __exit__(
        self,
        _kind: type[BaseException] | None,
        _error: BaseException | None,
        _traceback: TracebackType | None,
    ) -> None:
        assert self._process is not None
        self._process.terminate()
        self._process.wait(_STOP_SECONDS)

    def _is_ready(self) -> bool:
        assert self._process is not None
        assert self._process.poll() is None, self._log.read_text("utf-8")[-2000:]
        with urllib.request.urlopen(f"http://{HOST}:{self._port.number}/-/ready") as answer:
            return bool(answer.status == 200)

    def _get(self, path: str, **parameters: str) -> Any:
        url = f"http://{HOST}:{self._port.number}/api/v1/{path}?{urlencode(parameters)}"
        try:
            with urllib.request.urlopen(url, timeout=PATIENCE_SECONDS) as answer:
                return json.load(answer)["data"]
        except urllib.error.HTTPError as error:
            raise ValueError(f"{parameters}: {error.read().decode()}") from error

    def now(self) -> float:
        """Prometheus' time."""
        return float(self._get("query", query="time()")["result"][1])

    def query(self, text: str) -> list[float]:
        """The values of a query that are numbers."""
        result = self._get("query", query=text)["result"]
        values = [float(one["value"][1]) for one in result]
        return [value for value in values if not math.isnan(value)]

    def firing(self) -> set[str]:
        """The names of the alerts that fire."""
        alerts = self._get("alerts")["alerts"]
        return {one["labels"]["alertname"] for one in alerts if one["state"] == "firing"}

    def rule_errors(self) -> list[str]:
        """The errors of rules that cannot be evaluated."""
        groups = self._get("rules")["groups"]
        return [
            one["lastError"] for group in groups for one in group["rules"] if "lastError" in one
        ]
