# SPDX-License-Identifier: Apache-2.0
"""`sparkmirror worker` with a file and connectors as people have them, asked as their scripts do.

One worker on the target for all tests; each has topics and aliases of its own.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from urllib.parse import quote

import pytest
from typer.testing import CliRunner

from sparkmirror.cli.main import app
from sparkmirror.devcluster.cluster import LocalCluster
from support.clients.librdkafka import (
    Record,
    await_copy,
    compare_topics,
    create_topics,
    end_offsets,
    numbered,
    produce,
    read_topic,
)
from support.clients.load_generator import Load
from support.clients.prometheus import sample, scrape
from support.mirrors.java_connect import ConnectTopics, heartbeat_config
from support.mirrors.worker_group import retry_after_rebalance
from support.mirrors.worker_process import WorkerProcess
from support.unique_names import unique_name
from support.waiting import PATIENCE_SECONDS, eventually

NOBODY = "127.0.0.1:1"  # port 1 is never ours
BYTES = "org.apache.kafka.connect.converters.ByteArrayConverter"
JAVA = "org.apache.kafka.connect.mirror"


@pytest.fixture(scope="module")
def worker(
    target_cluster: LocalCluster, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[WorkerProcess]:
    """On the target, with converters that it does not need and keys that Connect has removed."""
    topics = ConnectTopics(unique_name("worker"))
    scratch = tmp_path_factory.mktemp("worker")
    with WorkerProcess(
        target_cluster,
        scratch,
        topics,
        value_converter="org.apache.kafka.connect.json.JsonConverter",
        internal_key_converter="org.apache.kafka.connect.json.JsonConverter",
        plugin_path="/usr/share/java",
        session_timeout_ms="30000",  # no pause of a busy machine ends it
        log_format="json",
        log_file=str(scratch / "worker.log"),
    ) as started:
        started.await_health()
        yield started
        assert started.process.terminate()[0] == 0
        started.process.await_end_of_all()
        assert "Traceback" not in started.process.log
        assert (scratch / "worker.log").read_text("utf-8") == started.process.log


def await_record_counts(
    worker: WorkerProcess, source: str, topic: str, counts: list[float]
) -> None:
    """Wait until /metrics of the REST API has them, under MM2's name."""
    host, _, port = worker.worker_id.partition(":")
    names = [
        sample(
            "kafka_connect_mirror_mirrorsourceconnector_record_count",
            source=source,
            target="to",
            topic=topic,
            partition=str(number),
        )
        for number in range(len(counts))
    ]

    def shown() -> bool:
        found = scrape(host, int(port))
        assert [found.get(name) for name in names] == counts
        return True

    eventually(shown, PATIENCE_SECONDS, "the metrics count every record")


@pytest.fixture
def flow(source_cluster: LocalCluster, target_cluster: LocalCluster) -> dict[str, object]:
    """What the connectors of one flow have in common."""
    return {
        "key.converter": BYTES,
        "value.converter": BYTES,
        "source.cluster.alias": unique_name("from"),
        "source.cluster.bootstrap.servers": source_cluster.bootstrap_servers,
        "target.cluster.alias": "to",
        "target.cluster.bootstrap.servers": target_cluster.bootstrap_servers,
    }


def source_config(flow: dict[str, object], topic: str, **more: object) -> dict[str, object]:
    """A source connector, with booleans and numbers as people write them."""
    return {
        "connector.class": f"{JAVA}.MirrorSourceConnector",
        **flow,
        "topics": topic,
        "tasks.max": 2,
        "replication.factor": 1,
        "sync.topic.acls.enabled": False,
        "sync.topic.configs.enabled": False,
        "heartbeats.replication.enabled": False,
        **{key.replace("_", "."): value for key, value in more.items()},
    }


def deploy(worker: WorkerProcess, name: str, config: dict[str, object]) -> int:
    """PUT as curl does it: the status code."""
    return retry_after_rebalance(
        worker, "PUT", f"/connectors/{quote(name, safe='')}/config", config
    )[0]


