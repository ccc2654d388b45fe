# SPDX-License-Identifier: Apache-2.0
"""Typed settings of a pair: defaults, layers, what is refused and why."""

from __future__ import annotations

from pathlib import Path

import pytest

from sparkmirror.config.files.notices import NoticeLevel
from sparkmirror.config.mirror_config import MirrorConfig
from sparkmirror.config.settings import (
    ExactlyOnce,
    FlowSettings,
    IncidentPolicies,
    ReplicationFactor,
)
from sparkmirror.errors import ConfigError
from sparkmirror.model import Flow
from sparkmirror.policy.replication import DefaultReplicationPolicy
from sparkmirror.topology.internal_topics import internal_topics
from sparkmirror.wire.settings import FetchSettings, ProduceSettings

FLOW = Flow("a", "b")
BASE = (
    "clusters=a, b",
    "a.bootstrap.servers=a1:9092, a2:9092",
    "b.bootstrap.servers=b1:9092",
    "a->b.enabled=true",
)


def settings(*lines: str, flow: Flow = FLOW) -> FlowSettings:
    """The settings of a pair in an ordinary file with these further lines."""
    return MirrorConfig.parse("\n".join((*BASE, *lines))).flow_settings(flow)


def errors(*lines: str) -> list[str]:
    """The error sentences about such a file."""
    found = MirrorConfig.parse("\n".join((*BASE, *lines))).all_notices()
    return [str(notice) for notice in found if notice.level is NoticeLevel.ERROR]


def remarks(*lines: str) -> list[str]:
    """The other sentences about such a file."""
    found = MirrorConfig.parse("\n".join((*BASE, *lines))).all_notices()
    return [str(notice) for notice in found if notice.level is not NoticeLevel.ERROR]


def test_an_ordinary_file_has_these_settings() -> None:
    """The defaults, ours where they differ from MM2's."""
    found = settings()
    assert found.enabled
    assert found.consumer.bootstrap_servers == ("a1:9092", "a2:9092")
    assert found.producer.bootstrap_servers == ("b1:9092",)
    assert found.fetch == FetchSettings()
    assert found.fetch.isolation_level == "read_committed"
    assert found.produce == ProduceSettings()
    assert found.source.tasks_max == 1
    assert found.source.refresh_topics_seconds == 5
    assert found.pipeline.offset_flush_seconds == 5
    assert found.pipeline.epoch_seconds == 300
    assert found.pipeline.task_buffer_bytes == 64 * 1024 * 1024
    assert found.incident_policies == IncidentPolicies()
    assert found.heartbeat.interval_seconds == 1
    assert found.checkpoint.emit_seconds == 5
    assert found.checkpoint.sync_group_offsets_seconds is None
    assert found.policy.topics == (".*",)
    assert found.policy.topics_exclude == (r"mm2.*\.internal", r".*\.replica", "__.*")
    assert len(found.policy.config_properties_exclude) == 8


def test_each_policy_has_its_key() -> None:
    """Per flow, over the file's."""
    lines = (
        "gap.policy=stop",
        "a->b.source.recreated.policy=restart",
        "source.truncated.policy=stop",
        "target.recreated.policy=restart",
        "target.truncated.policy=stop",
        "corrupt.batch.policy=skip",
        "refused.record.policy=stop",
        "a->b.refused.record.policy=skip",
        "open.transaction.warning.ms=1500",
    )
    expected = IncidentPolicies("stop", "restart", "stop", "restart", "stop", "skip", "skip", 1.5)
    assert settings(*lines).incident_policies == expected


def test_a_policy_that_does_not_exist_is_refused() -> None:
    """With those that do."""
    (error,) = errors("source.recreated.policy=continue")
    assert "source.recreated.policy must be one of stop, restart, not 'continue'" in error


def test_connectors_keep_their_names() -> None:
    """The names are part of MM2's state."""
    found = settings()
    assert found.source.name == "MirrorSourceConnector"
    assert found.heartbeat.name == "MirrorHeartbeatConnector"
    assert found.checkpoint.name == "MirrorCheckpointConnector"


def test_a_flow_that_is_not_enabled_only_emits_heartbeats() -> None:
    """Its settings are there all the same."""
    found = settings(flow=Flow(FLOW.target, FLOW.source))
    assert not found.enabled
    assert found.producer.bootstrap_servers == ("a1:9092", "a2:9092")
    assert found.internal_topics.offsets == "mm2-offsets.b.internal"


