# SPDX-License-Identifier: Apache-2.0
"""`--url` with a properties file."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

from sparkmirror.cli.main import app
from sparkmirror.cli.worker_address import worker_url
from sparkmirror.errors import ConfigError
from sparkmirror.system.served_urls import publish_url, published_url, withdraw_url
from support.peers.stub_worker import StubResponse, StubWorker

CLUSTERS = "clusters = a, b\na.bootstrap.servers = a:1\nb.bootstrap.servers = b:1\n"
WORKER = (
    "bootstrap.servers = a:1\ngroup.id = g\nconfig.storage.topic = c\noffset.storage.topic = o\n"
    "status.storage.topic = s\nlisteners = http://:9083\n"
)


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A cache directory of the test."""
    monkeypatch.setenv("SPARKMIRROR_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"


def write(directory: Path, text: str) -> Path:
    file = directory / "mm2.properties"
    file.write_text(text)
    return file


@pytest.mark.parametrize("url", ["http://localhost:8083", "https://host/x", "absent.properties"])
def test_what_is_no_file_is_taken_for_a_url(url: str) -> None:
    assert worker_url(url) == url


@pytest.mark.parametrize(
    ("text", "url"),
    [
        (f"{CLUSTERS}listeners = http://127.0.0.1:9000, http://x:1\n", "http://127.0.0.1:9000"),
        (f"{CLUSTERS}listeners = http://0.0.0.0:9000\n", "http://localhost:9000"),
        (f"{CLUSTERS}listeners = http://[::1]:9000\n", "http://[::1]:9000"),
        (WORKER, "http://localhost:9083"),
    ],
)
def test_a_file_with_listeners_names_the_url(tmp_path: Path, text: str, url: str) -> None:
    assert worker_url(str(write(tmp_path, text))) == url


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        (CLUSTERS, "No run of .*mm2.properties was found on this machine"),
        (f"{CLUSTERS}listeners =\n", "serves no REST API"),
        ("{}", "is not a properties file"),
    ],
)
def test_a_file_without_a_port_needs_a_running_process(
    tmp_path: Path, text: str, sentence: str
) -> None:
    """Port 8083 may belong to another mirror."""
    with pytest.raises(ConfigError, match=sentence):
        worker_url(str(write(tmp_path, text)))


def test_a_command_finds_the_run_of_a_file(tmp_path: Path) -> None:
    file = write(tmp_path, CLUSTERS)
    with StubWorker() as server:
        server.on("GET", "/connectors", StubResponse(200, []))
        server.on("GET", "/connectors?expand=status&expand=info", StubResponse(200, {}))
        publish_url(file, f"{server.url}/")
        done = CliRunner().invoke(app, ["get", "connectors", "--json", "--url", str(file)])
        assert (done.exit_code, done.stdout.strip()) == (0, "[]"), done.output
    withdraw_url(file)
    done = CliRunner().invoke(app, ["get", "connectors", "--url", str(file)])
    assert done.exit_code == 2
    assert "was found on this machine" in " ".join(done.output.split())


def test_the_default_url_names_the_runs_at_other_addresses(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A run takes another port if 8083 is taken; a command without --url says so when it fails."""
    monkeypatch.delenv("SPARKMIRROR_URL", raising=False)
    file = write(tmp_path, CLUSTERS)
    publish_url(file, "http://127.0.0.1:45213")
    try:
        done = CliRunner().invoke(app, ["describe", f"absent-{tmp_path.name}"])
    finally:
        withdraw_url(file)
    assert done.exit_code in (1, 3)  # something else may listen at 8083 here
    said = f"A run on this machine serves at http://127.0.0.1:45213: use --url {file}"
    assert said in " ".join(done.stderr.split())


def test_of_several_processes_with_a_file_the_oldest_is_found(tmp_path: Path, cache: Path) -> None:
    """The newer one is on standby."""
    file = write(tmp_path, CLUSTERS)
    publish_url(file, "http://127.0.0.1:2/")
    (own,) = (cache / "served").iterdir()
    # The parent of the test process is alive, too.
    other = own.with_name(own.name.replace(str(os.getpid()), str(os.getppid())))
    other.write_text(f"http://127.0.0.1:1/\n{file}")
    os.utime(other, (1, 1))
    assert published_url(file) == "http://127.0.0.1:1/"
    os.utime(own, (0, 0))
    assert published_url(file) == "http://127.0.0.1:2/"


def test_the_record_of_an_ended_process_is_removed(tmp_path: Path, cache: Path) -> None:
    """For example of a run that was killed."""
    file = write(tmp_path, CLUSTERS)
    code = (
        "import sys; from pathlib import Path; "
        "from sparkmirror.system.served_urls import publish_url; "
        "publish_url(Path(sys.argv[1]), 'http://127.0.0.1:1/')"
    )
    subprocess.run([sys.executable, "-c", code, str(file)], check=True)
    assert len([*(cache / "served").iterdir()]) == 1
    assert published_url(file) is None
    assert [*(cache / "served").iterdir()] == []


def test_a_run_without_a_cache_directory_logs_its_url(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """It serves nevertheless."""
    (tmp_path / "cache").write_text("not a directory")
    file = write(tmp_path, CLUSTERS)
    with caplog.at_level("INFO"):
        publish_url(file, "http://127.0.0.1:1/")
    assert "Commands for mm2.properties need --url http://127.0.0.1:1/" in caplog.text
    withdraw_url(file)
    assert published_url(file) is None