def undeploy(worker: WorkerProcess, *names: str) -> None:
    """DELETE, after which nobody knows a status."""
    for name in names:
        code, answer = retry_after_rebalance(
            worker, "DELETE", f"/connectors/{quote(name, safe='')}"
        )
        assert code == 204, answer
        assert worker.request("GET", f"/connectors/{quote(name, safe='')}/status")[0] == 404


def await_warning(worker: WorkerProcess, name: str, words: str) -> str:
    """The warning about a connector that has some words in it."""

    def found() -> str:
        warning: str = worker.get(f"/connectors/{quote(name)}/status")["connector"]["warning"]
        assert words in warning
        return warning

    return eventually(
        found, PATIENCE_SECONDS, f"a warning: {words}", not_yet=(AssertionError, KeyError)
    )


def test_three_files_are_deployed_and_redeployed(
    worker: WorkerProcess,
    flow: dict[str, object],
    source_cluster: LocalCluster,
    target_cluster: LocalCluster,
    unique_topic: Callable[..., str],
) -> None:
    """Only the source connector has the policy; the checkpoint connector is warned, with names."""
    topic = unique_topic()
    create_topics(source_cluster, {topic: 3})
    produce(source_cluster, topic, numbered(300, 3))
    identity = f"{JAVA}.IdentityReplicationPolicy"
    source, checkpoint, heartbeat = (unique_name(f"mm2-{one}") for one in ("msc", "cpc", "hbc"))
    files: dict[str, dict[str, object]] = {
        checkpoint: {"connector.class": f"{JAVA}.MirrorCheckpointConnector", **flow},
        heartbeat: {"connector.class": "MirrorHeartbeat", **flow},
        source: source_config(flow, topic, replication_policy_class=identity),
    }
    for name, config in files.items():
        assert deploy(worker, name, config | {"name": name}) == 201
    worker.await_states(source, "RUNNING", "RUNNING", "RUNNING")
    worker.await_states(checkpoint, "RUNNING", "RUNNING")
    worker.await_states(heartbeat, "RUNNING", "RUNNING")
    await_copy(source_cluster, topic, target_cluster, topic, PATIENCE_SECONDS)
    await_record_counts(worker, str(flow["source.cluster.alias"]), topic, [100] * 3)

    stored = worker.get(f"/connectors/{source}/config")
    assert (stored["tasks.max"], stored["sync.topic.acls.enabled"]) == ("2", "false")
    warning = await_warning(worker, checkpoint, "replication.policy.class")
    assert source in warning
    assert checkpoint in warning

    def assigned() -> list[str]:
        tasks = worker.get(f"/connectors/{source}/tasks")
        lists = [one["config"]["task.assigned.partitions"] for one in tasks]
        return sorted(part for one in lists for part in one.split(","))

    eventually(
        lambda: assigned() == [f"{topic}-{number}" for number in range(3)],
        PATIENCE_SECONDS,
        "its tasks are known",
    )
    eventually(
        lambda: worker.get(f"/connectors/{source}/topics")[source]["topics"] == [topic],
        PATIENCE_SECONDS,
        "its topic is known",
    )
    eventually(
        lambda: worker.get(f"/connectors/{heartbeat}/topics")[heartbeat]["topics"],
        PATIENCE_SECONDS,
        "the heartbeats' topic is known",
    )

    undeploy(worker, *files)
    produce(source_cluster, topic, numbered(300, 3, first=300))
    for name in files:  # nothing that was deleted has said a last word
        assert worker.request("GET", f"/connectors/{name}/status")[0] == 404
    for name, config in files.items():
        assert deploy(worker, name, config) == 201
    worker.await_states(source, "RUNNING", "RUNNING", "RUNNING")
    await_copy(source_cluster, topic, target_cluster, topic, PATIENCE_SECONDS)
    assert compare_topics(source_cluster, topic, target_cluster, topic) == 600  # it went on
    eventually(lambda: worker.process.log.count(warning) > 1, PATIENCE_SECONDS, "it warns again")
    undeploy(worker, *files)
    assert worker.process.log.count(warning) == 2  # once for each deployment


def reset_offsets(worker: WorkerProcess, name: str, topic: str, *more: str) -> str:
    """Run `sparkmirror offsets reset` and return the state that it prints."""
    command = ["offsets", "reset", "--connector", name, "--url", worker.url, "--topic", topic]
    done = CliRunner().invoke(app, [*command, "--yes", "--json", *more])
    assert done.exit_code == 0, done.output
    state: str = json.loads(done.stdout)["state"]
    return state