def test_unset_replication_factors_are_left_open() -> None:
    """MM2's default is only preferred; the key is named for messages."""
    found = settings()
    assert found.source.replication_factor == ReplicationFactor("replication.factor", None, 2)
    assert found.heartbeat.factor == ReplicationFactor(
        "heartbeats.topic.replication.factor", None, 3
    )
    assert found.internal_topics.offsets_factor.value is None
    assert found.internal_topics.offsets_factor.preferred == 3


def test_set_replication_factors_are_kept_with_their_key() -> None:
    """-1 means the broker's default."""
    found = settings(
        "a->b.replication.factor=-1",
        "offset-syncs.topic.replication.factor=1",
        "b.status.storage.replication.factor=2",
    )
    assert found.source.replication_factor == ReplicationFactor("a->b.replication.factor", -1, 2)
    assert found.source.offset_syncs_factor.value == 1
    assert found.internal_topics.status_factor == ReplicationFactor(
        "b.status.storage.replication.factor", 2, 3
    )


def test_explicit_values_win_over_our_defaults() -> None:
    """Whoever writes MM2's value gets it."""
    found = settings(
        "refresh.topics.interval.seconds=600",
        "b.offset.flush.interval.ms=60000",
        "a.consumer.isolation.level=read_uncommitted",
        "a->b.tasks.max=7",
        "epoch.seconds=60",
        "a->b.task.buffer.bytes=8388608",
        "gap.policy=stop",
    )
    assert found.source.refresh_topics_seconds == 600
    assert found.pipeline.offset_flush_seconds == 60
    assert found.fetch.isolation_level == "read_uncommitted"
    assert found.source.tasks_max == 7
    assert found.pipeline.epoch_seconds == 60
    assert found.pipeline.task_buffer_bytes == 8388608
    assert found.incident_policies.gap == "stop"


def test_switched_off_or_negative_intervals_mean_never() -> None:
    """Zero would be a busy loop and is refused."""
    found = settings(
        "refresh.topics.enabled=false",
        "emit.heartbeats.interval.seconds=-1",
        "emit.checkpoints.enabled=false",
    )
    assert found.source.refresh_topics_seconds is None
    assert found.heartbeat.interval_seconds is None
    assert found.checkpoint.emit_seconds is None
    assert errors("refresh.topics.interval.seconds=0") == [
        (
            "line 5: refresh.topics.interval.seconds must not be 0; set the matching .enabled key "
            "to false to switch it off."
        )
    ]


def test_internal_topics_follow_the_worker_lines() -> None:
    """Other keys below a storage become topic configs; the policy is always compact."""
    topics = settings(
        "b.offset.storage.topic=own-offsets",
        "offset.storage.partitions=3",
        "b.offset.storage.segment.bytes=1048576",
        "b.offset.storage.cleanup.policy=delete",
        "status.storage.partitions=2",
    ).internal_topics
    assert topics.offsets == "own-offsets"
    assert topics.offsets_partitions == 3
    assert topics.status == "mm2-status.a.internal"
    assert topics.status_partitions == 2
    assert topics.configs == "mm2-configs.a.internal"
    assert topics.extra_configs == {"own-offsets": {"segment.bytes": "1048576"}}


def test_client_keys_with_a_meaning_are_mapped() -> None:
    """Reading from the source's consumer lines, writing from the target's producer lines."""
    found = settings(
        "a.consumer.auto.offset.reset=none",
        "a.consumer.fetch.max.bytes=100",
        "a.consumer.max.partition.fetch.bytes=50",
        "a.consumer.fetch.max.wait.ms=20",
        "a.consumer.fetch.min.bytes=2",
        "a.consumer.request.timeout.ms=1500",
        "a.consumer.receive.buffer.bytes=1000",
        "a.admin.socket.connection.setup.timeout.ms=2500",
        "b.producer.acks=1",
        "b.producer.max.request.size=77",
        "b.producer.request.timeout.ms=9000",
        "b.producer.send.buffer.bytes=2000",
        "a->b.producer.override.max.in.flight.requests.per.connection=2",
        "a->b.producer.override.compression.type=zstd",
    )
    assert found.fetch == FetchSettings(
        auto_offset_reset="none",
        fetch_max_bytes=100,
        max_partition_fetch_bytes=50,
        fetch_max_wait_ms=20,
        fetch_min_bytes=2,
    )
    assert found.consumer.request_timeout_seconds == 1.5
    assert found.consumer.receive_buffer_bytes == 1000
    assert found.source_admin.connect_timeout_seconds == 2.5
    assert found.produce == ProduceSettings(
        acks=1,
        request_timeout_ms=9000,
        max_request_bytes=77,
        max_in_flight=2,
        compression="zstd",
        enforces_max_request_bytes=True,
    )
    assert found.producer.request_timeout_seconds == 9
    assert found.producer.send_buffer_bytes == 2000


