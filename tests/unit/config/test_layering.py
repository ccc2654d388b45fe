# SPDX-License-Identifier: Apache-2.0
"""MM2's precedence between the lines of a file, with the memory of who lost."""

from __future__ import annotations

from sparkmirror.config.files.layering import (
    LayeredConfig,
    Origin,
    all_flows,
    client_config,
    cluster_properties,
    connector_config,
    record_producer_config,
    worker_config,
)
from sparkmirror.config.files.properties import Property, parse_properties
from sparkmirror.model import Flow

FLOW = Flow("a", "b")


def raw(*lines: str) -> dict[str, Property]:
    """The entries of a file with these lines."""
    return dict(parse_properties("\n".join(lines), "x").entries)


def texts(layered: LayeredConfig) -> dict[str, str]:
    """Keys and texts without their history."""
    return {key: value.text for key, value in layered.items()}


def test_a_cluster_gets_its_own_lines_and_shared_security() -> None:
    """Own client keys spread to the clients if absent, the file's after them."""
    found = texts(
        cluster_properties(
            raw(
                "a.bootstrap.servers=one",
                "a.consumer.bootstrap.servers=two",
                "security.protocol=SSL",
                "a.admin.security.protocol=PLAINTEXT",
                "ssl.truststore.location=/t",
                "b.bootstrap.servers=other",
                "topics=x",
            ),
            "a",
        )
    )
    assert found == {
        "bootstrap.servers": "one",
        "producer.bootstrap.servers": "one",
        "consumer.bootstrap.servers": "two",
        "admin.bootstrap.servers": "one",
        "security.protocol": "SSL",
        "producer.security.protocol": "SSL",
        "consumer.security.protocol": "SSL",
        "admin.security.protocol": "PLAINTEXT",
        "ssl.truststore.location": "/t",
        "producer.ssl.truststore.location": "/t",
        "consumer.ssl.truststore.location": "/t",
        "admin.ssl.truststore.location": "/t",
    }


def test_only_connector_keys_pass_from_the_whole_file_into_a_flow() -> None:
    """Unknown and client keys of the whole file are dropped; prefixes of two kinds pass."""
    found = texts(
        connector_config(
            raw(
                "topics=t",
                "groups=g",
                "emit.heartbeats.interval.seconds=5",
                "consumer.poll.timeout.ms=7",
                "admin.timeout.ms=8",
                "xxx=no",
                "use.defaults.from=source",
                "consumer.fetch.min.bytes=1",
                "producer.override.acks=1",
                "exactly.once.support=required",
                "replication.policy.own=yes",
                "config.providers.f.class=x",
                "bootstrap.servers=no",
            ),
            FLOW,
        )
    )
    passed = ("topics", "groups", "consumer.poll.timeout.ms", "admin.timeout.ms")
    assert [found[key] for key in passed] == ["t", "g", "7", "8"]
    assert found["replication.policy.own"] == "yes"
    assert found["config.providers.f.class"] == "x"
    dropped = {
        "xxx",
        "use.defaults.from",
        "consumer.fetch.min.bytes",
        "producer.override.acks",
        "exactly.once.support",
        "bootstrap.servers",
    }
    assert not dropped & found.keys()


def test_cluster_lines_get_the_prefix_of_their_side() -> None:
    """Client lines become source.consumer.x, all others source.cluster.x."""
    found = texts(
        connector_config(
            raw(
                "a.bootstrap.servers=one",
                "b.bootstrap.servers=two",
                "a.consumer.fetch.min.bytes=5",
                "b.offset.flush.interval.ms=9",
                "b.forwarding.admin.class=X",
            ),
            FLOW,
        )
    )
    assert found["source.cluster.bootstrap.servers"] == "one"
    assert found["source.consumer.bootstrap.servers"] == "one"
    assert found["source.consumer.fetch.min.bytes"] == "5"
    assert found["target.cluster.bootstrap.servers"] == "two"
    assert found["target.cluster.offset.flush.interval.ms"] == "9"
    assert found["target.cluster.forwarding.admin.class"] == "X"
    assert "forwarding.admin.class" not in found


