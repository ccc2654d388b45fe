# SPDX-License-Identifier: Apache-2.0
"""A connector's flat configuration on a worker: its class, its flow, where records and state go."""

from __future__ import annotations

from pathlib import Path

import pytest

from sparkmirror.config.connector_config import ParsedConnector, connector_class, read_connector
from sparkmirror.config.files.notices import NoticeLevel
from sparkmirror.config.keys.connector_classes import (
    ConnectorClass,
    plugin_matches_class,
    resolve_class_name,
)
from sparkmirror.config.keys.secret_keys import redact_config, restore_secrets
from sparkmirror.config.rules.connector_rules import naming_mismatch
from sparkmirror.config.settings import FlowSettings
from sparkmirror.config.worker_config import WorkerConfig
from sparkmirror.errors import ConfigError
from sparkmirror.model import Flow

WORKER = (
    "bootstrap.servers=b1:9092",
    "group.id=mirror",
    "config.storage.topic=cc",
    "offset.storage.topic=oo",
    "status.storage.topic=ss",
)
BASE = {
    "name": "from-a",
    "source.cluster.alias": "a",
    "source.cluster.bootstrap.servers": "a1:9092",
    "target.cluster.alias": "b",
    "target.cluster.bootstrap.servers": "b1:9092",
}
JSON = "org.apache.kafka.connect.json.JsonConverter"
BYTES = "org.apache.kafka.connect.converters.ByteArrayConverter"
SERVERS = "producer.override.bootstrap.servers"
KINDS = pytest.mark.parametrize("kind", list(ConnectorClass), ids=lambda kind: kind.value)


def on(*lines: str) -> WorkerConfig:
    """An ordinary worker on the target, with these further lines."""
    return WorkerConfig.parse("\n".join((*WORKER, *lines)))


def read(
    extra: dict[str, str | None] | None = None,
    kind: ConnectorClass = ConnectorClass.SOURCE,
    worker: WorkerConfig | None = None,
    without: tuple[str, ...] = (),
) -> ParsedConnector:
    """An ordinary connector with these further keys."""
    config = {"connector.class": kind.java_name, **BASE, **(extra or {})}
    kept = {key: text for key, text in config.items() if key not in without}
    return read_connector(kept, worker or on())


def said(level: NoticeLevel, reading: ParsedConnector) -> list[str]:
    """The sentences of one level."""
    return [str(one) for one in reading.notices if one.level is level]


@KINDS
def test_a_class_answers_to_three_names(kind: ConnectorClass) -> None:
    """Full, simple, and without Connector; no other."""
    simple = kind.value
    for name in (kind.java_name, simple, simple.removesuffix("Connector"), f" {simple} "):
        assert resolve_class_name(name) is kind
    for name in ("", "Connector", simple.lower(), f"x.{simple}", "FileStreamSource"):
        assert resolve_class_name(name) is None


@pytest.mark.parametrize(
    ("path", "name", "expected"),
    [
        ("MirrorSourceConnector", "MirrorSource", True),
        ("MirrorSource", "org.apache.kafka.connect.mirror.MirrorSourceConnector", True),
        ("Source", "MirrorSource", True),
        ("MirrorSourceConnector", "MirrorCheckpointConnector", False),
        ("org.apache.kafka.connect.mirror.MirrorSourceConnector", "MirrorSource", False),
    ],
)
def test_a_validation_is_for_the_class_of_its_path(path: str, name: str, expected: bool) -> None:
    """Connect compares the ends."""
    assert expected == plugin_matches_class(path, name)


def test_a_configuration_without_a_class_shows_no_secret() -> None:
    """Connect shows the whole configuration; so do we, save passwords."""
    with pytest.raises(ConfigError) as caught:
        connector_class({"name": "x", "source.cluster.sasl.jaas.config": "hush", "a": None})
    assert str(caught.value) == (
        "Connector config {name=x, source.cluster.sasl.jaas.config=[hidden], a=null} contains no "
        "connector type"
    )
    assert caught.value.key == "connector.class"