@pytest.mark.parametrize("name", ["none", "gzip", "snappy", "lz4", "zstd"])
@pytest.mark.parametrize("prefix", ["b.producer.", "a->b.producer.override."])
def test_the_users_codec_is_taken_from_either_place(prefix: str, name: str) -> None:
    """The worker's line, and the connector's override of it."""
    assert settings(f"{prefix}compression.type={name}").produce.compression == name


def test_compression_is_kept_unless_a_codec_is_named() -> None:
    """Unset, or the word of a topic's compression.type."""
    assert settings().produce.compression is None
    assert settings("b.producer.compression.type=producer").produce.compression is None


def test_an_unknown_codec_is_refused_by_name() -> None:
    """A misspelt codec does not quietly mean none."""
    (error,) = errors("b.producer.compression.type=lzop")
    assert "b.producer.compression.type" in error
    assert "zstd" in error


def test_client_ids_are_mm2s() -> None:
    """A client.id of the user's stands before them."""
    found = settings("a.consumer.client.id=team", "b.producer.client.id=own")
    assert found.consumer.client_id == "team|a->b|MirrorSourceConnector|replication-consumer"
    assert found.source_admin.client_id == "a->b|MirrorSourceConnector|replication-source-admin"
    assert found.target_admin.client_id == "a->b|MirrorSourceConnector|replication-target-admin"
    assert found.producer.client_id == "own"
    assert settings().producer.client_id == "connector-producer-MirrorSourceConnector"


def test_the_sources_consumer_level_beats_the_flows() -> None:
    """The isolation level follows MM2's layers."""
    flow, cluster = "a->b.consumer.isolation.level", "a.consumer.isolation.level"
    uncommitted, committed = "read_uncommitted", "read_committed"
    found = settings(f"{flow}={uncommitted}", f"{cluster}={committed}")
    assert found.fetch.isolation_level == committed
    assert settings(f"{flow}={uncommitted}").fetch.isolation_level == uncommitted
    strongest = f"a->b.source.consumer.isolation.level={uncommitted}"
    assert settings(f"{cluster}={committed}", strongest).fetch.isolation_level == uncommitted


def test_acks_zero_is_refused_with_the_reason() -> None:
    """Positions would be stored for records that may be lost."""
    assert errors("b.producer.acks=0") == [
        (
            "line 5: b.producer.acks must be all or 1: with 0 the position of a record would be "
            "stored although the record may be lost."
        )
    ]


def test_more_than_five_requests_in_flight_count_as_five() -> None:
    """A broker remembers five record batches."""
    line = "b.producer.max.in.flight.requests.per.connection=50"
    assert settings(line).produce.max_in_flight == 5
    assert any("is limited to 5" in text for text in remarks(line))


def test_client_keys_without_a_meaning_are_listed_with_the_reason() -> None:
    """Known to Java's clients, useless here; and those that nobody knows."""
    found = remarks(
        "a.consumer.max.poll.records=5", "b.producer.linger.ms=50", "b.producer.acsk=all"
    )
    assert (
        "line 5: a.consumer.max.poll.records is ignored: whole record batches are read; "
        "task.buffer.bytes bounds the memory." in found
    )
    assert any(text.startswith("line 6: b.producer.linger.ms is ignored") for text in found)
    assert (
        "line 7: b.producer.acsk is unknown and does nothing; did you mean b.producer.acks?"
        in found
    )