def test_a_reset_keeps_the_state_of_the_connector(
    worker: WorkerProcess,
    flow: dict[str, object],
    source_cluster: LocalCluster,
    target_cluster: LocalCluster,
    unique_topic: Callable[..., str],
) -> None:
    """Running, it is carried out at once; paused, when the connector is resumed."""
    topic, name = unique_topic(), unique_name("reset")
    remote = f"{flow['source.cluster.alias']}.{topic}"
    create_topics(source_cluster, {topic: 1})
    produce(source_cluster, topic, numbered(50))
    assert deploy(worker, name, source_config(flow, topic)) == 201
    await_copy(source_cluster, topic, target_cluster, remote, PATIENCE_SECONDS)
    originals = read_topic(source_cluster, topic)[0]

    def await_records(expected: list[Record]) -> None:
        eventually(
            lambda: read_topic(target_cluster, remote)[0] == expected,
            PATIENCE_SECONDS,
            f"{len(expected)} records in {remote}",
        )

    assert reset_offsets(worker, name, topic, "--to", "40", "--dry-run") == "planned"
    assert reset_offsets(worker, name, topic, "--to", "40") == "done"
    await_records([*originals, *originals[40:]])
    worker.request_ok("PUT", f"/connectors/{name}/pause")
    worker.await_states(name, "PAUSED", "PAUSED")
    assert reset_offsets(worker, name, topic, "--to", "45") == "pending"
    pending = worker.get(f"/connectors/{name}/offsets/reset")["resets"]
    assert [(one["nextOffset"], one["error"]) for one in pending] == [(45, "")]
    worker.await_states(name, "PAUSED", "PAUSED")
    worker.request_ok("PUT", f"/connectors/{name}/resume")
    await_records([*originals, *originals[40:], *originals[45:]])
    assert worker.get(f"/connectors/{name}/offsets/reset")["resets"] == []
    worker.request_ok("DELETE", f"/connectors/{name}")


def test_effects_reach_the_data(
    worker: WorkerProcess,
    flow: dict[str, object],
    source_cluster: LocalCluster,
    target_cluster: LocalCluster,
    unique_topic: Callable[..., str],
) -> None:
    """Paused nothing is copied, resumed nothing is missed; stopped, offsets can be set."""
    topic, name = unique_topic(), unique_name("effects")
    remote = f"{flow['source.cluster.alias']}.{topic}"
    create_topics(source_cluster, {topic: 2})
    assert deploy(worker, name, source_config(flow, topic)) == 201
    worker.await_states(name, "RUNNING", "RUNNING", "RUNNING")

    def copied() -> int:
        return sum(end_offsets(target_cluster, remote).values())

    with Load(source_cluster, topic, per_second=100, partitions=2) as load:
        eventually(lambda: copied() > 20, PATIENCE_SECONDS, "records flow")
        for verb, rests in (("pause", ("PAUSED",) * 3), ("stop", ("STOPPED",))):
            assert retry_after_rebalance(worker, "PUT", f"/connectors/{name}/{verb}")[0] in {
                202,
                204,
            }
            worker.await_states(name, *rests)
            before, enough = copied(), load.sent + 50
            eventually(lambda n=enough: load.sent > n, PATIENCE_SECONDS, "there is more to copy")
            assert copied() == before, verb
            assert retry_after_rebalance(worker, "PUT", f"/connectors/{name}/resume")[0] == 202
            eventually(lambda b=before: copied() > b, PATIENCE_SECONDS, "it goes on")
        assert retry_after_rebalance(worker, "POST", f"/connectors/{name}/restart")[0] == 204
        code, told = retry_after_rebalance(
            worker, "POST", f"/connectors/{name}/restart?includeTasks=true"
        )
        assert (code, told["connector"]["state"]) == (202, "RESTARTING")
        eventually(
            lambda: worker.request("POST", f"/connectors/{name}/tasks/0/restart")[0] == 204,
            PATIENCE_SECONDS,
            "there is a task again",
        )
        before = copied()
        eventually(lambda: copied() > before + 50, PATIENCE_SECONDS, "it goes on")
    await_copy(source_cluster, topic, target_cluster, remote, PATIENCE_SECONDS)
    count = compare_topics(source_cluster, topic, target_cluster, remote)

    worker.await_states(name, "RUNNING", "RUNNING", "RUNNING")
    assert worker.request("DELETE", f"/connectors/{name}/offsets")[0] == 400
    worker.request_ok("PUT", f"/connectors/{name}/stop")
    worker.await_states(name, "STOPPED")
    stored = worker.get(f"/connectors/{name}/offsets")["offsets"]
    last = {one["partition"]["partition"]: one["offset"]["offset"] for one in stored}
    assert last == {
        partition: end - 1 for partition, end in end_offsets(source_cluster, topic).items()
    }
    back = [
        {
            "partition": {"cluster": flow["source.cluster.alias"], "topic": topic, "partition": n},
            "offset": {"offset": offset - 10},
        }
        for n, offset in last.items()
    ]
    worker.request_ok("PATCH", f"/connectors/{name}/offsets", {"offsets": back})
    worker.request_ok("PUT", f"/connectors/{name}/resume")
    eventually(lambda: copied() >= count + 20, PATIENCE_SECONDS, "ten of each come again")
    undeploy(worker, name)
    assert copied() == count + 20