def test_a_connector_is_named_after_its_class_and_flow() -> None:
    """The four derived keys appear unless a line sets them; enabled is false by default."""
    found = texts(connector_config(raw(), FLOW, "MirrorHeartbeatConnector"))
    assert found == {
        "name": "MirrorHeartbeatConnector",
        "connector.class": "org.apache.kafka.connect.mirror.MirrorHeartbeatConnector",
        "source.cluster.alias": "a",
        "target.cluster.alias": "b",
        "enabled": "false",
    }
    assert texts(connector_config(raw("name=mine"), FLOW))["name"] == "mine"
    assert texts(connector_config(raw("a->b.name=ours", "name=mine"), FLOW))["name"] == "ours"


def test_the_flows_line_beats_the_files_and_remembers_it() -> None:
    """Lines of other flows and of the reverse direction do not count."""
    config = connector_config(
        raw("topics=all", "a->b.topics=some", "b->a.topics=back", "a->bb.topics=x"), FLOW
    )
    value = config["topics"]
    assert value.text == "some"
    assert value.origin == Origin("a->b.topics", 2)
    assert value.overrode == (Origin("topics", 1),)
    assert str(value.origin) == "line 2 'a->b.topics'"


def test_an_enabled_line_of_the_whole_file_enables_every_flow() -> None:
    """MM2 injects false only where no line says otherwise."""
    assert connector_config(raw("enabled=true"), FLOW)["enabled"].text == "true"
    assert connector_config(raw("enabled=true", "a->b.enabled=false"), FLOW)["enabled"].text == (
        "false"
    )


def test_variables_are_not_changed() -> None:
    """Connector configurations keep references as they are written."""
    config = connector_config(raw("a.bootstrap.servers=${file:/x:y}", "topics=${env:T}"), FLOW)
    assert config["source.cluster.bootstrap.servers"].text == "${file:/x:y}"
    assert config["topics"].text == "${env:T}"


def test_old_spellings_count_where_the_new_name_is_absent() -> None:
    """If both are there the new name wins, wherever it stands."""
    config = connector_config(raw("a->b.topics.blacklist=old"), FLOW)
    assert config["topics.exclude"].text == "old"
    assert "topics.blacklist" not in config
    config = connector_config(raw("a->b.topics.blacklist=old", "topics.exclude=new"), FLOW)
    assert config["topics.exclude"].text == "new"
    assert config["topics.exclude"].overrode == (Origin("a->b.topics.blacklist", 1),)


def test_the_clusters_consumer_line_beats_the_flows() -> None:
    """`A->B.consumer.x` loses against `A.consumer.x`; `A->B.source.consumer.x` wins."""
    lines = ["a->b.consumer.fetch.min.bytes=1", "a.consumer.fetch.min.bytes=2"]
    consumer = client_config(connector_config(raw(*lines), FLOW), "source", "consumer")
    assert consumer["fetch.min.bytes"].text == "2"
    assert consumer["fetch.min.bytes"].overrode == (Origin("a->b.consumer.fetch.min.bytes", 1),)
    lines.append("a->b.source.consumer.fetch.min.bytes=3")
    consumer = client_config(connector_config(raw(*lines), FLOW), "source", "consumer")
    assert consumer["fetch.min.bytes"].text == "3"
    assert consumer["fetch.min.bytes"].overrode == (
        Origin("a.consumer.fetch.min.bytes", 2),
        Origin("a->b.consumer.fetch.min.bytes", 1),
    )


def test_a_flows_bootstrap_for_consumers_has_no_effect() -> None:
    """The automatic copy of the cluster's line is stronger."""
    lines = raw("a.bootstrap.servers=one", "a->b.consumer.bootstrap.servers=two")
    consumer = client_config(connector_config(lines, FLOW), "source", "consumer")
    assert consumer["bootstrap.servers"].text == "one"