def test_the_security_protocol_is_checked_first() -> None:
    """Any case of the four names, at both levels."""
    assert settings("security.protocol=plaintext", "b.security.protocol=Plaintext").enabled
    for key in ("security.protocol", "a.security.protocol", "a.consumer.security.protocol"):
        (sentence,) = errors(f"{key}=abc")
        assert "must be one of PLAINTEXT, SSL, SASL_PLAINTEXT, SASL_SSL" in sentence
        assert key in sentence


@pytest.mark.parametrize(
    ("line", "part"),
    [
        ("tasks.max=0", "must be at least 1"),
        ("tasks.max=many", "must be a whole number, not 'many'"),
        ("a->b.replication.factor=0", "or -1 for the broker's default"),
        ("offset-syncs.topic.replication.factor=99999", "must fit into 16 bits"),
        ("offset-syncs.topic.location=Source", "must be one of source, target"),
        ("sync.topic.acls.enabled=ja", "must be true or false"),
        ("a->b.topics=a,,b", "has an empty item"),
        ("a->b.topics=*", "did you mean '.*'"),
        ("groups.exclude=(", "is not a supported regular expression"),
        ("replication.policy.separator=/", "becomes part of topic names"),
        ("replication.policy.separator=", "becomes part of topic names"),
        ("task.buffer.bytes=1000", "must be at least 4194304"),
        ("gap.policy=maybe", "must be one of continue, stop"),
        ("a.consumer.isolation.level=committed", "must be one of read_committed"),
        ("a.consumer.auto.offset.reset=never", "must be one of earliest, latest, none"),
        ("b.producer.acks=2", "must be one of all, -1, 1"),
        ("b.offset.flush.interval.ms=0", "must be at least 1"),
        ("b.exactly.once.source.support=on", "must be one of disabled, preparing, enabled"),
        ("a->b.transforms=Rename", "cannot run transforms"),
        ("metric.names.formats=", "must list one or more"),
        ("a->b.enabled=true # yes", "a comment must be on a separate line"),
        ("b.offset.storage.partitions=0", "must be at least 1"),
        ("a->b.source.cluster.alias=x", "contradicts the flow a->b"),
    ],
)
def test_a_wrong_value_is_one_error_message_with_key_and_line(line: str, part: str) -> None:
    """Type, range, choice, regex: each names the key as written."""
    (sentence,) = errors(line)
    assert sentence.startswith(f"line 5: {line.partition('=')[0]}")
    assert part in sentence


def test_a_missing_bootstrap_line_is_named() -> None:
    """The key to write is in the sentence."""
    config = MirrorConfig.parse("clusters=a,b\na.bootstrap.servers=x:1\na->b.enabled=true")
    with pytest.raises(ConfigError, match=r"b\.bootstrap\.servers is missing"):
        config.flow_settings(FLOW)


def test_all_errors_are_reported_at_once() -> None:
    """One exception carries every sentence."""
    with pytest.raises(ConfigError) as error:
        settings("tasks.max=x", "a->b.topics=[", "b.producer.acks=0")
    lines = str(error.value).splitlines()
    assert len(lines) == 3
    assert all(line.startswith("mm2.properties line ") for line in lines)


ENABLED = "b.exactly.once.source.support=enabled"
UNCOMMITTED = "a.consumer.isolation.level=read_uncommitted"
REQUIRED = "a->b.exactly.once.support=required"


def test_an_exactly_once_flow_has_mm2s_transactional_ids() -> None:
    """Group, connector and, added by the task, its number."""
    found = settings(ENABLED).transactions
    assert found.is_enabled
    assert found.id_prefix == "a-mm2-MirrorSourceConnector-"
    assert found.timeout_ms == 60_000
    named = settings(
        ENABLED, "b.group.id=g", "a->b.name=own", "b.producer.transaction.timeout.ms=5000"
    )
    assert named.transactions.id_prefix == "g-own-"
    assert named.transactions.timeout_ms == 5000
    assert errors(ENABLED) == remarks(ENABLED) == []


def test_the_offsets_topic_of_an_exactly_once_flow_is_compacted_early() -> None:
    """It gets several records a second; whoever sets the size gets what they set."""
    topic = "mm2-offsets.a.internal"
    assert settings().internal_topics.wished_configs == {}
    assert settings(ENABLED).internal_topics.wished_configs == {topic: {"segment.bytes": "4194304"}}
    own = settings(ENABLED, "offset.storage.segment.bytes=1048576")
    names = DefaultReplicationPolicy()
    offsets = [one for one in internal_topics(own, names) if one.name == topic]
    assert [one.extra_configs for one in offsets] == [{"segment.bytes": "1048576"}]