@KINDS
def test_an_ordinary_connector_has_a_flow_of_its_own(kind: ConnectorClass) -> None:
    """Enabled unless it says otherwise, named as it is named."""
    found = read({"tasks.max": "3"}, kind)
    assert found.kind is kind
    assert (found.name, found.tasks_max) == ("from-a", 3)
    settings = found.settings
    assert settings.flow == Flow("a", "b")
    assert settings.enabled
    assert settings.source.name == settings.heartbeat.name == settings.checkpoint.name == "from-a"
    assert settings.consumer.bootstrap_servers == ("a1:9092",)
    assert settings.source_admin.bootstrap_servers == ("a1:9092",)
    assert settings.target_admin.bootstrap_servers == ("b1:9092",)
    assert settings.producer.bootstrap_servers == ("b1:9092",)
    assert settings.producer.client_id == "connector-producer-from-a"
    assert settings.consumer.client_id == "a->b|from-a|replication-consumer"
    assert settings.internal_topics == on().settings.internal_topics
    assert settings.transactions.id_prefix == "mirror-from-a-"
    assert found.notices == ()


def test_booleans_and_numbers_are_texts_by_now() -> None:
    """The caller has made them so."""
    settings = read({"sync.topic.acls.enabled": "false", "replication.factor": "1"}).settings
    assert settings.source.sync_acls_seconds is None
    assert settings.source.replication_factor.value == 1


def test_the_target_alias_is_target_by_default() -> None:
    """MM2's default."""
    assert read(without=("target.cluster.alias",)).settings.flow == Flow("a", "target")


def test_client_keys_are_layered_as_in_mm2() -> None:
    """The cluster's, the role's, the side's; the producer is the worker's."""
    settings = read(
        {
            "consumer.fetch.min.bytes": "2",
            "source.consumer.fetch.min.bytes": "3",
            "consumer.fetch.max.wait.ms": "7",
            "source.consumer.isolation.level": "read_uncommitted",
            "target.admin.request.timeout.ms": "9000",
            "admin.request.timeout.ms": "8000",
            "producer.override.acks": "1",
        },
        worker=on(
            "producer.max.request.size=1000", "producer.acks=all", "security.protocol=plaintext"
        ),
    ).settings
    assert settings.fetch.fetch_min_bytes == 3
    assert settings.fetch.fetch_max_wait_ms == 7
    assert settings.fetch.isolation_level == "read_uncommitted"
    assert settings.target_admin.request_timeout_seconds == 9
    assert settings.source_admin.request_timeout_seconds == 8
    assert settings.produce.acks == 1
    assert settings.produce.max_request_bytes == 1000


def test_worker_keys_come_from_the_workers_file() -> None:
    """And do nothing in a connector's configuration."""
    worker = on("offset.flush.interval.ms=7000", "exactly.once.source.support=enabled")
    found = read({"offset.flush.interval.ms": "1"}, worker=worker)
    assert found.settings.pipeline.offset_flush_seconds == 7
    assert found.settings.transactions.is_enabled
    (warning,) = said(NoticeLevel.WARNING, found)
    assert "set it in the worker's file" in warning


@KINDS
def test_records_go_where_the_override_says_and_state_stays_with_the_worker(
    kind: ConnectorClass,
) -> None:
    """A worker on the source, with its topics there."""
    worker = WorkerConfig.parse("\n".join(("bootstrap.servers=a1:9092", *WORKER[1:])))
    settings = read({SERVERS: "b1:9092"}, kind, worker).settings
    assert settings.producer.bootstrap_servers == ("b1:9092",)
    assert settings.worker_cluster == worker.settings.connection
    assert settings.state_cluster.bootstrap_servers == ("a1:9092",)


def test_state_is_on_the_target_where_the_worker_is() -> None:
    """Nothing changes for a worker on the target, nor for a dedicated mirror."""
    settings = read().settings
    assert settings.worker_cluster is None
    assert settings.state_cluster == settings.target_admin


def test_exactly_once_keeps_positions_where_the_records_go() -> None:
    """One transaction cannot reach two clusters."""
    worker = WorkerConfig.parse(
        "\n".join(("bootstrap.servers=a1:9092", *WORKER[1:], "exactly.once.source.support=enabled"))
    )
    assert read({SERVERS: "b1:9092"}, worker=worker).settings.worker_cluster is None


@pytest.mark.parametrize("kind", [ConnectorClass.SOURCE, ConnectorClass.CHECKPOINT])
def test_a_destination_that_is_the_source_is_refused(kind: ConnectorClass) -> None:
    """The sentence names the key that is missing and its value."""
    worker = WorkerConfig.parse("\n".join(("bootstrap.servers=a1:9092,a2:9092", *WORKER[1:])))
    (error,) = read({}, kind, worker).errors
    assert error.key == SERVERS
    assert f"{SERVERS} is missing or wrong" in error.message
    assert f"Set {SERVERS}=b1:9092." in error.message
    assert "the worker's bootstrap.servers" in error.message


