# SPDX-License-Identifier: Apache-2.0
"""`sparkmirror check` without brokers: output, hidden values, exit codes."""

from __future__ import annotations

import io
import json
import socket
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
import typer
from rich.console import Console
from typer.testing import CliRunner

from sparkmirror.cli.check import check, check_mirror_config, check_worker_config
from sparkmirror.cli.check_report import (
    CheckReport,
    ClusterReport,
    as_json,
    plain_lines,
    print_styled,
)
from sparkmirror.config.files.properties import parse_properties
from sparkmirror.config.keys.security_keys import SECURITY_KEY_NAMES
from sparkmirror.config.keys.table import SECTIONS, WORKER_SECTIONS
from sparkmirror.config.mirror_config import MirrorConfig
from sparkmirror.config.worker_config import WorkerConfig, is_worker_file
from sparkmirror.kafka.broker_capabilities import Role
from sparkmirror.kafka.cluster_probe import BrokerProbe, ClusterProbe, probe_cluster

app = typer.Typer()
app.command()(check)

FILE = """\
clusters = a, b
a.bootstrap.servers = a1:9092
b.bootstrap.servers = b1:9092
a->b.enabled = true
topics = x.*
a->b.topics = orders
b.producer.linger.ms = 5
topcs = y
spark.master = local[2,4]
"""


@pytest.fixture
def file(tmp_path: Path) -> Path:
    """An ordinary file with a misspelt key."""
    path = tmp_path / "mm2.properties"
    path.write_text(FILE)
    return path


def run(*arguments: object) -> tuple[int, str, str]:
    """Exit code, output and error output of the command."""
    result = CliRunner().invoke(app, [str(argument) for argument in arguments])
    return result.exit_code, result.stdout, result.stderr


def test_each_value_is_printed_with_where_it_came_from(file: Path) -> None:
    """One line per value, with the overridden lines."""
    code, out, _ = run(file)
    lines = [line.strip() for line in out.splitlines()]
    assert code == 0
    assert "topics = orders   from line 6 'a->b.topics', over line 5 'topics'" in lines
    assert "bootstrap.servers = b1:9092   from line 3 'b.bootstrap.servers'" in lines
    assert "isolation.level = read_committed   from default" in lines
    assert "replication.factor = 2, or what the cluster can hold   from default" in lines
    assert "spark.master = local[2,4]" in lines
    assert "flow b->a (heartbeats only)" in lines
    assert "connector.class" not in out  # nobody set it and it changes nothing


def test_remarks_are_printed_and_do_not_fail(file: Path) -> None:
    """Unknown keys with the nearest name, ignored client keys with the reason."""
    code, out, _ = run(file)
    assert code == 0
    assert "warning: line 8: topcs is unknown and does nothing; did you mean topics?" in out
    assert "info: line 7: b.producer.linger.ms is ignored: record batches" in out
    assert out.splitlines()[-1] == f"{file}: enabled flows: 1, errors: 0, warnings: 1"


def test_errors_end_with_exit_code_one(file: Path) -> None:
    file.write_text(FILE + "tasks.max=0\na->c.enabled=true\n")
    code, out, _ = run(file)
    assert code == 1
    assert "error: line 10: tasks.max must be at least 1, not 0." in out
    assert "error: line 11: a->c.enabled: clusters does not name 'c'" in out
    assert "Traceback" not in out


@pytest.mark.parametrize(
    ("content", "part"),
    [(None, "There is no file"), ("a=\\uzzzz", "line 1"), ("", "clusters is missing")],
)
def test_an_unusable_file_is_one_error_message(
    tmp_path: Path, content: str | None, part: str
) -> None:
    path = tmp_path / "x.properties"
    if content is not None:
        path.write_text(content)
    code, out, err = run(path)
    assert code == 1
    assert part in out + err