def test_flows_are_not_exactly_once_unless_it_is_enabled() -> None:
    """Preparing is said, and changes nothing."""
    assert not settings().transactions.is_enabled
    assert remarks("b.exactly.once.source.support=disabled") == []
    preparing = "b.exactly.once.source.support=preparing"
    assert settings(preparing).transactions.support is ExactlyOnce.PREPARING
    assert not settings(preparing).transactions.is_enabled
    (sentence,) = remarks(preparing)
    assert sentence.startswith(f"line 5: {preparing} has no effect")


def test_a_transaction_ends_where_the_boundary_says() -> None:
    """An interval that is not set is that of the positions, as in Connect."""
    by_poll = settings(ENABLED).transactions.commit_seconds
    assert by_poll < 1
    interval = "a->b.transaction.boundary=interval"
    assert settings(ENABLED, interval).transactions.commit_seconds == 5
    own = settings(ENABLED, interval, "a->b.transaction.boundary.interval.ms=250")
    assert own.transactions.commit_seconds == 0.25
    (sentence,) = remarks(ENABLED, "a->b.transaction.boundary.interval.ms=250")
    assert "does nothing without transaction.boundary=interval" in sentence
    assert settings(ENABLED, "a->b.transaction.boundary.interval.ms=9").transactions == (
        settings(ENABLED).transactions
    )


def test_exactly_once_that_is_required_needs_both_sides() -> None:
    """The worker's switch and committed reads; the sentence names what is missing."""
    assert errors(REQUIRED, ENABLED) == []
    (sentence,) = errors(REQUIRED)
    assert sentence == f"line 5: {REQUIRED} needs b.exactly.once.source.support=enabled."
    (sentence,) = errors(REQUIRED, ENABLED, UNCOMMITTED)
    assert sentence == f"line 5: {REQUIRED} needs a.consumer.isolation.level=read_committed."
    (sentence,) = errors(REQUIRED, UNCOMMITTED)
    assert "source.support=enabled and a.consumer.isolation.level=read_committed" in sentence


def test_an_exactly_once_flow_that_reads_uncommitted_is_warned_about() -> None:
    """It runs: what was aborted on the source is copied, once."""
    assert settings(ENABLED, UNCOMMITTED).transactions.is_enabled
    assert any(
        "aborted transactions on a are copied" in text for text in remarks(ENABLED, UNCOMMITTED)
    )


@pytest.mark.parametrize(
    ("lines", "sentence"),
    [
        (("a->b.transaction.boundary=connector",), "set poll or interval"),
        (("b.producer.acks=1",), "needs b.producer.acks=all"),
        (
            ("a->b.transaction.boundary=interval", "a->b.transaction.boundary.interval.ms=40000"),
            "at most half of transaction.timeout.ms",
        ),
    ],
)
def test_what_cannot_be_exactly_once_is_refused(lines: tuple[str, ...], sentence: str) -> None:
    """Only where it is enabled; otherwise the keys are without meaning."""
    (found,) = errors(ENABLED, *lines)
    assert sentence in found
    assert errors(*lines) == []


def test_two_flows_cannot_have_the_same_transactional_ids() -> None:
    """A group id that is set for the target would make them fence each other."""
    third = ("clusters=a, b, c", "c.bootstrap.servers=c1:1", "c->b.enabled=true", ENABLED)
    assert errors(*third) == []
    (sentence,) = errors(*third, "b.group.id=g")
    assert "a->b and c->b" in sentence
    assert errors(*third, "b.group.id=g", "c->b.name=other") == []


def test_offset_syncs_cannot_be_off_and_configured() -> None:
    """As MM2's source connector says; without them there are no checkpoints."""
    off = "a->b.emit.offset-syncs.enabled=false"
    (sentence,) = errors(off, "offset-syncs.topic.replication.factor=1")
    assert sentence.startswith("line 5: a->b.emit.offset-syncs.enabled=false contradicts line 6")
    assert errors(off) == []
    assert any("no checkpoints" in text for text in remarks(off))
    disabled = errors(off, "offset-syncs.topic.location=target", "a->b.enabled=false")
    assert disabled == []