def test_a_policy_that_forbids_the_remedy_is_named_with_it() -> None:
    """Otherwise the remedy would be the next error."""
    worker = WorkerConfig.parse(
        "\n".join(
            (
                "bootstrap.servers=a1:9092",
                *WORKER[1:],
                "connector.client.config.override.policy=Principal",
            )
        )
    )
    (error,) = read(worker=worker).errors
    assert "connector.client.config.override.policy=All" in error.message


def test_an_override_that_leads_into_the_source_is_refused() -> None:
    """Whatever the worker's addresses are."""
    (error,) = read({SERVERS: "a1:9092"}).errors
    assert f"because {SERVERS} name that cluster" in error.message


def test_one_cluster_as_both_sides_is_refused() -> None:
    """Then also the target's addresses are wrong."""
    (error,) = read({"source.cluster.bootstrap.servers": "b1:9092"}).errors
    assert "target.cluster.bootstrap.servers and producer.override" in error.message


def test_heartbeats_may_be_written_to_their_source() -> None:
    """Some let them begin there, so that they are copied."""
    found = read({"source.cluster.bootstrap.servers": "b1:9092"}, ConnectorClass.HEARTBEAT)
    assert found.errors == ()


def test_a_destination_with_other_addresses_than_the_target_gets_a_warning() -> None:
    """They may be two names of one cluster; nobody can tell from here."""
    found = read({"target.cluster.bootstrap.servers": "c1:9092"})
    assert found.errors == ()
    (warning,) = said(NoticeLevel.WARNING, found)
    assert "records are written to b1:9092, but remote topics are created on c1:9092" in warning


@KINDS
@pytest.mark.parametrize("side", ["source", "target"])
def test_addresses_that_are_missing_are_named(kind: ConnectorClass, side: str) -> None:
    """Heartbeats need no source."""
    key = f"{side}.cluster.bootstrap.servers"
    errors = [one.key for one in read({}, kind, without=(key,)).errors]
    is_needed = side == "target" or kind is not ConnectorClass.HEARTBEAT
    assert errors == ([key] if is_needed else [])


@pytest.mark.parametrize(
    ("extra", "key", "part"),
    [
        ({"name": ""}, "name", "must not be empty"),
        ({"name": "a\tb"}, "name", "control characters"),
        ({"source.cluster.alias": ""}, "source.cluster.alias", "letters, digits"),
        ({"source.cluster.alias": "b"}, "source.cluster.alias", "they must differ"),
        ({"tasks.max": "0"}, "tasks.max", "must be at least 1, not 0"),
        ({"topics": "("}, "topics", "regular expression"),
        ({"transforms": "t"}, "transforms", "cannot run transforms"),
        ({"replication.policy.class": "no.Such"}, "replication.policy.class", "no.Such"),
        ({"producer.override.acks": "0"}, "producer.override.acks", "must be all or 1"),
        ({"source.cluster.security.protocol": "TLS"}, "source.cluster.security.protocol", "one of"),
        ({"transaction.boundary": "connector"}, "transaction.boundary", "transaction boundaries"),
        ({"exactly.once.support": "required"}, "exactly.once.support", "This worker does not"),
        ({"topics": "${env:NOT_THERE_AT_ALL}"}, "topics", "config.providers=env"),
        (
            {"source.cluster.sasl.jaas.config": "[hidden]"},
            "source.cluster.sasl.jaas.config",
            "none",
        ),
    ],
)
def test_a_wrong_value_is_an_error_about_its_key(
    extra: dict[str, str | None], key: str, part: str
) -> None:
    """No line is named, because there is none."""
    found = read(extra)
    assert {one.key for one in found.errors} == {key}
    assert all(part in one.message and not one.where for one in found.errors)
    with pytest.raises(ConfigError, match=r"Connector .*:"):
        _ = found.settings


def test_nulls_are_as_good_as_absent_for_reading() -> None:
    """Whoever stores a configuration validates it first."""
    assert read({"topics": None}).settings.policy.topics == (".*",)


def test_exactly_once_needs_all_replicas() -> None:
    """Records and positions are acknowledged together."""
    worker = on("exactly.once.source.support=enabled")
    (error,) = read({"producer.override.acks": "1"}, worker=worker).errors
    assert error.key == "producer.override.acks"


