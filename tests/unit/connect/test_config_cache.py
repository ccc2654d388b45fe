# SPDX-License-Identifier: Apache-2.0
"""Connectors are read again when a file changed that they lead to, and only these."""

from __future__ import annotations

import logging
import os
from pathlib import Path

import pytest

from sparkmirror.config import connector_validation
from sparkmirror.config.connector_config import ConnectorTexts, ParsedConnector, read_connector
from sparkmirror.config.worker_config import WorkerConfig
from sparkmirror.connect import config_cache
from sparkmirror.connect.api import ApiError
from sparkmirror.connect.config_cache import ConnectorConfigCache
from support.data.certificates import Authority

WORKER = """bootstrap.servers = 127.0.0.1:1
group.id = connect
config.storage.topic = configs
offset.storage.topic = offsets
status.storage.topic = statuses
security.protocol = SSL
ssl.truststore.type = PEM
ssl.truststore.location = {trust}
config.providers = directory
"""
PLAIN = "org.apache.kafka.common.security.plain.PlainLoginModule"


class Bench:
    """A worker's connectors: one with a store, one with a password in a file, one with nothing."""

    def __init__(self, folder: Path) -> None:
        self.trust, self.store, self.password = (folder / name for name in ("trust", "store", "pw"))
        self._moment = 0
        for file in (self.trust, self.store):
            file.write_text(Authority().pem)
        self.password.write_text("pssst")
        self.file = WorkerConfig.parse(WORKER.format(trust=self.trust))
        self.readings = ConnectorConfigCache(self.file, look_seconds=0.0)
        plain = {
            "connector.class": "MirrorSourceConnector",
            "source.cluster.alias": "a",
            "target.cluster.alias": "b",
            "source.cluster.bootstrap.servers": "127.0.0.1:2",
            "target.cluster.bootstrap.servers": "127.0.0.1:3",
            "producer.override.bootstrap.servers": "127.0.0.1:3",
        }
        configs = {
            "plain": plain,
            "stored": {
                **plain,
                "source.cluster.security.protocol": "SSL",
                "source.cluster.ssl.truststore.type": "PEM",
                "source.cluster.ssl.truststore.location": str(self.store),
            },
            "provided": {
                **plain,
                "source.cluster.security.protocol": "SASL_PLAINTEXT",
                "source.cluster.sasl.mechanism": "PLAIN",
                "source.cluster.sasl.jaas.config": (
                    f'{PLAIN} required username="me" password="${{directory:{folder}:pw}}";'
                ),
            },
        }
        self.configs = {name: {**one, "name": name} for name, one in configs.items()}
        self.look(1)
        assert [self.readings.get(name).errors for name in self.configs] == [[], [], []]

    def look(self, times: int = 3) -> None:
        """Look so many times."""
        for _ in range(times):
            self.readings.update(self.configs)

    def write(self, file: Path, text: str) -> None:
        """Change a file and look until it must have been seen."""
        self._moment += 1
        file.write_text(text)
        os.utime(file, ns=(self._moment, self._moment))
        self.look()

    def in_use(self) -> dict[str, object]:
        """What each connector runs with."""
        return {name: self.readings.get(name).parsed for name in self.configs}