def test_values_come_from_files_when_settings_are_made(tmp_path: Path) -> None:
    """The file of the reference is read then, not when the configuration is loaded."""
    secrets = tmp_path / "access.properties"
    config = MirrorConfig.parse(
        "clusters=a, b\n"
        f"a.bootstrap.servers=${{file:{secrets}:SRC}}\n"
        f"b.bootstrap.servers=${{file:{secrets}:TGT}}\n"
        "a->b.enabled=true\n"
    )
    secrets.write_text("SRC=s1:9092, s2:9092\nTGT=t1:9092\n")
    found = config.flow_settings(FLOW)
    assert found.consumer.bootstrap_servers == ("s1:9092", "s2:9092")
    assert found.target_admin.bootstrap_servers == ("t1:9092",)
    assert found.policy.options["source.cluster.bootstrap.servers"] == "s1:9092, s2:9092"


def test_an_unresolved_reference_names_key_and_reference() -> None:
    """And it is the only complaint about that line."""
    (sentence,) = errors("a->b.topics=${file:/no/such:key}")
    assert sentence.startswith("line 5: a->b.topics: ${file:/no/such:key} cannot be resolved")


def test_values_from_providers_are_never_shown(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Neither in what is effective, nor in a complaint about them."""
    (tmp_path / "s.properties").write_text("brokers=hush:9092")
    monkeypatch.setenv("TASKS", "hush")
    text = (
        *BASE[:1],
        BASE[2],
        BASE[3],
        f"a.bootstrap.servers=${{file:{tmp_path}/s.properties:brokers}}",
    )
    config = MirrorConfig.parse("\n".join((*text, "tasks.max=${env:TASKS}")))
    reading = config.parsed_flow(FLOW)
    assert reading.settings.consumer.bootstrap_servers == ("hush:9092",)
    assert "hush" not in "".join(str(value) for value in reading.report.effective)
    (complaint,) = [n for n in reading.report.notices if n.level is NoticeLevel.ERROR]
    assert "hush" not in str(complaint)
    assert "tasks.max must be a whole number" in str(complaint)
    assert "hush" not in repr(reading.settings.policy)


def test_a_regex_from_a_provider_is_not_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nor a class name; the key is named all the same."""
    monkeypatch.setenv("HUSH", "hush[")
    for key in ("a->b.topics", "topic.filter.class"):
        (sentence,) = errors(f"{key}=${{env:HUSH}}")
        assert sentence.startswith(f"line 5: {key}")
        assert "hush" not in sentence


def test_effective_values_remember_their_lines() -> None:
    """What `check` prints: the origin, and the lines it won against."""
    config = MirrorConfig.parse("\n".join((*BASE, "topics=x", "a->b.topics=y")))
    (topics,) = [
        value for value in config.parsed_flow(FLOW).report.effective if value.key == "topics"
    ]
    assert topics.text == "y"
    assert str(topics.origin) == "line 6 'a->b.topics'"
    assert [str(origin) for origin in topics.overrode] == ["line 5 'topics'"]


def test_acls_are_synced_as_mm2_does_unless_more_is_requested() -> None:
    """What goes beyond MM2 is remembered on the target."""
    source = settings().source
    assert (source.acls_scope, source.acl_removals, source.records_created_acls) == (
        "topics",
        False,
        False,
    )
    source = settings("a->b.sync.acls.scope=all", "sync.topic.acls.interval.seconds=5").source
    assert (source.acls_scope, source.sync_acls_seconds, source.records_created_acls) == (
        "all",
        5,
        True,
    )
    assert settings("sync.acls.removals.enabled=true").source.records_created_acls
    (sentence,) = errors("sync.acls.scope=everything")
    assert "sync.acls.scope" in sentence


@pytest.mark.parametrize("line", ["sync.acls.scope=all", "a->b.sync.acls.removals.enabled=true"])
def test_acl_keys_without_acl_sync_are_warned_about(line: str) -> None:
    """They would do nothing, silently."""
    key = line.partition("=")[0]
    found = remarks(line, "sync.topic.acls.enabled=false")
    assert [sentence for sentence in found if f"{key} does nothing" in sentence]
    assert not [sentence for sentence in remarks(line) if "does nothing" in sentence]
