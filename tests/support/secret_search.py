# SPDX-License-Identifier: Apache-2.0
"""Looks for secrets in everything that a running mirror has written or shows."""

from __future__ import annotations

import contextlib
import html
import json
import re
from base64 import b64encode
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from urllib.error import HTTPError
from urllib.parse import quote
from urllib.request import Request, urlopen

import psutil
import pytest
from typer.testing import CliRunner

from sparkmirror.cli.main import app
from support.mirrors.mirror_process import MirrorProcess
from support.waiting import PATIENCE_SECONDS

_PAGES = (
    "",
    "/connectors?expand=info&expand=status",
    "/health",
    "/admin/loggers",
    "/connector-plugins",
)
_SPARK_PAGES = ("jobs", "stages", "environment", "executors", "api/v1/applications")
_COMMANDS = (("check", "--connect"), ("plan", "--json"))
_SPACIOUS = (".index", ".timeindex")  # of brokers: megabytes of nothing


def forms(secret: str) -> set[bytes]:
    """How a secret may be written: as it is, as JSON, in a page or an address, as base64.

    In base64 its first byte may be any of three, so what its neighbours change is left out.
    """
    text = secret.encode()
    coded = {
        b64encode(bytes(shift) + text)[-(-shift * 8 // 6) : (shift + len(text)) * 8 // 6]
        for shift in range(3)
    }
    escaped = (json.dumps(secret)[1:-1], html.escape(secret), quote(secret))
    return {text, *coded, *(one.encode() for one in escaped)}


def log_everything(mirror: MirrorProcess) -> None:
    """From now on its log has everything that any logger says."""
    mirror.await_log("advertised as", PATIENCE_SECONDS)
    _ask(mirror, "PUT", "/admin/loggers/root", {"level": "DEBUG"})


def leaks(
    secrets: Sequence[str],
    mirror: MirrorProcess,
    *folders: Path,
    connectors: Sequence[str] = (),
    spark_port: int | None = None,
    file: Path | None = None,
) -> list[str]:
    """Where secrets were found: log, REST, folders, processes, and Spark's own web pages.

    The processes' memory is theirs; command lines and environments are everybody's. `connectors`
    are those of a worker, by name. About `file` other commands are asked, too.
    """
    wanted = {form for one in secrets for form in forms(one)}
    written = [
        *_refusals(mirror, secrets),
        *_written(mirror, folders, connectors),
        *_spark_pages(spark_port),
        *(() if file is None else _printed(file)),
    ]
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
    assert connectors
    parts = ("/config", "/status", "/tasks")
    paths = [f"/connectors/{quote(one)}{what}" for one in connectors for what in parts]
    for path in [*_PAGES, *paths]:
        yield path, _ask(mirror, "GET", path)


def _refusals(mirror: MirrorProcess, secrets: Sequence[str]) -> Iterator[tuple[str, bytes]]:
    """What is said to somebody who sends secrets in a configuration that is wrong."""
    config = {
        "connector.class": "MirrorSourceConnector",
        "name": "wrong",
        "tasks.max": "many",
        "source.cluster.alias": "a",
        "source.cluster.bootstrap.servers": "nowhere.invalid:1",
        "source.cluster.security.protocol": "SASL_SSL",
        "source.cluster.sasl.mechanism": "PLAIN",
        "source.cluster.sasl.jaas.config": " ".join(secrets),
        "source.cluster.ssl.keystore.type": "PEM",
        "source.cluster.ssl.keystore.key": secrets[0],
    }
    plugin = "/connector-plugins/MirrorSourceConnector/config/validate"
    yield "validation", _ask(mirror, "PUT", plugin, config)
    for what, body in (("refusal", {"name": "wrong", "config": config}), ("nonsense", secrets[0])):
        with pytest.raises(HTTPError) as refused:
            _ask(mirror, "POST", "/connectors", body)
        yield what, refused.value.read()


def _ask(mirror: MirrorProcess, method: str, path: str, body: object = None) -> bytes:
    [root] = re.findall(r"advertised as (http://\S+?)/?$", mirror.log, re.MULTILINE)
    request = Request(  # noqa: S310 - our own server
        f"{root}{path}",
        None if body is None else json.dumps(body).encode(),
        {"Content-Type": "application/json"},
        method=method,
    )
    with urlopen(request, timeout=PATIENCE_SECONDS) as answer:  # noqa: S310
        content: bytes = answer.read()
        return content


def _printed(file: Path) -> Iterator[tuple[str, bytes]]:
    """What other commands say of the file."""
    for verb, option in _COMMANDS:
        done = CliRunner().invoke(app, [verb, str(file), option])
        assert done.exit_code == 0, done.output
        yield f"{verb} {option}", done.output.encode()


def _spark_pages(port: int | None) -> Iterator[tuple[str, bytes]]:
    for page in _SPARK_PAGES if port is not None else ():
        url = f"http://127.0.0.1:{port}/{page}/"
        with urlopen(url, timeout=PATIENCE_SECONDS) as answer:
            yield url, answer.read()
