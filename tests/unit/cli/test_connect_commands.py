# SPDX-License-Identifier: Apache-2.0
"""Every command for Connect workers, with recorded responses of Java's worker, and every error."""

from __future__ import annotations

import json
import socket
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import typer
from typer.testing import CliRunner, Result

from sparkmirror.cli import connect_commands
from sparkmirror.cli.main import app as whole
from sparkmirror.rest_client import deployer, deployment
from support.peers.stub_worker import StubResponse, StubWorker, recorded_response

CLASS = "org.apache.kafka.connect.mirror.MirrorHeartbeatConnector"
LISTED = ("GET /connectors", "GET /connectors?expand=status&expand=info")
NOT_THERE = StubResponse(404, {"error_code": 404, "message": "Connector m not found"})
CONFIG = {"name": "m", "connector.class": CLASS, "topics": "t"}
RUNNING = {
    "name": "m",
    "connector": {"state": "RUNNING", "worker_id": "w:1"},
    "tasks": [{"id": 0, "state": "RUNNING", "worker_id": "w:1"}],
    "type": "source",
}
FAILED = {
    **RUNNING,
    "tasks": [{"id": 0, "state": "FAILED", "worker_id": "w:1", "trace": "Boom\n\tat x"}],
}
TYPED = (
    "get connectors", "describe m", "pause m", "resume m", "stop m", "restart m",
    "delete m --yes", "deploy -f {f}", "undeploy -f {f}", "redeploy -f {f}",
)  # fmt: skip

app = typer.Typer()
connect_commands.add_connect_commands(
    app
)  # alone: all others would be built for every line that is run


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[StubWorker]:
    """A worker at the default address of the commands."""
    with StubWorker() as started:
        monkeypatch.setenv("SPARKMIRROR_URL", started.url)
        for name in ("SPARKMIRROR_USER", "SPARKMIRROR_PASSWORD", "FORCE_COLOR"):
            monkeypatch.delenv(name, raising=False)
        yield started


@pytest.fixture
def file(tmp_path: Path) -> Path:
    """One connector in a file."""
    path = tmp_path / "m.json"
    path.write_text(json.dumps(CONFIG), encoding="utf-8")
    return path


def run(line: str, *more: str, **options: Any) -> Result:
    """Run a command line."""
    return CliRunner().invoke(app, [*line.split(), *more], **options)


def info(config: dict[str, Any] | None = None) -> StubResponse:
    """The response of `GET /connectors/m`."""
    return StubResponse(
        200, {"name": "m", "config": config or CONFIG, "tasks": [], "type": "source"}
    )


def prepared(server: StubWorker, *, stored: dict[str, Any] | None = None) -> StubWorker:
    """A worker that accepts connector `m` and runs it at once."""
    is_there = stored is not None
    server.on("GET", "/connectors/m/config", StubResponse(200, stored) if is_there else NOT_THERE)
    server.on("PUT", "/connectors/m/config", StubResponse(200 if is_there else 201, {"name": "m"}))
    server.on("GET", "/connectors/m/status", StubResponse(200, RUNNING))
    validate = f"/connector-plugins/{CLASS}/config/validate"
    server.on("PUT", validate, StubResponse(200, {"configs": []}))
    return server


@pytest.mark.parametrize("line", TYPED)
def test_the_program_has_the_command(line: str) -> None:
    """Its help has an example."""
    command = line.split(maxsplit=1)[0]
    done = CliRunner().invoke(whole, [command, "--help"])
    assert (done.exit_code, f"sparkmirror {command} " in done.stdout) == (0, True)


# What there is


def test_connectors_are_lines_with_tabs(server: StubWorker) -> None:
    """Name, type, state, tasks, worker, class, lag, latency and problem."""
    server.replay(*LISTED)
    done = run("get connectors")
    assert done.exit_code == 0, done.output
    lines = done.stdout.splitlines()
    lines[1], _, cause = lines[1].rpartition("\t")
    assert cause.endswith("Invalid url in bootstrap.servers: 127.0.0.1:no")
    assert lines == [
        "beat\tsource\tRUNNING\t1/1\tHOST:PORT\tMirrorHeartbeatConnector\t-\t-\t",
        "broken\tsource\tFAILED\t0/0\tHOST:PORT\tMirrorHeartbeatConnector\t-\t-",
        "resting\tsource\tPAUSED\t0/0\tHOST:PORT\tMirrorHeartbeatConnector\t-\t-\t",
    ]