def test_exactly_once_that_is_required_and_can_be_had_is_accepted() -> None:
    """In any spelling."""
    worker = on("exactly.once.source.support=ENABLED")
    for text in ("required", "REQUIRED"):
        assert read({"exactly.once.support": text}, worker=worker).errors == ()


@pytest.mark.parametrize(
    ("extra", "level", "part"),
    [
        ({"groups": "x"}, NoticeLevel.INFO, "it is for MirrorCheckpointConnector"),
        (
            {"emit.heartbeats.enabled": "true"},
            NoticeLevel.INFO,
            "it is for MirrorHeartbeatConnector",
        ),
        (
            {"security.protocol": "PLAINTEXT"},
            NoticeLevel.WARNING,
            "source.cluster.security.protocol",
        ),
        (
            {"config.providers": "vault"},
            NoticeLevel.INFO,
            "the worker's file declares config providers",
        ),
        (
            {"config.providers.x.class": "y"},
            NoticeLevel.INFO,
            "the worker's file declares config providers",
        ),
        ({"producer.linger.ms": "1"}, NoticeLevel.WARNING, "producer.override.linger.ms"),
        ({"target.producer.acks": "1"}, NoticeLevel.WARNING, "producer.override.acks"),
        ({"target.consumer.x": "1"}, NoticeLevel.INFO, "nothing consumes from the target"),
        ({"consumer.override.x": "1"}, NoticeLevel.INFO, "the worker's clients"),
        ({"admin.override.x": "1"}, NoticeLevel.INFO, "the worker's clients"),
        ({"producer.override.linger.ms": "1"}, NoticeLevel.INFO, "is ignored"),
        ({"source.consumer.max.poll.records": "1"}, NoticeLevel.INFO, "is ignored"),
        ({"topics.blacklist": "x"}, NoticeLevel.WARNING, "write topics.exclude"),
        ({"use.incremental.alter.configs": "x"}, NoticeLevel.INFO, "since Kafka 4.0"),
        ({"transforms.t.type": "x"}, NoticeLevel.INFO, "no Java plugin"),
        ({"topic.creation.default.partitions": "1"}, NoticeLevel.INFO, "no Java plugin"),
        ({"topcs": "x"}, NoticeLevel.WARNING, "did you mean topics?"),
        ({"source.cluster.bootstrap.server": "x:1"}, NoticeLevel.WARNING, "bootstrap.servers?"),
        ({"key.converter": JSON}, NoticeLevel.WARNING, "records are always copied raw"),
        ({"errors.tolerance": "all"}, NoticeLevel.INFO, "has no effect"),
        ({"topics": "a,a"}, NoticeLevel.WARNING, "more than once"),
    ],
)
def test_a_key_that_does_nothing_is_remarked_on(
    extra: dict[str, str | None], level: NoticeLevel, part: str
) -> None:
    """Once, and the connector runs."""
    found = read(extra)
    (remark,) = found.notices
    assert remark.level is level
    assert part in remark.message
    assert found.errors == ()


def test_keys_that_a_filter_reads_get_no_remark() -> None:
    """MM2's definitions lack them; its filters do not."""
    topics: dict[str, str | None] = {"topics": "x", "topics.exclude": "y"}
    found = read(topics, ConnectorClass.CHECKPOINT)
    assert found.notices == ()
    assert found.settings.policy.topics == ("x",)
    assert read({"use.defaults.from": "source"}).settings.policy.use_defaults_from == "source"


def test_the_workers_converter_counts_where_the_connector_names_none() -> None:
    """A warning, because Java would change the bytes."""
    worker = on(f"key.converter={JSON}", f"value.converter={BYTES}")
    (warning,) = said(NoticeLevel.WARNING, read(worker=worker))
    assert warning.startswith(f"key.converter={JSON} of the worker")
    assert read({"key.converter": BYTES}, worker=worker).notices == ()


def test_remarks_on_the_workers_lines_are_not_made_again() -> None:
    """Its file was read at the start."""
    assert read(worker=on("producer.linger.ms=5")).notices == ()