def test_a_task_fails_with_a_trace_and_restarts(
    worker: WorkerProcess,
    flow: dict[str, object],
    source_cluster: LocalCluster,
    target_cluster: LocalCluster,
    unique_topic: Callable[..., str],
) -> None:
    """The task whose partition is stuck, and no other."""
    topic, name = unique_topic(), unique_name("strict")
    remote = f"{flow['source.cluster.alias']}.{topic}"
    create_topics(source_cluster, {topic: 2})
    create_topics(target_cluster, {remote: 2}, {"max.message.bytes": "2000"})
    produce(source_cluster, topic, numbered(10, 2))
    produce(source_cluster, topic, [(1, Record(b"large", b"x" * 5000))])
    config = source_config(flow, topic, refused_record_policy="stop")
    worker.request_ok("POST", "/connectors", {"name": name, "config": config})
    worker.await_states(name, "RUNNING", "RUNNING", "FAILED")
    failed = worker.get(f"/connectors/{name}/tasks/1/status")
    assert f"{remote}-1: MESSAGE_TOO_LARGE" in failed["trace"]
    assert "trace" not in worker.get(f"/connectors/{name}/tasks/0/status")
    worker.request_ok("PATCH", f"/connectors/{name}/config", {"refused.record.policy": "skip"})
    worker.await_states(name, "RUNNING", "RUNNING", "RUNNING")
    undeploy(worker, name)


def test_bad_input_leaves_no_half_written_connector(
    worker: WorkerProcess, flow: dict[str, object], target_cluster: LocalCluster
) -> None:
    """Connect's own answers; what is accepted with an unreachable cluster says so in its status."""
    before = worker.get("/connectors")
    beat = heartbeat_config(target_cluster)
    good = source_config(flow, "nothing")
    for body, code, words in (
        ({"name": "x", "config": good | {"tasks.max": 0}}, 400, "tasks.max"),
        ({"name": "x", "config": good | {"connector.class": "Nonsense"}}, 400, "Failed to find"),
        ({"name": "x", "config": good | {"name": "y"}}, 400, "y"),
        ({"config": good}, 400, ""),
        ({"name": "x", "config": good | {"topics": "a" * 10_000_000}}, 500, "Error writing"),
        ({"name": "x", "config": [1]}, 500, ""),
    ):
        found, answer = worker.request("POST", "/connectors", body)
        assert (found, answer["error_code"]) == (code, code), answer
        assert words in answer["message"]
        assert "Traceback" not in answer["message"]
    assert worker.get("/connectors") == before

    odd = "../häfen/% ö"
    assert deploy(worker, odd, dict(beat)) == 201
    worker.await_states(odd, "RUNNING", "RUNNING")
    undeploy(worker, odd)

    nobody = good | {"source.cluster.bootstrap.servers": NOBODY}
    assert deploy(worker, "nobody", nobody | {"source.cluster.sasl.jaas.config": "s3cret"}) == 201
    await_warning(worker, "nobody", NOBODY)
    shown = worker.get("/connectors/nobody/config")
    assert shown["source.cluster.sasl.jaas.config"] == "[hidden]"
    assert deploy(worker, "nobody", shown | {"tasks.max": "1"}) == 200
    assert "s3cret" not in worker.process.log
    undeploy(worker, "nobody")