COPY = {
    "name": "m",
    "connector.class": "org.apache.kafka.connect.mirror.MirrorSourceConnector",
    "topics": "t",
}
DOWN = "Cluster 'b' cannot be reached."
LAG = {
    "name": "m", "lag": None, "knownLag": 1200, "unknownPartitions": 1,
    "replicationLatencyMs": {"p50": 9.5, "p99": 61_000.0}, "copyLatencyMs": None,
}  # fmt: skip


def test_lag_latency_and_warnings_are_shown_beside_the_state(server: StubWorker) -> None:
    """Connect's word for the state stays; a Java worker has neither lag nor warning."""
    state = {**RUNNING["connector"], "warning": DOWN}  # type: ignore[dict-item]
    status = {**RUNNING, "connector": state, "tasks": []}
    listed = {"m": {"status": status, "info": info(COPY).body}}
    server.on("GET", "/connectors", StubResponse(200, ["m"]))
    server.on("GET", "/connectors?expand=status&expand=info", StubResponse(200, listed))
    server.on("GET", "/connectors/m", info(COPY))
    server.on("GET", "/connectors/m/status", StubResponse(200, status))
    server.on("GET", "/connectors/m/lag", StubResponse(200, LAG))
    columns = run("get connectors").stdout.rstrip("\n").split("\t")
    assert columns[2:4] == ["RUNNING", "0/0"]
    assert columns[6:] == [">=1,200", "1 min 1 s", DOWN]
    found = json.loads(run("get connectors --json").stdout)[0]
    assert found["warning"] == DOWN
    assert {key: found[key] for key in LAG if key != "name"} == {
        key: value for key, value in LAG.items() if key != "name"
    }
    lines = dict(line.split("\t") for line in run("describe m").stdout.splitlines())
    assert (lines["state"], lines["warning"], lines["lag"]) == ("RUNNING", DOWN, ">=1,200")
    assert lines["replication latency"] == "p50 9.5 ms p99 1 min 1 s"
    assert lines["copy latency"] == "-"
    assert json.loads(run("describe m --json").stdout)["knownLag"] == 1200

    server.on("GET", "/connectors/m/lag", StubResponse(409, {"message": "rebalance"}))
    assert run("get connectors").stdout.split("\t")[6:8] == ["unknown", "-"]
    server.on("GET", "/connectors/m/lag", StubResponse(404, {"message": "HTTP 404 Not Found"}))
    assert run("get connectors").stdout.split("\t")[6:8] == ["-", "-"]