def test_secrets_never_appear(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Passwords, JAAS lines and values of config providers, in text and in JSON."""
    monkeypatch.setenv("TOPICS", "hush1")
    path = tmp_path / "mm2.properties"
    path.write_text(
        FILE
        + 'a.sasl.jaas.config = Login required password="hush2";\n'
        + "ssl.key.password = hush3\n"
        + "a->b.topics = ${env:TOPICS}\n"
        + "b.producer.ssl.keystore.password = hush4\n"
        + "spark.hadoop.fs.s3a.secret.key = hush5\n"
        + "spark.hadoop.fs.azure.account.key.x = hush5\n"
        + "spark.executor.extraJavaOptions = -Djavax.net.ssl.keyStorePassword=hush5\n"
        + "spark.authenticate.secret = ${env:TOPICS}\n"
        + 'a -> b.sasl.jaas.config = "hush6"\n'
        + "a.sasl.passwort = hush7\n"
        + "a->b.transforms.x.secret = hush8\n"
        + "spark.hadoop.fs.azure.account.key.me = hush9\n"
    )
    for arguments in ((path,), (path, "--json")):
        _, out, err = run(*arguments)
        assert "hush" not in out + err
        assert "[hidden]" in out


def test_json_holds_the_same(file: Path) -> None:
    """Values with their lines, notices, the result."""
    code, out, _ = run(file, "--json")
    found = json.loads(out)
    assert code == 0
    assert found["ok"] is True
    assert [flow["flow"] for flow in found["flows"]] == ["a->b", "b->a"]
    (topics,) = [v for v in found["flows"][0]["values"] if v["key"] == "topics"]
    assert topics["value"] == "orders"
    assert topics["from"] == {"line": 6, "key": "a->b.topics"}
    assert topics["over"] == [{"line": 5, "key": "topics"}]
    assert {n["level"] for n in found["notices"]} == {"warning", "info"}
    assert found["spark"] == {"spark.master": "local[2,4]"}


WORKER_FILE = """\
bootstrap.servers = t1:9092
group.id = mirrors
config.storage.topic = cc
offset.storage.topic = oo
status.storage.topic = ss
rest.port = 8084
connect.protocol = eager
sasl.jaas.config = hush
spark.hadoop.fs.s3a.secret.key = hush
"""


@pytest.fixture
def worker_file(tmp_path: Path) -> Path:
    """A Connect worker's file with an old spelling."""
    path = tmp_path / "connect-distributed.properties"
    path.write_text(WORKER_FILE)
    return path


def test_a_connect_workers_file_is_recognised(worker_file: Path) -> None:
    """Its values, its notices, and the kind of file."""
    code, out, _ = run(worker_file)
    lines = [line.strip() for line in out.splitlines()]
    assert code == 0
    assert lines[0] == "Connect worker"
    assert "group.id = mirrors   from line 2 'group.id'" in lines
    assert "listeners = http://127.0.0.1:8084   from line 6 'rest.port'" in lines
    assert any(line.startswith("warning: listeners is not set") for line in lines)
    assert any(line.startswith("info: line 6: rest.port is deprecated") for line in lines)
    assert any(line.startswith("info: line 7: connect.protocol has no effect") for line in lines)
    assert any("sasl.jaas.config does nothing: security.protocol is" in line for line in lines)
    assert lines[-1] == f"{worker_file}: Connect worker, errors: 0, warnings: 2"
    assert "hush" not in out


def test_a_workers_file_is_reported_in_json_and_tables(worker_file: Path) -> None:
    """As for a file with flows; hidden values stay hidden."""
    code, out, _ = run(worker_file, "--json")
    found = json.loads(out)
    assert (code, found["ok"], found["flows"]) == (0, True, [])
    (group,) = [v for v in found["worker"]["values"] if v["key"] == "group.id"]
    assert group["from"] == {"line": 2, "key": "group.id"}
    screen = io.StringIO()
    report = check_worker_config(WorkerConfig.load(worker_file), connect=False)
    print_styled(report, Console(file=screen, width=200, force_terminal=False))
    assert "Connect worker" in screen.getvalue()
    assert "line 2 'group.id'" in screen.getvalue()
    assert "hush" not in out + screen.getvalue()


def test_an_incomplete_workers_file_is_still_one(worker_file: Path) -> None:
    """A missing topic does not turn it into a mirror's file."""
    worker_file.write_text(WORKER_FILE.replace("status.storage.topic", "status.storage.topics"))
    code, out, _ = run(worker_file, "--connect")
    assert code == 1
    assert "error: status.storage.topic is missing" in out
    assert "clusters" not in out


def test_a_worker_has_one_cluster_only(worker_file: Path) -> None:
    code, _, err = run(worker_file, "--clusters", "b")
    assert code == 1
    assert "is the file of a Connect worker" in err


def test_a_workers_cluster_that_is_not_there_is_named(worker_file: Path) -> None:
    """Port 1 of the loopback refuses at once."""
    text = WORKER_FILE.replace("t1:9092", "127.0.0.1:1").replace("sasl.jaas", "#sasl.jaas")
    worker_file.write_text(text)
    code, out, _ = run(worker_file, "--connect")
    assert code == 1
    assert "no bootstrap address responds (127.0.0.1:1: Connection refused)" in out
    assert "; check bootstrap.servers and that the brokers are up" in out
    assert "problems on clusters worker" in out


@pytest.mark.parametrize(
    ("text", "is_workers"),
    [
        (WORKER_FILE, True),
        ("group.id=x", True),
        ("offset.storage.topic=x\nbootstrap.servers=b:1", True),
        (FILE, False),
        (FILE + "offset.storage.topic=x\ngroup.id=y", False),
        ("a->b.enabled=true\noffset.storage.topic=x", False),
        ("bootstrap.servers=b:1", False),
        ("", False),
    ],
)
def test_the_two_kinds_of_file_are_distinguished(text: str, is_workers: bool) -> None:
    """Also if half of either is missing."""
    assert is_worker_file(parse_properties(text, "x.properties")) is is_workers


def test_clusters_narrow_what_is_shown(file: Path) -> None:
    """Repeated or with commas; unknown names are an error."""
    _, out, _ = run(file, "--clusters", "b")
    assert "flow a->b" in out
    assert "flow b->a" not in out
    _, both, _ = run(file, "--clusters", "a,b")
    assert "flow b->a" in both
    code, out, _ = run(file, "--clusters", "c")
    assert code == 1
    assert "--clusters names c" in out


def test_json_has_the_keys_of_connects_style(file: Path, worker_file: Path) -> None:
    """CamelCase at every level; keys of the configuration are values."""

    def names(found: object) -> Iterator[str]:
        if isinstance(found, dict):
            yield from found
            found = list(found.values())
        for one in found if isinstance(found, list) else ():
            yield from names(one)

    for path in (file, worker_file):
        found = json.loads(run(path, "--json", "--connect")[1])
        assert [one for one in names({**found, "spark": {}}) if not one.isalnum()] == []


def test_every_key_with_an_effect_is_listed(file: Path, worker_file: Path) -> None:
    """Also `listeners` and `metrics.port`, and keys without a value; TLS and SASL only if used."""
    for path, sections in ((file, SECTIONS), (worker_file, WORKER_SECTIONS)):
        found = json.loads(run(path, "--json")[1])
        blocks = [found["mirror"] or found["worker"], *found["flows"]]
        listed = {value["key"]: value["value"] for one in blocks for value in one["values"]}
        expected = {key.name for one in sections for key in one.keys if not key.no_effect}
        assert expected - SECURITY_KEY_NAMES <= listed.keys()
        assert listed["metrics.port"] is None
    _, out, _ = run(file)
    assert "    metrics.port is not set" in out.splitlines()


@pytest.mark.parametrize("name", sorted(SECURITY_KEY_NAMES - {"bootstrap.servers"}))
def test_every_security_key_of_the_file_is_listed_or_reported(file: Path, name: str) -> None:
    """With SASL over TLS."""
    file.write_text(f"{FILE}a.security.protocol = SASL_SSL\na.{name} = 1\n")
    found = json.loads(run(file, "--json")[1])
    listed = {value["key"] for flow in found["flows"] for value in flow["values"]}
    reported = {one["key"] for one in found["notices"]}
    assert name in listed or f"a.{name}" in reported


def test_only_changed_values_are_listed_on_request(file: Path) -> None:
    """A line that repeats the default is no change."""
    file.write_text(FILE + "metrics.port = 9404\nmetrics.host = 127.0.0.1\n")
    code, out, _ = run(file, "--changed")
    lines = [line.strip().partition("   ")[0] for line in out.splitlines()]
    assert code == 0
    assert "metrics.port = 9404" in lines
    assert "topics = orders" in lines
    assert not [line for line in lines if line.startswith(("metrics.host", "topics.exclude"))]
    assert "from default" not in out
    values = json.loads(run(file, "--changed", "--json")[1])["mirror"]["values"]
    assert [one["key"] for one in values] == ["clusters", "metrics.port"]


@pytest.mark.parametrize("width", [60, 80])
def test_nothing_is_cut_on_a_narrow_terminal(file: Path, width: int) -> None:
    """Long values wrap."""
    report = check_mirror_config(MirrorConfig.load(file), [], connect=False)
    screen = io.StringIO()
    print_styled(report, Console(file=screen, width=width, force_terminal=False))
    lines = screen.getvalue().splitlines()
    assert max(map(len, lines)) <= width
    text = "".join(line.strip() for line in lines)
    assert "org.apache.kafka.connect.mirror.DefaultReplicationPolicy" in text
    assert "..." not in text


def test_tables_show_the_same_on_a_terminal(file: Path) -> None:
    """Square brackets in values are not markup."""
    report = check_mirror_config(MirrorConfig.load(file), [], connect=False)
    screen = io.StringIO()
    print_styled(report, Console(file=screen, width=200, force_terminal=False))
    text = screen.getvalue()
    assert "line 6 'a->b.topics'" in text
    assert "line 5 'topics'" in text
    assert "local[2,4]" in text
    assert "did you mean topics?" in text


def test_connecting_waits_for_a_file_without_errors(file: Path) -> None:
    """No broker is contacted while the file has errors."""
    file.write_text(FILE + "tasks.max=0\n")
    assert check_mirror_config(MirrorConfig.load(file), [], connect=True).clusters == ()


def test_what_was_reached_is_printed() -> None:
    """Address, version, security; unreachable brokers; missing permissions."""
    good = ClusterReport(ClusterProbe("a", brokers=(BrokerProbe(1, "h:1", version="4.3"),)))
    bad = ClusterReport(
        ClusterProbe(
            "b",
            brokers=(BrokerProbe(2, "inner:9092", error="it cannot be reached"),),
            silent_bootstrap=("x:1",),
        )
    )
    denied = ClusterReport(good.probe, missing=("READ on topic 't' is not granted.",))
    lines = list(plain_lines(CheckReport("f", (), (), (), (good, bad, denied))))
    assert lines == [
        "cluster a (PLAINTEXT)",
        "    broker 1 at h:1: Kafka 4.3",
        "    permissions: nothing is missing",
        "cluster b (PLAINTEXT)",
        "    warning: bootstrap address x:1 does not answer.",
        "    broker 2 at inner:9092: error: it cannot be reached.",
        "cluster a (PLAINTEXT)",
        "    broker 1 at h:1: Kafka 4.3",
        "    missing permission: READ on topic 't' is not granted.",
        "f: enabled flows: 0, errors: 0, warnings: 0; problems on clusters b, a",
    ]
    assert not CheckReport("f", (), (), (), (bad,)).ok
    assert not CheckReport("f", (), (), (), (denied,)).ok
    assert CheckReport("f", (), (), (), (good,)).ok


def test_what_older_brokers_cannot_do_is_printed_by_role() -> None:
    """One line per limit, with the brokers if not all have it; a required one is an error."""
    new = BrokerProbe(1, "h:1", "4.3", api_versions=dict.fromkeys(range(90), (0, 99)))
    old = BrokerProbe(2, "h:2", "2.4", api_versions={**new.api_versions, 1: (0, 11)})
    report = ClusterReport(ClusterProbe("a", brokers=(new, old)), roles=frozenset({Role.SOURCE}))
    (limit,) = [line for line in plain_lines(checked(report)) if "limit" in line]
    assert limit.startswith("    limit as source: broker 2: no leader epochs in Fetch: ")
    (found,) = json.loads(as_json(checked(report)))["clusters"][0]["limits"]
    assert (found["api"], found["version"], found["brokers"]) == (1, 12, [2])
    assert found["message"] in limit
    assert report.ok

    as_target = replace(report, roles=frozenset({Role.TARGET}))
    assert not [line for line in plain_lines(checked(as_target)) if "limit" in line]

    ancient = replace(old, api_versions={**new.api_versions, 1: (0, 3)})
    useless = replace(report, probe=ClusterProbe("a", brokers=(ancient,)))
    assert not useless.ok
    assert [
        line for line in plain_lines(checked(useless)) if line.startswith("    error: no Fetch")
    ]


def checked(cluster: ClusterReport) -> CheckReport:
    """A report about one cluster."""
    return CheckReport("f", (), (), (), (cluster,))


def test_a_cluster_that_is_not_there_is_named(file: Path) -> None:
    """Port 1 of the loopback refuses at once."""
    file.write_text(FILE.replace("a1:9092", "127.0.0.1:1").replace("b1:9092", "127.0.0.1:1"))
    code, out, _ = run(file, "--connect")
    assert code == 1
    assert "no bootstrap address responds (127.0.0.1:1: Connection refused)" in out
    assert "check a.bootstrap.servers" in out


def test_a_listener_without_kafka_is_in_the_error(file: Path) -> None:
    """It accepts connections and stays silent, as a TLS listener would."""
    config = MirrorConfig.load(file)
    connection = config.flow_settings(config.flows()[0]).source_admin
    with socket.create_server(("127.0.0.1", 0)) as server:
        address = f"127.0.0.1:{server.getsockname()[1]}"
        silent = replace(connection, bootstrap_servers=("127.0.0.1:1", address))
        probe = probe_cluster(silent, timeout_seconds=1.0)
    assert not probe.reachable
    assert f"accepts connections at {address}, but does not answer" in probe.error
    assert "set a.security.protocol accordingly" in probe.error
