# SPDX-License-Identifier: Apache-2.0
"""Looks for secrets in everything that a running mirror has written or shows."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from urllib.parse import quote
from urllib.request import urlopen

import psutil

from support.mirror_process import MirrorProcess

_SECONDS = 30.0
_PAGES = (
    "",
    "/connectors?expand=info&expand=status",
    "/health",
    "/admin/loggers",
    "/connector-plugins",
)
_SPARK_PAGES = ("jobs", "stages", "environment", "executors", "api/v1/applications")
_SPACIOUS = (".index", ".timeindex")  # of brokers: megabytes of nothing


def leaks(
    secrets: Iterable[str],
    mirror: MirrorProcess,
    *folders: Path,
    connectors: Sequence[str] = (),
    spark_port: int | None = None,
) -> list[str]:
    """Where secrets were found: log, REST, folders, processes, and Spark's own web pages.

    The processes' memory is theirs; command lines and environments are everybody's. `connectors`
    are those of a worker, by name.
    """
    wanted = [one.encode() for one in secrets]
    written = [*_written(mirror, folders, connectors), *_spark_pages(spark_port)]
    return [where for where, text in written if any(one in text for one in wanted)]


def _written(
    mirror: MirrorProcess, folders: Iterable[Path], connectors: Sequence[str]
) -> Iterator[tuple[str, bytes]]:
    yield "log", mirror.log.encode()
    for process in mirror.processes():
        with contextlib.suppress(psutil.NoSuchProcess):
            yield f"command line of {process.pid}", "\0".join(process.cmdline()).encode()
            yield f"environment of {process.pid}", str(process.environ()).encode()
    yield from _answers(mirror, connectors or _of_flows(mirror))
    for folder in folders:
        for file in folder.rglob("*"):
            with contextlib.suppress(FileNotFoundError):  # Spark tidies up
                if file.is_file() and file.suffix not in _SPACIOUS:
                    yield str(file), file.read_bytes()


def _of_flows(mirror: MirrorProcess) -> list[str]:
    flows = set(re.findall(r"(\S+->\S+): RUNNING", mirror.log))
    return [f"{flow}.MirrorSourceConnector" for flow in sorted(flows)]


def _answers(mirror: MirrorProcess, connectors: Sequence[str]) -> Iterator[tuple[str, bytes]]:
    [root] = re.findall(r"advertised as (http://\S+?)/?$", mirror.log, re.MULTILINE)
    assert connectors
    parts = ("/config", "/status", "/tasks")
    paths = [f"/connectors/{quote(one)}{what}" for one in connectors for what in parts]
    for path in [*_PAGES, *paths]:
        with urlopen(f"{root}{path}", timeout=_SECONDS) as answer:  # noqa: S310 - our own server
            yield path, answer.read()


def _spark_pages(port: int | None) -> Iterator[tuple[str, bytes]]:
    for page in _SPARK_PAGES if port is not None else ():
        url = f"http://127.0.0.1:{port}/{page}/"
        with urlopen(url, timeout=_SECONDS) as answer:
            yield url, answer.read()
