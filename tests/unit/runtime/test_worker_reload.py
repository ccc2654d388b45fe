# SPDX-License-Identifier: Apache-2.0
"""What a worker's file leads to: taken up, or refused and said, and the rest left alone."""

from __future__ import annotations

import base64
import http.client
import logging
import os
import ssl
from collections.abc import Iterator
from pathlib import Path

import pytest

from sparkmirror.config.files.tracked_files import record_file_reads
from sparkmirror.config.worker_config import WorkerConfig
from sparkmirror.metrics.process_view import ReloadMetrics
from sparkmirror.rest.server import RestServer
from sparkmirror.runtime.reload import Reloaded, Reloader, ReloadRules
from sparkmirror.runtime.worker import reload_credentials
from sparkmirror.security.tls import client_context
from support.data.certificates import Authority, key_store
from support.peers.memory_worker import MemoryWorker

BASIC = "org.apache.kafka.connect.rest.basic.auth.extension"
PLAIN = "org.apache.kafka.common.security.plain.PlainLoginModule"


class Renewed:
    """Stands for the worker: whether it was told, and with what."""

    def __init__(self, file: WorkerConfig) -> None:
        self._file = file
        self.passwords: list[str] = []

    def update_credentials(self) -> None:
        """Use what there is now."""
        sasl = self._file.settings.connection.security.sasl
        assert sasl is not None
        assert sasl.password is not None
        self.passwords.append(sasl.password.reveal())


class Bench:
    """A worker's file with a certificate, a file of users, and a password."""

    def __init__(self, folder: Path) -> None:
        self._moment = 0
        self.authority = Authority()
        self.certificate, self.users, self.password, self.group = (
            folder / name for name in ("me.pem", "users.properties", "password", "group")
        )
        key_store(self.certificate, "PEM", self.authority.identity())
        self.users.write_text("ann=s3cret\n")
        self.password.write_text("before")
        self.group.write_text("connect")
        (folder / "jaas.conf").write_text(
            f'KafkaConnect {{ {BASIC}.PropertyFileLoginModule required file="{self.users}"; }};'
        )
        self.path = folder / "connect.properties"
        self.path.write_text(f"""bootstrap.servers = 127.0.0.1:1
group.id = ${{directory:{folder}:group}}
config.storage.topic = configs
offset.storage.topic = offsets
status.storage.topic = statuses
security.protocol = SASL_PLAINTEXT
sasl.mechanism = PLAIN
sasl.jaas.config = {PLAIN} required username="me" password="${{directory:{folder}:password}}";
listeners = https://127.0.0.1:0
listeners.https.ssl.keystore.type = PEM
listeners.https.ssl.keystore.location = {self.certificate}
rest.extension.classes = {BASIC}.BasicAuthSecurityRestExtension
rest.basic.auth.login.config = {folder / "jaas.conf"}
""")
        with record_file_reads() as files:
            self.file = WorkerConfig.load(self.path)
        self.server = RestServer.for_worker(self.file.settings)
        self.server.start(MemoryWorker())
        self.worker = Renewed(self.file)
        self.metrics = ReloadMetrics()
        rules = ReloadRules(rereads_own_file=False, refused="the previous ones stay in use")
        self.reloader = Reloader(self.path, files, self, self.metrics, rules)

    def reload(self) -> Reloaded:
        return reload_credentials(self.file, self.server, self.worker.update_credentials)

    def write(self, file: Path, text: str) -> None:
        """Change a file and look until it must have been seen."""
        self._moment += 1
        file.write_text(text)
        os.utime(file, ns=(self._moment, self._moment))
        for _ in range(3):
            self.reloader.poll()

    @property
    def counts(self) -> dict[str, int]:
        """What became of changes so far."""
        return {one.value: n for one, n in self.metrics.counts.items()}

    def ask(self, user: str, authority: Authority) -> int:
        """A request by somebody who trusts an authority."""
        connection = http.client.HTTPSConnection(
            "127.0.0.1",
            self.server.ports[0],
            timeout=60,
            context=client_context(authority.stranger()),
        )
        word = base64.b64encode(f"{user}:s3cret".encode()).decode()
        try:
            connection.request("GET", "/connectors", headers={"Authorization": f"Basic {word}"})
            return connection.getresponse().status
        finally:
            connection.close()


@pytest.fixture
def bench(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> Iterator[Bench]:
    """A worker's file, and its REST server."""
    caplog.set_level(logging.INFO, "sparkmirror")
    made = Bench(tmp_path)
    yield made
    made.server.stop()


def test_certificates_users_and_passwords_are_taken_up(bench: Bench) -> None:
    """By whoever uses them, and by nobody else."""
    other = Authority("another")
    assert bench.ask("ann", bench.authority) == 200
    bench.write(bench.certificate, (identity := other.identity()).key + identity.chain)
    assert bench.ask("ann", other) == 200
    with pytest.raises(ssl.SSLError):
        bench.ask("ann", bench.authority)
    bench.write(bench.users, "bob=s3cret\n")
    assert [bench.ask(who, other) for who in ("ann", "bob")] == [401, 200]
    bench.write(bench.password, "after")
    assert bench.worker.passwords[-1] == "after"
    assert bench.counts == {"applied": 3}
    assert bench.reloader.errors == ()


def test_what_cannot_be_used_changes_nothing(
    bench: Bench, caplog: pytest.LogCaptureFixture
) -> None:
    """It is said, counted and kept in view until something good comes."""
    good = bench.certificate.read_text()
    bench.write(bench.certificate, good[: len(good) // 2])
    assert bench.counts == {"refused": 1}
    assert "ssl.keystore.location" in bench.reloader.errors[0]
    assert "the previous ones stay in use" in caplog.text
    assert bench.ask("ann", bench.authority) == 200
    bench.write(bench.certificate, good)
    assert bench.reloader.errors == ()
    assert bench.counts == {"refused": 1, "unchanged": 1}
    assert bench.worker.passwords == []


def test_lines_of_the_file_and_what_is_read_once_wait_for_the_next_start(
    bench: Bench, caplog: pytest.LogCaptureFixture
) -> None:
    """The log says so."""
    bench.write(bench.path, "group.id = another\n")
    assert "connect.properties has changed; restart the process to apply it" in caplog.text
    bench.write(bench.group, "another")
    assert "some values take effect only after a restart" in caplog.text
    assert bench.file.settings.group.group_id == "connect"
    bench.write(bench.password, "after")
    assert bench.worker.passwords == ["after"]


def test_sighup_reads_again_what_the_file_leads_to(
    bench: Bench, caplog: pytest.LogCaptureFixture
) -> None:
    """Nothing changed: nothing is renewed, and the log says that the request was heard."""
    bench.reloader.poll(is_requested=True)

    assert bench.worker.passwords == []
    assert "SIGHUP: no change for the worker itself" in caplog.text