def test_references_are_resolved_with_the_workers_providers(tmp_path: Path) -> None:
    """Also in an alias; what they hold is never shown, and others than it declares do not count."""
    secrets = tmp_path / "s.properties"
    secrets.write_text("alias=west\nregex=(\n")
    worker = on(f"config.providers.file.param.allowed.paths={tmp_path}")
    found = read({"source.cluster.alias": f"${{file:{secrets}:alias}}"}, worker=worker)
    assert found.settings.flow == Flow("west", "b")
    bad = read({"topics": f"${{file:{secrets}:regex}}"}, worker=worker)
    assert all("'('" not in one.message for one in bad.errors)
    assert bad.errors
    outside = read({"topics": "${file:/etc/passwd:x}"}, worker=worker)
    assert "is outside the provider's allowed.paths" in outside.errors[0].message
    undeclared = read({"topics": f"${{file:{secrets}:alias}}"}, worker=on())
    assert "config.providers=file there" in undeclared.errors[0].message


def test_the_workers_own_lines_need_no_declaration(tmp_path: Path) -> None:
    """They are the operator's, also where a connector's client reads them."""
    (tmp_path / "servers").write_text("b2:9092")
    worker = on(f"producer.bootstrap.servers=${{directory:{tmp_path}:servers}}")
    assert read(worker=worker).settings.producer.bootstrap_servers == ("b2:9092",)


def test_a_profile_explains_what_the_connector_does_not() -> None:
    """Its values are below every line, of the connector and of the worker."""
    settings = read({"profile": "event-hubs", "sync.topic.configs.enabled": "true"}).settings
    assert settings.produce.max_request_bytes == 1_000_000
    assert settings.source.sync_acls_seconds is None
    assert settings.source.sync_configs_seconds is not None
    assert settings.internal_topics.offsets_factor.value is None
    lined = read({"profile": "event-hubs"}, worker=on("producer.max.request.size=5")).settings
    assert lined.produce.max_request_bytes == 5


def test_a_disabled_connector_is_read_all_the_same() -> None:
    """MM2 keeps it and lets it do nothing."""
    assert not read({"enabled": "false"}).settings.enabled


def _settings(kind: ConnectorClass, **extra: str) -> FlowSettings:
    named: dict[str, str | None] = {"name": kind.value}
    return read(named | {k.replace("_", "."): v for k, v in extra.items()}, kind).settings


def test_a_checkpoint_connector_with_another_policy_is_noticed() -> None:
    """The sentence names both connectors and the keys."""
    identity = "org.apache.kafka.connect.mirror.IdentityReplicationPolicy"
    source = _settings(ConnectorClass.SOURCE, replication_policy_class=identity)
    checkpoint = _settings(ConnectorClass.CHECKPOINT)
    sentence = naming_mismatch(checkpoint, source)
    assert "MirrorCheckpointConnector and MirrorSourceConnector" in sentence
    assert "replication.policy.class" in sentence
    assert naming_mismatch(checkpoint, _settings(ConnectorClass.SOURCE)) == ""
    elsewhere = _settings(
        ConnectorClass.SOURCE, replication_policy_class=identity, source_cluster_alias="z"
    )
    assert naming_mismatch(checkpoint, elsewhere) == ""


def test_passwords_are_hidden_and_come_back() -> None:
    """References are no secrets; `[hidden]` elsewhere is a text like any other."""
    stored: dict[str, str | None] = {
        "source.cluster.sasl.jaas.config": "hush",
        "target.cluster.ssl.key.password": "${file:/x:y}",
        "source.admin.ssl.keystore.password": "a${file:/x:y}b",
        "source.cluster.ssl.keystore.password": "${file:/x:y}hush}",
        "source.cluster.ssl.key.password": "${hush}",
        "topics": "t",
        "sasl.jaas.config": None,
    }
    shown = redact_config(stored)
    assert shown == {
        "source.cluster.sasl.jaas.config": "[hidden]",
        "target.cluster.ssl.key.password": "${file:/x:y}",
        "source.admin.ssl.keystore.password": "[hidden]",
        "source.cluster.ssl.keystore.password": "[hidden]",
        "source.cluster.ssl.key.password": "[hidden]",
        "topics": "t",
        "sasl.jaas.config": None,
    }
    assert restore_secrets(shown, stored) == stored
    assert restore_secrets({"topics": "[hidden]"}, stored) == {"topics": "[hidden]"}
    assert restore_secrets({"producer.override.sasl.jaas.config": "[hidden]"}, stored) == {
        "producer.override.sasl.jaas.config": "[hidden]"
    }