def test_deploy_fails_when_a_connector_cannot_reach_its_source(
    worker: WorkerProcess, flow: dict[str, object], tmp_path: Path
) -> None:
    """It is RUNNING, as in Connect; the error names the address."""
    file = tmp_path / "lonely.json"
    config = source_config(flow, "nothing") | {"source.cluster.bootstrap.servers": NOBODY}
    file.write_text(json.dumps({"name": "lonely", "config": config}))
    words = ["deploy", "-f", str(file), "--wait", "15s", "--url", worker.url]
    done = CliRunner().invoke(app, words)
    assert (done.exit_code, done.stdout.split("\t")[1:3]) == (1, ["created", "RUNNING"]), (
        done.output
    )
    assert "connector 'lonely' is RUNNING without a task after 15 s: " in done.stderr
    assert NOBODY in done.stderr
    undeploy(worker, "lonely")


@pytest.mark.thorough
def test_a_worker_may_sit_on_the_source(
    source_cluster: LocalCluster,
    target_cluster: LocalCluster,
    tmp_path: Path,
    unique_topic: Callable[..., str],
) -> None:
    """Records go where the producer is told to; without that they would come back, so: refused."""
    topic, name = unique_topic(), "test_mirror"
    alias = unique_name("source")
    create_topics(source_cluster, {topic: 1})
    produce(source_cluster, topic, numbered(50))
    topics = ConnectTopics(unique_name("quickstart"))
    config = {
        "connector.class": f"{JAVA}.MirrorSourceConnector",
        "name": name,
        "source.cluster.alias": alias,
        "topics": topic,
        "source.cluster.bootstrap.servers": source_cluster.bootstrap_servers,
        "target.cluster.bootstrap.servers": target_cluster.bootstrap_servers,
        "offset-syncs.topic.replication.factor": "1",
        "heartbeats.replication.enabled": "false",
    }
    target = {"producer.override.bootstrap.servers": target_cluster.bootstrap_servers}
    with WorkerProcess(
        source_cluster, tmp_path, topics, rest_advertised_host_name='"localhost"'
    ) as worker:
        worker.await_health()
        code, answer = worker.request("POST", "/connectors", {"name": name, "config": config})
        assert code == 400
        assert "producer.override.bootstrap.servers" in answer["message"]
        code, answer = worker.request(
            "POST", "/connectors", {"name": name, "config": config | target}
        )
        assert code == 201, answer
        worker.await_states(name, "RUNNING", "RUNNING")
        remote = f"{alias}.{topic}"
        await_copy(source_cluster, topic, target_cluster, remote, PATIENCE_SECONDS)
        assert worker.get("/connectors") == [name]
        assert worker.get(f"/connectors/{name}/offsets")["offsets"]
        assert worker.process.terminate()[0] == 0
    assert sum(end_offsets(source_cluster, topics.offsets).values()) > 0


def test_every_log_line_is_json_and_names_its_connector(
    worker: WorkerProcess, flow: dict[str, object]
) -> None:
    """Also lines of the flow, which has the label of its connector."""
    name = unique_name("logged")
    assert deploy(worker, name, flow | {"connector.class": f"{JAVA}.MirrorSourceConnector"}) == 201
    label = f"{flow['source.cluster.alias']}->{flow['target.cluster.alias']}"

    def states() -> list[dict[str, str]]:
        lines = [json.loads(line) for line in worker.process.log.splitlines()]
        found = [one for one in lines if one["message"].startswith(f"{label}|{name}: ")]
        assert any("RUNNING" in one["message"] for one in found)
        return found

    found = eventually(states, PATIENCE_SECONDS, "its state is logged")
    assert {(one["flow"], one["connector"]) for one in found} == {(label, name)}
    undeploy(worker, name)