def test_a_terminal_gets_a_table(server: StubWorker, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.setenv("COLUMNS", "400")
    server.replay(*LISTED)
    lines = run("get connectors").stdout.splitlines()
    assert lines[0].split()[0].endswith("connector\x1b[0m") or "connector" in lines[0]
    assert len(lines) == 4
    assert "\t" not in "".join(lines)


def test_a_terminal_shows_that_nothing_was_found(
    server: StubWorker, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FORCE_COLOR", "1")
    server.on("GET", "/connectors", StubResponse(200, []))
    server.on("GET", "/connectors?expand=status&expand=info", StubResponse(200, {}))
    assert "No connector on http://127.0.0.1" in run("get connectors").stdout


def test_only_those_in_a_state(server: StubWorker) -> None:
    """In any case, several if given; a task's state counts for its connector."""
    server.replay(*LISTED)
    assert run("get connectors --state failed").stdout.startswith("broken\t")
    names = run("get connectors --state FAILED --state paused").stdout.splitlines()
    assert [line.split("\t")[0] for line in names] == ["broken", "resting"]
    assert run("get tasks --state FAILED").stdout == ""
    server.on("GET", "/connectors?expand=status&expand=info", StubResponse(200, {"m": {
        "status": FAILED, "info": info().body,
    }}))  # fmt: skip
    server.on("GET", "/connectors", StubResponse(200, ["m"]))
    assert run("get connectors --state FAILED").stdout.split("\t")[2:4] == [
        "RUNNING",
        "0/1, 1 FAILED",
    ]
    assert run("get tasks --state FAILED").stdout == "m\t0\tFAILED\tw:1\tBoom\t\n"


def test_connectors_as_json_hide_passwords(server: StubWorker) -> None:
    """Those that the plugin declares, and those of Kafka's clients."""
    config = {**CONFIG, "pin": "1234", "source.cluster.sasl.jaas.config": "user and word"}
    server.on("GET", "/connectors", StubResponse(200, ["m"]))
    server.on("GET", "/connectors?expand=status&expand=info", StubResponse(200, {"m": {
        "status": FAILED, "info": info(config).body,
    }}))  # fmt: skip
    keys = f"/connector-plugins/{CLASS}/config"
    server.on("GET", keys, StubResponse(200, [{"name": "pin", "type": "PASSWORD"}]))
    found = json.loads(run("get connectors --json").stdout)
    assert found == [
        {
            "name": "m", "type": "source", "state": "RUNNING", "worker_id": "w:1",
            "tasks": [{"id": 0, "state": "FAILED", "worker_id": "w:1", "trace": "Boom\n\tat x"}],
            "config": {**config, "pin": "[hidden]", "source.cluster.sasl.jaas.config": "[hidden]"},
        }
    ]  # fmt: skip
    server.on("GET", keys, StubResponse(404, {"message": "an older worker"}))
    assert json.loads(run("get connectors --json").stdout)[0]["config"]["pin"] == "1234"


def test_one_connector_or_its_tasks_by_name(server: StubWorker) -> None:
    """Only that one is requested."""
    server.replay("GET /connectors/beat", "GET /connectors/beat/status")
    assert run("get connectors beat").stdout.startswith("beat\tsource\tRUNNING\t1/1\t")
    assert run("get tasks beat").stdout == "beat\t0\tRUNNING\tHOST:PORT\t\t\n"
    assert json.loads(run("get tasks beat --json").stdout) == [
        {"connector": "beat", "id": 0, "state": "RUNNING", "worker_id": "HOST:PORT",
         "version": "4.3.1"},
    ]  # fmt: skip


def test_plugins_and_the_keys_of_one(server: StubWorker) -> None:
    server.replay("GET /connector-plugins", f"GET /connector-plugins/{CLASS}/config")
    server.replay("GET /connector-plugins/Nothing/config")
    assert f"{CLASS}\tsource\t4.3.1" in run("get plugins").stdout.splitlines()
    assert {"class": CLASS, "type": "source", "version": "4.3.1"} in json.loads(
        run("get plugins --json").stdout
    )
    keys = [line.split("\t") for line in run("get plugins", CLASS).stdout.splitlines()]
    assert ["tasks.max", "int", "1", "high"] in [key[:4] for key in keys]
    assert ["name", "string", "required", "high"] in [key[:4] for key in keys]
    assert json.loads(run("get plugins --json", CLASS).stdout)[0]["name"] == "name"
    unknown = run("get plugins Nothing")
    assert (unknown.exit_code, "plugin 'Nothing' is not known" in unknown.stderr) == (1, True)


def test_offsets_of_one_connector_or_all(server: StubWorker) -> None:
    """One that fails does not affect the others."""
    of_mm2 = {"cluster": "a", "topic": "t", "partition": 0}
    offsets = [
        {"partition": of_mm2, "offset": {"offset": 5}},
        {"partition": {"file": "x"}, "offset": {"line": 3}},
    ]
    server.on("GET", "/connectors", StubResponse(200, ["m", "n"]))
    server.on("GET", "/connectors/m/offsets", StubResponse(500, {"message": "no such luck"}))
    server.on("GET", "/connectors/n/offsets", StubResponse(200, {"offsets": offsets}))
    done = run("get offsets")
    assert (done.exit_code, done.stdout) == (
        1,
        'n\ta t-0\t5\nn\t{"file":"x"}\t{"line":3}\n',
    )
    assert "connector 'm' on http" in done.stderr
    assert "no such luck" in done.stderr
    assert json.loads(run("get offsets n --json").stdout) == [
        {"connector": "n", **one} for one in offsets
    ]


def test_loggers(server: StubWorker) -> None:
    server.replay("GET /admin/loggers", "GET /admin/loggers/root")
    assert "root" in [line.split("\t")[0] for line in run("get loggers").stdout.splitlines()]
    assert run("get loggers root").stdout.split("\t")[0] == "root"
    assert json.loads(run("get loggers root --json").stdout)[0]["name"] == "root"
    server.on(
        "GET", "/admin/loggers/x", StubResponse(200, {"level": "INFO", "last_modified": 10**18})
    )
    assert run("get loggers x").stdout == f"x\tINFO\t{10**18}\n"
    server.on("GET", "/admin/loggers/x", StubResponse(200, {"level": "INFO", "last_modified": 0}))
    assert run("get loggers x").stdout == "x\tINFO\t1970-01-01T00:00:00+00:00\n"


def test_a_connector_is_described(server: StubWorker) -> None:
    """State, tasks, offsets, topics, configuration."""
    path = "GET /connectors/beat"
    server.replay(path, f"{path}/status", f"{path}/offsets", f"{path}/topics")
    server.replay(f"GET /connector-plugins/{CLASS}/config")
    done = run("describe beat")
    assert done.exit_code == 0, done.output
    lines = dict(line.split("\t") for line in done.stdout.splitlines())
    assert lines["state"] == lines["task 0 state"] == "RUNNING"
    assert lines["topics"] == "heartbeats"
    assert lines["offsets"].isdigit()
    assert lines["config connector.class"] == CLASS
    assert not [name for name in lines if name.startswith("unknown")]
    found = json.loads(run("describe beat --json").stdout)
    assert (found["name"], found["state"], found["topics"]) == ("beat", "RUNNING", ["heartbeats"])


def test_a_trace_is_short_unless_requested(server: StubWorker) -> None:
    """The first line and the last cause."""
    path = "GET /connectors/broken"
    server.replay(path, f"{path}/status", f"{path}/offsets", f"{path}/topics")
    server.replay(f"GET /connector-plugins/{CLASS}/config")
    short, whole = run("describe broken").stdout, run("describe broken --trace").stdout
    [line] = [line for line in short.splitlines() if line.startswith("trace\t")]
    assert line.startswith("trace\torg.apache.kafka.common.KafkaException: ")
    assert "Caused by: " in line
    assert len([line for line in whole.splitlines() if line.startswith("trace\t")]) > 10


def test_a_terminal_gets_a_portrait(server: StubWorker, monkeypatch: pytest.MonkeyPatch) -> None:
    """With a hint at the whole trace."""
    monkeypatch.setenv("FORCE_COLOR", "1")
    path = "GET /connectors/broken"
    server.replay(path, f"{path}/status", f"{path}/offsets", f"{path}/topics")
    server.replay(f"GET /connector-plugins/{CLASS}/config")
    assert "Whole traces: --trace" in run("describe broken").stdout
    assert "Whole traces" not in run("describe broken --trace").stdout


def test_what_is_not_known_is_named(server: StubWorker) -> None:
    """The rest is shown."""
    server.on("GET", "/connectors/m", info())
    server.on("GET", "/connectors/m/status", NOT_THERE)
    server.on("GET", "/connectors/m/offsets", StubResponse(500, {"message": "the source is away"}))
    server.on(
        "GET", "/connectors/m/topics", StubResponse(403, {"message": "Topic tracking is disabled"})
    )
    server.on(
        "GET", f"/connector-plugins/{CLASS}/config", StubResponse(404, {"message": "no such path"})
    )
    done = run("describe m")
    lines = dict(line.split("\t") for line in done.stdout.splitlines())
    assert done.exit_code == 0
    assert lines["unknown state"] == "no worker has started it yet"
    assert "the source is away" in lines["unknown offsets"]
    assert "Topic tracking is disabled" in lines["unknown topics"]
    assert lines["config topics"] == "t"


def test_what_a_server_says_cannot_steer_a_terminal(
    server: StubWorker, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Control characters are escaped; tabs and newlines do not break a row."""
    name = "a\x1b]0;owned\x07\tb\nc\ud800"
    server.on("GET", "/connectors", StubResponse(200, [name]))
    server.on("GET", "/connectors?expand=status&expand=info", StubResponse(200, {name: {
        "info": {"name": name, "config": {}, "tasks": [], "type": "source"},
    }}))  # fmt: skip
    assert run("get connectors").stdout == (
        "a\\x1b]0;owned\\x07 b c\\ud800\tsource\t-\t-\t-\t\t-\t-\t\n"
    )
    assert json.loads(run("get connectors --json").stdout)[0]["name"] == name
    server.on("GET", "/connectors", StubResponse(500, {"message": "\x1b]0;owned\x07"}))
    assert "\x1b" not in run("get connectors").stderr
    server.on("GET", "/connectors", StubResponse(200, [name]))
    monkeypatch.setenv("FORCE_COLOR", "1")
    assert "\x1b]0" not in run("get connectors").stdout


# What is done


@pytest.mark.parametrize(
    ("line", "request_", "words"),
    [
        ("pause m", "PUT /connectors/m/pause", "pause requested"),
        ("resume m", "PUT /connectors/m/resume", "resume requested"),
        ("stop m", "PUT /connectors/m/stop", "stop requested"),
        (
            "restart m",
            "POST /connectors/m/restart?includeTasks=false&onlyFailed=false",
            "restart requested",
        ),
        (
            "restart m --include-tasks --only-failed",
            "POST /connectors/m/restart?includeTasks=true&onlyFailed=true",
            "restart requested",
        ),
        ("delete m --yes", "DELETE /connectors/m", "deleted"),
    ],
)
def test_an_action_is_sent_to_the_connector(
    server: StubWorker, line: str, request_: str, words: str
) -> None:
    """One request, one line; the same as JSON."""
    method, path = request_.split(" ")
    server.on(method, path, StubResponse(202))
    done = run(line)
    assert (done.exit_code, done.stdout) == (0, f"m\t{words}\n")
    assert server.requests() == [request_]
    assert json.loads(run(line, "--json").stdout) == [{"name": "m", "result": words}]


@pytest.mark.parametrize("verb", ["pause", "resume", "stop", "restart --include-tasks"])
def test_all_selects_all_connectors(server: StubWorker, verb: str) -> None:
    """One request each."""
    server.on("GET", "/connectors", StubResponse(200, ["b", "a"]))
    action = verb.split(maxsplit=1)[0]
    method, query = ("PUT", "")
    if action == "restart":
        method, query = "POST", "?includeTasks=true&onlyFailed=false"
    for name in "ab":
        server.on(method, f"/connectors/{name}/{action}{query}", StubResponse(202))
    done = run(f"{verb} --all")
    assert (done.exit_code, done.stdout) == (0, f"a\t{action} requested\nb\t{action} requested\n")


@pytest.mark.parametrize("verb", ["pause", "resume", "stop", "restart", "delete --yes"])
def test_one_that_is_refused_does_not_keep_the_others(server: StubWorker, verb: str) -> None:
    """The exit code is 1, and the error names it."""
    action = verb.split(maxsplit=1)[0]
    for name, reply in (("m", NOT_THERE), ("n", StubResponse(202))):
        path = f"/connectors/{name}"
        server.on("PUT", f"{path}/{action}", reply)
        server.on("POST", f"{path}/restart?includeTasks=false&onlyFailed=false", reply)
        server.on("DELETE", path, reply)
    done = run(f"{verb} m n m")
    assert done.exit_code == 1
    assert done.stdout.split("\t")[0] == "n"
    assert done.stderr.count("connector 'm' is not known to http") == 1


@pytest.mark.parametrize("verb", ["pause", "resume", "stop", "restart"])
def test_either_names_or_all(server: StubWorker, verb: str) -> None:
    """Nothing is done otherwise."""
    for line in (verb, f"{verb} m --all"):
        done = run(line)
        assert (done.exit_code, "--all" in done.stderr) == (2, True)
    assert server.asked == []


def test_nothing_is_deleted_unasked(server: StubWorker) -> None:
    """Without a terminal --yes is needed; and always a name."""
    assert run("delete m").exit_code == run("delete --yes").exit_code == 2
    assert "pass --yes" in run("delete m").stderr
    assert server.asked == []


@pytest.mark.parametrize(("answer", "code"), [("y", 0), ("n", 1), ("", 1)])
def test_delete_asks_for_confirmation_on_a_terminal(
    server: StubWorker, monkeypatch: pytest.MonkeyPatch, answer: str, code: int
) -> None:
    """With the names and the address in the question."""
    monkeypatch.setattr("sparkmirror.cli.connect_actions._is_interactive", lambda: True)
    server.on("DELETE", "/connectors/m", StubResponse(204))
    done = run("delete m", input=f"{answer}\n")
    assert f"Delete m on {server.url}?" in done.stdout
    assert (done.exit_code, len(server.asked)) == (code, 1 - code)


# Files


def test_a_new_connector_is_created(server: StubWorker, file: Path) -> None:
    """With its configuration as it is."""
    prepared(server)
    done = run("deploy -f", str(file))
    assert (done.exit_code, done.stdout) == (0, f"m\tcreated\t-\t-\t{file}\n")
    assert [one.body for one in server.asked if one.method == "PUT"] == [CONFIG]


def test_a_differing_connector_is_updated(server: StubWorker, file: Path) -> None:
    """The whole configuration is sent."""
    prepared(server, stored={**CONFIG, "topics": "u"})
    assert run("deploy -f", str(file)).stdout == f"m\tupdated\t-\t-\t{file}\n"
    assert server.requests(changing=True) == ["PUT /connectors/m/config"]


def test_an_equal_connector_is_not_changed(server: StubWorker, file: Path) -> None:
    """A PUT would restart it."""
    prepared(server, stored=CONFIG)
    assert run("deploy -f", str(file)).stdout == f"m\tunchanged\t-\t-\t{file}\n"
    assert server.requests(changing=True) == []


def test_an_initial_state_is_respected(server: StubWorker, file: Path) -> None:
    """Only POST supports it."""
    document = {"name": "m", "config": {"connector.class": CLASS}, "initial_state": "paused"}
    file.write_text(json.dumps(document))
    prepared(server).on("POST", "/connectors", StubResponse(201, {}))
    assert run("deploy -f", str(file)).stdout.startswith("m\tcreated")
    [asked] = [one for one in server.asked if one.method == "POST"]
    assert asked.body == {
        "name": "m",
        "config": {"connector.class": CLASS, "name": "m"},
        "initial_state": "PAUSED",
    }


def test_a_folder_is_deployed_and_one_refusal_does_not_stop_it(
    server: StubWorker, file: Path
) -> None:
    """The rejection has Connect's message."""
    (file.parent / "n.json").write_text(json.dumps({**CONFIG, "name": "n"}))
    prepared(server).on("PUT", "/connectors/m/config", recorded_refusal())
    server.on("GET", "/connectors/n/config", NOT_THERE)
    server.on("PUT", "/connectors/n/config", StubResponse(201, {}))
    done = run("deploy --json -f", str(file.parent))
    assert done.exit_code == 1
    found = {one["name"]: one for one in json.loads(done.stdout)}
    assert (found["m"]["result"], found["n"]["result"]) == ("failed", "created")
    assert "tasks.max" in found["m"]["error"]
    assert "tasks.max" in done.stderr


def recorded_refusal() -> StubResponse:
    """The recorded rejection of a configuration with an invalid value."""
    return recorded_response("PUT", "/connectors/new/config", status=400)


def test_deploy_waits_until_it_runs(server: StubWorker, file: Path) -> None:
    """Also while the worker has no status of it."""
    prepared(server)
    waiting = {**RUNNING, "tasks": [{"id": 0, "state": "UNASSIGNED", "worker_id": "w:1"}]}
    status = "/connectors/m/status"
    server.on("GET", status, NOT_THERE, StubResponse(200, waiting), StubResponse(200, RUNNING))
    done = run("deploy --wait 30s -f", str(file))
    assert (done.exit_code, done.stdout) == (0, f"m\tcreated\tRUNNING\t-\t{file}\n")
    assert server.requests().count(f"GET {status}") == 3


def test_deploy_waits_until_it_has_failed(server: StubWorker, file: Path) -> None:
    """With the first line of the trace, and the remedy."""
    prepared(server).on("GET", "/connectors/m/status", StubResponse(200, FAILED))
    done = run("deploy --wait 30s -f", str(file))
    assert (done.exit_code, done.stdout.split("\t")[2]) == (1, "FAILED")
    assert "connector 'm' task 0 has FAILED: Boom (" in done.stderr
    assert "sparkmirror restart m --include-tasks" in done.stderr


def test_deploy_does_not_wait_for_ever(server: StubWorker, file: Path) -> None:
    """The error names what is missing."""
    prepared(server).on("GET", "/connectors/m/status", NOT_THERE)
    done = run("deploy --wait 300ms -f", str(file))
    assert done.exit_code == 1
    assert "connector 'm' has not settled within 0.3 s (no state yet)" in done.stderr


def test_an_old_state_is_not_taken_for_the_new_one(
    server: StubWorker, file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """RUNNING after a change may be the previous state."""
    monkeypatch.setattr(deployment, "STALE_SECONDS", 0.5)
    prepared(server, stored={**CONFIG, "topics": "u"})
    server.on("GET", "/connectors/m/status", StubResponse(200, RUNNING), StubResponse(200, FAILED))
    done = run("deploy --wait 30s -f", str(file))
    assert (done.exit_code, done.stdout.split("\t")[1:3]) == (1, ["updated", "FAILED"])


SOURCE = CLASS.replace("Heartbeat", "Source")
UNREACHABLE = "Cluster 'a' cannot be reached at 127.0.0.1:1."


@pytest.mark.parametrize(
    ("status", "sentence"),
    [
        (
            {"tasks": [], "connector": {**RUNNING["connector"], "warning": UNREACHABLE}},
            f"connector 'm' is RUNNING without a task after 0.5 s: {UNREACHABLE[:-1]}; see",
        ),
        (
            {"tasks": [{**RUNNING["tasks"][0], "warning": "orders-0 is retried\nmore"}]},
            "connector 'm' is RUNNING after 0.5 s: orders-0 is retried; see",
        ),
        ({"tasks": []}, "RUNNING without a task after 0.5 s: its topics match none of the source"),
    ],
    ids=["unreachable-source", "warning-of-a-task", "no-task"],
)
def test_deploy_fails_when_a_connector_runs_without_copying(
    server: StubWorker,
    file: Path,
    monkeypatch: pytest.MonkeyPatch,
    status: dict[str, Any],
    sentence: str,
) -> None:
    """The error has the worker's reason."""
    monkeypatch.setattr(deployment, "NO_TASKS_SECONDS", 0.1)
    file.write_text(json.dumps({**CONFIG, "connector.class": SOURCE}))
    prepared(server).on("GET", "/connectors/m/status", StubResponse(200, {**RUNNING, **status}))
    server.on("GET", "/connectors/m/config", NOT_THERE)
    done = run("deploy --wait 500ms -f", str(file))
    assert (done.exit_code, done.stdout.split("\t")[1:3]) == (1, ["created", "RUNNING"])
    assert sentence in done.stderr


def test_deploy_waits_until_a_warning_is_gone(server: StubWorker, file: Path) -> None:
    prepared(server)
    warned = {**RUNNING, "connector": {**RUNNING["connector"], "warning": UNREACHABLE}}
    server.on("GET", "/connectors/m/status", StubResponse(200, warned), StubResponse(200, RUNNING))
    done = run("deploy --wait 30s -f", str(file))
    assert (done.exit_code, done.stdout) == (0, f"m\tcreated\tRUNNING\t-\t{file}\n")
    assert server.requests().count("GET /connectors/m/status") == 2


def test_a_connector_without_tasks_gets_the_request(
    server: StubWorker, file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A heartbeat connector may have none."""
    monkeypatch.setattr(deployment, "NO_TASKS_SECONDS", 0.3)
    prepared(server).on("GET", "/connectors/m/status", StubResponse(200, {**RUNNING, "tasks": []}))
    done = run("deploy --wait 30s -f", str(file))
    assert done.stdout == f"m\tcreated\tRUNNING\tno tasks\t{file}\n"


def test_a_worker_that_is_away_for_a_moment_is_waited_for(server: StubWorker, file: Path) -> None:
    """It may be restarting; if it stays unreachable, the command fails."""
    prepared(server)

    def hang_up(handler: Any) -> None:
        handler.close_connection = True

    server.on("GET", "/connectors/m/status", hang_up, hang_up, StubResponse(200, RUNNING))
    assert run("deploy --wait 30s -f", str(file)).exit_code == 0
    server.on("GET", "/connectors/m/status", hang_up)
    done = run("deploy --wait 300ms -f", str(file))
    assert done.exit_code == 3
    assert done.stdout.startswith("m\tcreated\t")
    assert "cannot be reached" in done.stderr


def test_a_dry_run_changes_nothing(server: StubWorker, file: Path) -> None:
    """It prints what would be done, and the worker's errors."""
    prepared(server)
    assert run("deploy --dry-run -f", str(file)).stdout == f"m\twould be created\t-\t-\t{file}\n"
    path = f"/connector-plugins/{CLASS}/config/validate"
    wrong = {"configs": [{"value": {"name": "tasks.max", "errors": ["Not a number"]}}]}
    server.on("PUT", path, StubResponse(200, wrong))
    done = run("deploy --dry-run -f", str(file))
    assert (done.exit_code, done.stdout.split("\t")[1]) == (1, "refused")
    assert "connector 'm': tasks.max: Not a number" in done.stderr
    server.on("PUT", path, StubResponse(500, {"message": "no such class"}))
    assert "no such class" in run("deploy --dry-run -f", str(file)).stderr
    assert server.requests(changing=True) == []


def test_undeploy_ends_when_nothing_is_known_any_more(server: StubWorker, file: Path) -> None:
    """A status outlives its connector for a moment."""
    server.on("DELETE", "/connectors/m", StubResponse(204))
    server.on(
        "GET",
        "/connectors/m/status",
        StubResponse(200, RUNNING),
        StubResponse(200, RUNNING),
        NOT_THERE,
    )
    done = run("undeploy -f", str(file))
    assert (done.exit_code, done.stdout) == (0, f"m\tdeleted\t-\t-\t{file}\n")
    assert server.requests()[-3:] == ["GET /connectors/m/status"] * 3
    server.on("DELETE", "/connectors/m", NOT_THERE)
    again = run("undeploy -f", str(file))
    assert (again.exit_code, again.stdout.split("\t")[1]) == (0, "not there")


def test_a_status_that_stays_is_reported(
    server: StubWorker, file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The worker that should remove it may be dead; nothing is created over it."""
    monkeypatch.setattr(deployer, "DELETE_TIMEOUT_SECONDS", 0.3)
    prepared(server).on("DELETE", "/connectors/m", StubResponse(204))
    for line in ("undeploy -f", "redeploy -f"):
        done = run(line, str(file))
        assert done.exit_code == 1
        assert "still reports it as RUNNING on w:1" in done.stderr
    assert "PUT /connectors/m/config" not in server.requests(changing=True)


def test_redeploy_never_meets_the_old_state(server: StubWorker, file: Path) -> None:
    """Deleted, gone, created, RUNNING: in this order."""
    prepared(server).on("DELETE", "/connectors/m", StubResponse(204))
    old, new = StubResponse(200, RUNNING), StubResponse(200, RUNNING)
    server.on("GET", "/connectors/m/config", StubResponse(200, CONFIG), NOT_THERE)
    server.on("GET", "/connectors/m/status", old, NOT_THERE, NOT_THERE, new)
    done = run("redeploy --wait 30s -f", str(file))
    assert (done.exit_code, done.stdout) == (0, f"m\tcreated\tRUNNING\t-\t{file}\n")
    asked = [one for one in server.requests() if not one.startswith("PUT /connector-plugins")]
    status = "GET /connectors/m/status"
    assert asked == [
        "GET /connectors/m/config", "DELETE /connectors/m", status, status,
        "GET /connectors/m/config", "PUT /connectors/m/config", status, status,
    ]  # fmt: skip


def test_redeploy_deletes_nothing_that_it_could_not_create(server: StubWorker, file: Path) -> None:
    """The worker validates first."""
    wrong = {"configs": [{"value": {"name": "tasks.max", "errors": ["Not a number"]}}]}
    path = f"/connector-plugins/{CLASS}/config/validate"
    prepared(server, stored=CONFIG).on("PUT", path, StubResponse(200, wrong))
    done = run("redeploy -f", str(file))
    assert (done.exit_code, server.requests(changing=True)) == (1, [])
    assert "Nothing was deleted." in done.stderr


# Wrong use, and nobody there


@pytest.mark.parametrize("line", ["deploy -f", "undeploy -f", "redeploy -f", "deploy --dry-run -f"])
def test_wrong_files_are_reported_before_anything_is_done(
    server: StubWorker, tmp_path: Path, line: str
) -> None:
    """All of them, with exit code 2."""
    (tmp_path / "bad.json").write_text("{")
    done = run(line, str(tmp_path), "-f", str(tmp_path / "missing.json"))
    assert done.exit_code == 2
    assert "bad.json is not valid JSON" in done.stderr
    assert "missing.json cannot be read" in done.stderr
    assert server.asked == []


@pytest.mark.parametrize(
    "line",
    [
        "get", "get nothing", "get connectors --state ASLEEP", "get plugins --state FAILED",
        "describe", "describe ..", "deploy", "undeploy", "redeploy",
        "deploy --wait soon -f {f}", "redeploy --wait -1s -f {f}",
        "get connectors --url ftp://x", "get connectors --url http://me:word@x",
        "get connectors --user me:word", "get connectors --user me", "get connectors --timeout 0",
    ],
)  # fmt: skip
def test_wrong_use_has_its_own_exit_code(server: StubWorker, file: Path, line: str) -> None:
    """No request is sent, and no password is printed."""
    done = run(line.format(f=file))
    assert (done.exit_code, server.asked) == (2, [])
    assert "word" not in done.stderr.replace("password", "").replace("PASSWORD", "")


@pytest.mark.parametrize("line", TYPED)
def test_a_worker_that_is_not_there_has_its_own_exit_code(file: Path, line: str) -> None:
    """The error names the address."""
    with socket.socket() as silent:
        silent.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{silent.getsockname()[1]}"
        done = run(line.format(f=file), "--url", url)
    assert done.exit_code == 3
    assert f"The Connect worker at {url} cannot be reached: connection refused." in (
        " ".join(done.stderr.split())
    )


@pytest.mark.parametrize("line", TYPED)
def test_the_password_comes_from_the_environment(
    server: StubWorker, file: Path, line: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Every command sends it; 401 is reported."""
    monkeypatch.setenv("SPARKMIRROR_PASSWORD", "word")
    for method in ("GET", "PUT", "POST", "DELETE"):
        for path in ("", "/m", "/m/config", "/m/pause", "/m/resume", "/m/stop"):
            server.on(method, f"/connectors{path}", StubResponse(401))
    server.on("GET", "/connectors?expand=status&expand=info", StubResponse(401))
    server.on(
        "POST", "/connectors/m/restart?includeTasks=false&onlyFailed=false", StubResponse(401)
    )
    done = run(line.format(f=file), "--user", "me")
    assert (done.exit_code, {one.user for one in server.asked}) == (1, {"me:word"})
    assert "set --user NAME" in done.stderr
    assert "word" not in done.output.replace("password", "").replace("PASSWORD", "")