@pytest.fixture
def bench(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> Bench:
    """Three connectors that can be run."""
    caplog.set_level(logging.INFO, "sparkmirror")
    return Bench(tmp_path)


def differing(before: dict[str, object], after: dict[str, object]) -> list[str]:
    """The connectors that begin again."""
    return [name for name, one in before.items() if one != after[name]]


def test_a_connector_restarts_when_its_file_changed(
    bench: Bench, caplog: pytest.LogCaptureFixture
) -> None:
    """The others continue with what they have."""
    first = bench.in_use()
    bench.write(bench.store, Authority().pem)
    second = bench.in_use()
    assert differing(first, second) == ["stored"]
    bench.write(bench.password, "psssssst")
    assert differing(second, bench.in_use()) == ["provided"]
    assert f"Connector stored restarts: {bench.store} changed" in caplog.text
    assert "pssst" not in caplog.text
    assert "psssssst" not in caplog.text


def test_a_file_that_cannot_be_used_leaves_a_connector_as_it_was(
    bench: Bench, caplog: pytest.LogCaptureFixture
) -> None:
    """Said once in the log, and with its status until the file is good."""
    before, good = bench.in_use(), bench.store.read_text()
    bench.write(bench.store, good[:100])
    bench.look(30)
    bench.password.unlink()
    bench.look(60)
    assert bench.in_use() == before
    assert "ssl.truststore.location" in bench.readings.warning("stored")
    assert "has no file 'pw'" in bench.readings.warning("provided")
    assert bench.readings.warning("plain") == ""
    assert [r.levelno for r in caplog.records].count(logging.ERROR) == 2
    bench.write(bench.store, good)
    bench.write(bench.password, "pssst")
    assert bench.in_use() == before
    assert [bench.readings.warning(name) for name in bench.configs] == ["", "", ""]


def test_a_connector_that_waited_for_its_file_is_begun_when_it_comes(
    bench: Bench, tmp_path: Path
) -> None:
    """Nobody has to restart it."""
    late = tmp_path / "late"
    config = {**bench.configs["stored"], "source.cluster.ssl.truststore.location": str(late)}
    bench.configs = {"late": config}
    bench.look()
    assert "cannot be read" in bench.readings.get("late").errors[0]
    bench.write(late, Authority().pem)
    assert bench.readings.get("late").errors == []


def test_credentials_of_the_worker_reach_connectors_whose_state_is_with_it(bench: Bench) -> None:
    """Those of the worker's own connection: their positions are kept on its cluster."""
    before = bench.in_use()
    bench.write(bench.trust, Authority().pem)
    assert bench.in_use() == before
    assert bench.file.reload_credentials().connection
    bench.readings.invalidate_all()
    bench.look(1)
    assert differing(before, bench.in_use()) == ["plain", "stored", "provided"]


def test_credentials_of_the_worker_are_nothing_to_heartbeats(bench: Bench) -> None:
    """They keep no positions."""
    config = {**bench.configs["plain"], "connector.class": "MirrorHeartbeatConnector"}
    bench.configs = {"plain": config}
    bench.look(1)
    before = bench.in_use()
    bench.write(bench.trust, Authority().pem)
    assert bench.file.reload_credentials().connection
    bench.readings.invalidate_all()
    bench.look(1)
    assert differing(before, bench.in_use()) == []


def test_looks_at_files_are_seldom(bench: Bench) -> None:
    """However often a worker looks at its connectors."""
    readings = ConnectorConfigCache(bench.file)
    for _ in range(2):
        readings.update(bench.configs)
    before = readings.get("stored").parsed
    bench.store.write_text(Authority().pem)
    for _ in range(10):
        readings.update(bench.configs)
    assert readings.get("stored").parsed is before


class Counted:
    """Counts the parses of configurations."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.count = 0
        for module in (config_cache, connector_validation):
            monkeypatch.setattr(module, "read_connector", self._read)

    def _read(self, config: ConnectorTexts, worker: WorkerConfig) -> ParsedConnector:
        self.count += 1
        return read_connector(config, worker)


def test_a_config_that_a_request_brings_is_parsed_once(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By the request; the record that it writes is not parsed again."""
    counted = Counted(monkeypatch)
    config = {**bench.configs["stored"], "tasks.max": "7"}
    checked = bench.readings.check("stored", config)
    with bench.readings.offered("stored", checked):
        bench.configs["stored"] = dict(config)
        bench.look(1)
    assert counted.count == 1
    assert bench.readings.get("stored") is checked.parsed
    bench.write(bench.store, Authority().pem)
    assert counted.count == 2  # its files are watched
    assert bench.readings.get("stored").parsed != checked.parsed.parsed


def test_an_offer_counts_only_for_the_config_that_was_written(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Neither after a failed write, nor for another config, nor after other credentials."""
    config = {**bench.configs["plain"], "tasks.max": "7"}
    checked = bench.readings.check("plain", config)
    counted = Counted(monkeypatch)
    with pytest.raises(ValueError, match="not written"), bench.readings.offered("plain", checked):
        raise ValueError("not written")
    bench.configs["plain"] = config
    bench.look(1)
    with bench.readings.offered("plain", checked):
        bench.configs["plain"] = {**config, "tasks.max": "8"}
        bench.look(1)
    assert counted.count == 2
    bench.readings.invalidate_all()
    bench.look(1)
    assert counted.count == 5
    with bench.readings.offered("plain", checked):
        bench.configs["plain"] = config
        bench.look(1)
    assert counted.count == 6


@pytest.mark.parametrize(
    ("changes", "status"),
    [
        ({"connector.class": "Nothing"}, 400),
        ({"tasks.max": "none"}, 400),
        ({"topics": "a" * (1 << 20)}, 500),
    ],
)
def test_a_wrong_config_is_refused(bench: Bench, changes: dict[str, str], status: int) -> None:
    """With Connect's status."""
    with pytest.raises(ApiError) as refused:
        bench.readings.check("plain", {**bench.configs["plain"], **changes})
    assert refused.value.status == status


def test_a_config_that_cannot_be_run_has_no_spec_and_explains_why(
    bench: Bench, caplog: pytest.LogCaptureFixture
) -> None:
    """A connector of an older version, or one that a Java worker has let in."""
    plain = bench.configs["plain"]
    bench.configs |= {"wrong": {**plain, "tasks.max": "none"}, "unknown": {**plain}}
    bench.configs["unknown"]["connector.class"] = "Nothing"
    bench.look()
    for name, word in (("wrong", "tasks.max"), ("unknown", "Nothing")):
        found = bench.readings.get(name)
        assert found.spec is None
        assert word in found.failure.partition("\n")[0]
        assert "Traceback" in found.failure
        assert caplog.text.count(f"Connector {name} cannot run: ") == 1
    assert bench.readings.has_source
    spec = bench.readings.get("plain").spec
    assert spec is not None
    assert (spec.label, spec.wanted_splits) == ("a->b|plain", 1)