def test_a_consumer_starts_at_the_beginning_and_never_commits() -> None:
    """The reset may be set, committing may not; connector keys are no client keys."""
    plain = client_config(connector_config(raw(), FLOW), "source", "consumer")
    assert plain["auto.offset.reset"].text == "earliest"
    lines = raw(
        "a.consumer.auto.offset.reset=latest",
        "a.consumer.enable.auto.commit=true",
        "consumer.poll.timeout.ms=5",
        "admin.timeout.ms=5",
    )
    config = connector_config(lines, FLOW)
    consumer = client_config(config, "source", "consumer")
    assert consumer["auto.offset.reset"].text == "latest"
    assert consumer["enable.auto.commit"].text == "false"
    assert "poll.timeout.ms" not in consumer
    assert "timeout.ms" not in client_config(config, "target", "admin")


def test_every_connector_client_has_its_layers() -> None:
    """Cluster security, then the role's lines, then those of the side."""
    config = connector_config(
        raw(
            "a.bootstrap.servers=one",
            "b.bootstrap.servers=two",
            "a->b.admin.retries=1",
            "b.admin.retries=2",
            "a->b.producer.acks=1",
            "a->b.target.producer.acks=all",
        ),
        FLOW,
    )
    assert texts(client_config(config, "source", "admin")) == {
        "bootstrap.servers": "one",
        "retries": "1",
    }
    assert texts(client_config(config, "target", "admin")) == {
        "bootstrap.servers": "two",
        "retries": "2",
    }
    assert client_config(config, "source", "producer")["acks"].text == "1"
    assert client_config(config, "target", "producer")["acks"].text == "all"


def test_records_are_written_by_the_workers_producer() -> None:
    """`A->B.producer.x` does not reach it; `producer.override` does."""
    lines = ["b.bootstrap.servers=two", "b.producer.acks=1", "a->b.producer.acks=0"]
    entries = raw(*lines)
    producer = record_producer_config(connector_config(entries, FLOW), worker_config(entries, FLOW))
    assert texts(producer) == {"bootstrap.servers": "two", "acks": "1"}
    entries = raw(*lines, "a->b.producer.override.acks=all")
    producer = record_producer_config(connector_config(entries, FLOW), worker_config(entries, FLOW))
    assert producer["acks"].text == "all"
    assert producer["acks"].overrode == (Origin("b.producer.acks", 2),)


def test_a_worker_belongs_to_the_target_and_is_named_after_the_source() -> None:
    """Names always use dots."""
    found = texts(worker_config(raw("replication.policy.separator=_", "b.group.id=g"), FLOW))
    assert found["offset.storage.topic"] == "mm2-offsets.a.internal"
    assert found["status.storage.topic"] == "mm2-status.a.internal"
    assert found["config.storage.topic"] == "mm2-configs.a.internal"
    assert found["client.id"] == "a->b"
    assert found["group.id"] == "g"
    assert found["key.converter"].endswith("ByteArrayConverter")


def test_the_whole_files_storage_lines_beat_the_targets() -> None:
    """For these prefixes, and only for these, the file wins."""
    config = worker_config(
        raw(
            "b.offset.storage.partitions=1",
            "offset.storage.partitions=2",
            "b.offset.flush.interval.ms=3",
            "offset.flush.interval.ms=4",
            "a->b.offset.flush.interval.ms=5",
            "a->b.status.storage.partitions=6",
        ),
        FLOW,
    )
    assert config["offset.storage.partitions"].text == "2"
    assert config["offset.storage.partitions"].overrode == (
        Origin("b.offset.storage.partitions", 1),
    )
    assert config["offset.flush.interval.ms"].text == "3"
    assert "status.storage.partitions" not in config


def test_three_clusters_make_six_pairs() -> None:
    """Every ordered pair of distinct clusters."""
    assert [str(flow) for flow in all_flows(("a", "b", "c"))] == [
        "a->b",
        "a->c",
        "b->a",
        "b->c",
        "c->a",
        "c->b",
    ]
