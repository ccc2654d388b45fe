# SPDX-License-Identifier: Apache-2.0
"""Looks for secrets in everything that a running mirror has written or shows."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterable, Iterator
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
_SPACIOUS = (".index", ".timeindex")  # of brokers: megabytes of nothing


def leaks(secrets: Iterable[str], mirror: MirrorProcess, *folders: Path) -> list[str]:
    """Where secrets were found: in the log, over REST, in folders, and with any of its processes.

    The processes' memory is theirs; command lines and environments are everybody's.
    """
    wanted = [one.encode() for one in secrets]
    return [
        where for where, text in _written(mirror, folders) if any(one in text for one in wanted)
    ]


def _written(mirror: MirrorProcess, folders: Iterable[Path]) -> Iterator[tuple[str, bytes]]:
    yield "log", mirror.log.encode()
    for process in mirror.processes():
        with contextlib.suppress(psutil.NoSuchProcess):
            yield f"command line of {process.pid}", "\0".join(process.cmdline()).encode()
            yield f"environment of {process.pid}", str(process.environ()).encode()
    yield from _answers(mirror)
    for folder in folders:
        for file in folder.rglob("*"):
            with contextlib.suppress(FileNotFoundError):  # Spark tidies up
                if file.is_file() and file.suffix not in _SPACIOUS:
                    yield str(file), file.read_bytes()


def _answers(mirror: MirrorProcess) -> Iterator[tuple[str, bytes]]:
    [root] = re.findall(r"advertised as (http://\S+?)/?$", mirror.log, re.MULTILINE)
    flows = set(re.findall(r"(\S+->\S+): RUNNING", mirror.log))
    connectors = [f"/connectors/{quote(flow)}.MirrorSourceConnector" for flow in sorted(flows)]
    assert connectors
    paths = [f"{one}{what}" for one in connectors for what in ("/config", "/status", "/tasks")]
    for path in [*_PAGES, *paths]:
        with urlopen(f"{root}{path}", timeout=_SECONDS) as answer:  # noqa: S310 - our own server
            yield path, answer.read()
