# SPDX-License-Identifier: Apache-2.0
"""A Connect worker's file: what it says, what it lacks, what does nothing in it."""

from __future__ import annotations

from pathlib import Path

import pytest

from sparkmirror.config.files.notices import NoticeLevel
from sparkmirror.config.keys.config_def import ConfigKey
from sparkmirror.config.keys.worker_keys import (
    IGNORED_PREFIXES,
    IGNORED_WORKER_CONFIG_KEYS,
    WORKER_CONFIG_KEYS,
)
from sparkmirror.config.settings import ExactlyOnce, MetricsSettings, ReplicationFactor
from sparkmirror.config.worker_config import WorkerConfig
from sparkmirror.config.worker_settings import (
    ClientOverrides,
    GroupSettings,
    OverridePolicy,
    RestListener,
    RestSettings,
    SigningSettings,
    WorkerSettings,
)
from sparkmirror.errors import ConfigError
from sparkmirror.policy.class_loading import ClassAllowlist

BASE = {
    "bootstrap.servers": "t1:9092,t2:9092",
    "group.id": "mirror",
    "config.storage.topic": "cc",
    "offset.storage.topic": "oo",
    "status.storage.topic": "ss",
}
JSON = "org.apache.kafka.connect.json.JsonConverter"
JAVA = "org.apache.kafka.connect.connector.policy."
BYTES = "org.apache.kafka.connect.converters.ByteArrayConverter"


def read(*lines: str, without: str = "") -> WorkerConfig:
    """An ordinary file with these further lines; its listeners are the default, said aloud."""
    base = [f"{key}={text}" for key, text in BASE.items() if key != without]
    says_where = any(line.startswith(("listeners=", "rest.port", "rest.host")) for line in lines)
    last = [] if says_where or without == "listeners" else ["listeners=http://127.0.0.1:8083"]
    return WorkerConfig.parse("\n".join((*base, *lines, *last)))


def settings(*lines: str) -> WorkerSettings:
    """Its settings."""
    return read(*lines).settings


def said(level: NoticeLevel, *lines: str) -> list[str]:
    """The sentences of one level about it."""
    return [str(one) for one in read(*lines).notices if one.level is level]


def test_an_ordinary_file_has_connects_defaults() -> None:
    """But for how often positions are stored, how long a lost worker is waited for, who may ask."""
    found = read(without="listeners").settings
    assert found.connection.bootstrap_servers == ("t1:9092", "t2:9092")
    assert found.connection.alias == "worker"
    assert found.connection.client_id == "connect-mirror"
    assert found.group == GroupSettings("mirror")
    assert found.signing == SigningSettings()
    assert found.rest == RestSettings((RestListener("http", "127.0.0.1", 8083),))
    assert found.internal_topics.offsets == "oo"
    assert found.internal_topics.offsets_partitions == 25
    assert found.internal_topics.status == "ss"
    assert found.internal_topics.status_partitions == 5
    assert found.internal_topics.configs == "cc"
    assert found.internal_topics.configs_factor == ReplicationFactor(
        "config.storage.replication.factor", None, 3
    )
    assert found.exactly_once is ExactlyOnce.DISABLED
    assert found.group.rebalance_delay_ms == 0
    assert found.overrides == ClientOverrides()
    assert found.allowed_classes == ClassAllowlist()
    assert found.topic_tracking
    assert found.topic_tracking_reset
    assert found.metrics.port is None
    assert found.spark == {}
    assert read().notices == []


def test_a_common_mm2_file_is_read_with_one_notice_per_line() -> None:
    """Removed keys, converters and an old port: nothing of it is an error."""
    file = read(
        f"key.converter={JSON}",
        f"value.converter={JSON}",
        "key.converter.schemas.enable=true",
        f"internal.key.converter={JSON}",
        "internal.value.converter.schemas.enable=false",
        "#offset.storage.partitions=7",
        "offset.storage.replication.factor=1",
        "offset.flush.interval.ms=10000",
        "rest.port=8084",
        "plugin.path=/opt/plugins",
    )
    found = file.settings
    assert found.internal_topics.offsets_factor.value == 1
    assert found.rest.listeners == (RestListener("http", "127.0.0.1", 8084),)
    remarks = [one for one in file.notices if one.key != "listeners"]
    assert {one.level for one in remarks} == {NoticeLevel.INFO}
    assert [one.where for one in remarks] == [f"line {n}" for n in (6, 7, 8, 9, 10, 14, 15)]


@pytest.mark.parametrize("key", BASE)
def test_a_required_key_that_is_missing_is_an_error_with_a_remedy(key: str) -> None:
    """One sentence, naming the key."""
    file = read(without=key)
    (error,) = [one for one in file.notices if one.level is NoticeLevel.ERROR]
    assert error.key == key
    assert error.message.startswith(f"{key} is missing: ")
    with pytest.raises(ConfigError, match=f"connect-distributed.properties: {key} is missing"):
        _ = file.settings


@pytest.mark.parametrize("key", BASE)
def test_a_required_key_without_a_value_is_an_error(key: str) -> None:
    """An empty text is no name."""
    assert any(key in text and "empty" in text for text in said(NoticeLevel.ERROR, f"{key}="))


@pytest.mark.parametrize(
    ("lines", "listeners"),
    [
        (("listeners=http://127.0.0.1:9000",), (RestListener("http", "127.0.0.1", 9000),)),
        (
            ("listeners=HTTP://h:1, http://:2",),
            (RestListener("http", "h", 1), RestListener("http", "", 2)),
        ),
        (("listeners=http://[::1]:80",), (RestListener("http", "::1", 80),)),
        (("listeners=http://:0/",), (RestListener("http", "", 0),)),
        (("rest.port=9",), (RestListener("http", "127.0.0.1", 9),)),
        (("rest.host.name=h",), (RestListener("http", "h", 8083),)),
        (("rest.host.name=h", "rest.port=9"), (RestListener("http", "h", 9),)),
        (("listeners=http://:1", "rest.port=9"), (RestListener("http", "", 1),)),
    ],
)
def test_a_worker_listens_where_its_file_says(
    lines: tuple[str, ...], listeners: tuple[RestListener, ...]
) -> None:
    """The old port counts where there are no listeners."""
    assert listeners == settings(*lines).rest.listeners


@pytest.mark.parametrize(
    ("lines", "where"),
    [
        ((), "http://127.0.0.1:8083"),
        (("rest.port=9",), "http://127.0.0.1:9"),
        (("rest.host.name=h",), None),
        (("listeners=http://:8083",), None),
    ],
    ids=["nothing", "a port", "a host", "Connect's default"],
)
def test_an_unreachable_listener_is_warned_about(lines: tuple[str, ...], where: str | None) -> None:
    """Nothing listens beyond this machine unless asked; a group needs it."""
    notices = map(str, read(*lines, without="listeners").notices)
    told = [one for one in notices if "listeners is not set" in one]
    assert len(told) == (0 if where is None else 1)
    for one in told:
        assert f"served at {where}, which other machines" in one
        assert "listeners=http://:8083" in one


def test_a_listener_reads_as_it_is_written() -> None:
    """Brackets around an address of IPv6 included."""
    for text in ("http://:8083", "http://[::1]:80", "http://h:1"):
        assert str(settings(f"listeners={text}").rest.listeners[0]) == text


@pytest.mark.parametrize(
    "text", ["", "8083", "http://h", "http://h:99999", "ftp://:1", "http://a b:1"]
)
def test_a_listener_that_cannot_be_served_is_an_error(text: str) -> None:
    """The key and, where there is one, the item are named."""
    (error,) = said(NoticeLevel.ERROR, f"listeners={text}")
    assert error.startswith("line 6: listeners m")


def test_admin_listeners_may_be_apart_or_nowhere() -> None:
    """Not set means with all else."""
    assert settings().rest.admin_listeners is None
    assert settings("admin.listeners=").rest.admin_listeners == ()
    found = settings("admin.listeners=http://localhost:1").rest
    assert found.admin_listeners == (RestListener("http", "localhost", 1),)
    assert said(NoticeLevel.ERROR, "admin.listeners=nowhere")


def test_the_advertised_address_is_that_of_the_file() -> None:
    """Quotes that an image left around a host are no part of it."""
    found = settings(
        'rest.advertised.host.name="localhost"',
        "rest.advertised.port=81",
        "rest.advertised.listener=HTTP",
        "access.control.allow.origin=*",
        "access.control.allow.methods=GET",
        "response.http.headers.config=add X: y",
    ).rest
    assert (found.advertised_host, found.advertised_port) == ("localhost", 81)
    assert found.advertised_scheme == "http"
    assert (found.allow_origin, found.allow_methods) == ("*", "GET")
    assert found.response_headers == "add X: y"
    (warning,) = said(NoticeLevel.WARNING, 'rest.advertised.host.name="localhost"')
    assert "they are removed" in warning


def test_quotes_around_a_group_are_part_of_it_as_in_java() -> None:
    """Otherwise two kinds of workers would not meet."""
    text = "\n".join(f'{k}="{v}"' if k == "group.id" else f"{k}={v}" for k, v in BASE.items())
    file = WorkerConfig.parse(text)
    assert file.settings.group.group_id == '"mirror"'
    assert any("part of the name" in str(one) for one in file.notices)


def test_membership_and_signing_have_their_keys() -> None:
    """All that a group of workers needs."""
    found = settings(
        "session.timeout.ms=20000",
        "heartbeat.interval.ms=1000",
        "rebalance.timeout.ms=30000",
        "scheduled.rebalance.max.delay.ms=0",
        "worker.sync.timeout.ms=1",
        "worker.unsync.backoff.ms=2",
        "connect.protocol=Compatible",
        "inter.worker.key.ttl.ms=0",
        "inter.worker.key.size=512",
        "inter.worker.key.generation.algorithm=HmacSHA512",
        "inter.worker.signature.algorithm=HmacSHA512",
        "inter.worker.verification.algorithms=HmacSHA256,HmacSHA512",
    )
    assert found.group == GroupSettings("mirror", 20000, 1000, 30000, 0, 1, 2)
    assert found.signing == SigningSettings(
        0, 512, "HmacSHA512", "HmacSHA512", ("HmacSHA256", "HmacSHA512")
    )


@pytest.mark.parametrize(
    ("line", "part"),
    [
        ("session.timeout.ms=3000", "heartbeat.interval.ms (3000) must be less than"),
        ("heartbeat.interval.ms=0", "must be between 1 and"),
        ("scheduled.rebalance.max.delay.ms=-1", "must be between 0 and"),
        ("connect.protocol=new", "must be one of eager, compatible, sessioned"),
        ("inter.worker.signature.algorithm=HmacSHA512", "must contain inter.worker.signature"),
        ("inter.worker.signature.algorithm=MD5", "must be one of HmacSHA1"),
        ("inter.worker.verification.algorithms=", "must not be empty"),
        ("connector.client.config.override.policy=Some", "All, None, Principal, Allowlist"),
        ("exactly.once.source.support=maybe", "must be one of disabled, preparing, enabled"),
        ("offset.flush.interval.ms=soon", "must be a whole number, not 'soon'"),
        ("offset.storage.replication.factor=0", "must be at least 1, or -1"),
        ("rest.port=70000", "must be between 0 and 65535"),
        ("rest.advertised.port=0", "must be between 1 and 65535"),
        ("metrics.port=0", "must be between 1 and 65535"),
        ("topic.tracking.enable=yes", "must be true or false"),
        ("bootstrap.servers=t1", "must list host:port pairs"),
        ("security.protocol=TLS", "must be one of PLAINTEXT, SSL"),
        ("security.protocol=SASL_SSL\nsasl.mechanism=PLAIN", "sasl.jaas.config is missing"),
        ("producer.acks=0", "producer.acks must be all or 1"),
        ("producer.max.request.size=big", "must be a whole number"),
        ("config.providers=x", "names no known provider"),
        ("clusters=a,b", "sparkmirror run"),
        ("a->b.enabled=true", "sparkmirror run"),
        ("status.storage.topic=oo", "name the same topic 'oo'"),
        ("connector.python.allowlist=acme.policies,acme.*", "modules or classes such as"),
        ("group.id=${file:/nowhere.properties:x}", "cannot be resolved"),
    ],
)
def test_a_wrong_line_is_an_error(line: str, part: str) -> None:
    """The sentence says what would be right."""
    errors = said(NoticeLevel.ERROR, line)
    assert len(errors) == 1
    assert part in errors[0]


@pytest.mark.parametrize(
    ("line", "level", "part"),
    [
        ("offset.flush.timeout.ms=1", NoticeLevel.INFO, "is ignored: a failed flush"),
        ("consumer.max.poll.records=5", NoticeLevel.INFO, "set source.consumer."),
        ("admin.retries=5", NoticeLevel.INFO, "target.admin."),
        ("producer.linger.ms=5", NoticeLevel.INFO, "is ignored: record batches are copied"),
        ("retry.backoff.ms=5", NoticeLevel.INFO, "is ignored"),
        ("listeners.https.ssl.keystor.type=JKS", NoticeLevel.WARNING, "https.ssl.keystore.type?"),
        (
            "rest.extension.classes=acme.Extension\nlisteners=http://localhost:1",
            NoticeLevel.WARNING,
            "does not run",
        ),
        (
            "rest.basic.auth.login.config=/jaas",
            NoticeLevel.WARNING,
            "without rest.extension.classes",
        ),
        ("confluent.topic=x", NoticeLevel.INFO, "Confluent's plugins"),
        ("metrics.context.a=b", NoticeLevel.INFO, "do not exist here"),
        ("exactly.once.source.support=preparing", NoticeLevel.INFO, "has no effect"),
        ("config.storage.partitions=1", NoticeLevel.INFO, "always has one partition"),
        (
            "connect.protocol=eager",
            NoticeLevel.INFO,
            "has no effect: whole connectors are assigned",
        ),
        ("offset.storage.cleanup.policy=delete", NoticeLevel.WARNING, "always compacted"),
        ("rest.port=1\nlisteners=http://:2", NoticeLevel.WARNING, "listeners wins"),
        ("topics=x", NoticeLevel.WARNING, "is a key of a connector's configuration"),
        ("consumer.poll.timeout.ms=5", NoticeLevel.WARNING, "connector's configuration"),
        ("group.idd=x", NoticeLevel.WARNING, "did you mean group.id?"),
        ("utterly.strange=x", NoticeLevel.WARNING, "is unknown and does nothing."),
        ("group.id=mirror", NoticeLevel.WARNING, "is repeated"),
        ("config.providers.x.class=y", NoticeLevel.WARNING, "does not name x"),
        (
            "connector.client.config.override.allowlist=acks",
            NoticeLevel.WARNING,
            "policy=Allowlist",
        ),
        ("producer.unknown=x", NoticeLevel.WARNING, "producer.unknown is unknown"),
    ],
)
def test_a_line_that_does_nothing_gets_one_remark(line: str, level: NoticeLevel, part: str) -> None:
    """And no other level says anything."""
    (remark,) = read(*line.splitlines()).notices
    assert remark.level is level
    assert part in remark.message


def test_storage_keys_become_topic_configs() -> None:
    """Save those that mean something to the worker."""
    found = settings(
        "offset.storage.segment.bytes=1048576",
        "offset.storage.partitions=3",
        "status.storage.cleanup.policy=compact",
    ).internal_topics
    assert found.extra_configs == {"oo": {"segment.bytes": "1048576"}}
    assert found.offsets_partitions == 3


@pytest.mark.parametrize(
    ("text", "policy"),
    [
        ("All", OverridePolicy.ALL),
        ("None", OverridePolicy.NONE),
        ("PrincipalConnectorClientConfigOverridePolicy", OverridePolicy.PRINCIPAL),
        (f"{JAVA}AllowlistConnectorClientConfigOverridePolicy", OverridePolicy.ALLOWLIST),
    ],
)
def test_a_policy_has_a_short_name_and_javas(text: str, policy: OverridePolicy) -> None:
    """Connect's plugins answer to both."""
    found = settings(f"connector.client.config.override.policy={text}").overrides
    assert policy is found.policy


@pytest.mark.parametrize(
    ("policy", "allowed"),
    [
        (OverridePolicy.ALL, {"acks", "bootstrap.servers", "sasl.mechanism", "security.protocol"}),
        (OverridePolicy.NONE, set()),
        (OverridePolicy.PRINCIPAL, {"sasl.mechanism", "security.protocol"}),
        (OverridePolicy.ALLOWLIST, {"acks"}),
    ],
)
def test_a_policy_allows_these(policy: OverridePolicy, allowed: set[str]) -> None:
    """As Connect's four do."""
    overrides = ClientOverrides(policy, ("acks",))
    keys = ("acks", "bootstrap.servers", "sasl.mechanism", "security.protocol", "linger.ms")
    assert allowed <= {key for key in keys if overrides.allows(key)}
    assert policy is OverridePolicy.ALL or {k for k in keys if overrides.allows(k)} == allowed


def test_references_are_resolved_and_never_shown(tmp_path: Path) -> None:
    """A value from a provider counts as a secret."""
    secrets = tmp_path / "s.properties"
    secrets.write_text("group=hush\nhost=t9:1\n")
    text = "\n".join(f"{k}={v}" for k, v in BASE.items() if k != "group.id")
    file = WorkerConfig.parse(f"{text}\ngroup.id=${{file:{secrets}:group}}")
    assert file.settings.group.group_id == "hush"
    shown = {one.key: str(one.text) for one in file.effective}
    assert shown["group.id"] == "[hidden]"


def test_our_own_keys_are_read() -> None:
    """Figures for Prometheus, and whatever Spark should know."""
    found = settings("metrics.port=9404", "metrics.host=0.0.0.0", "spark.master=local[2]")
    assert found.metrics == MetricsSettings("0.0.0.0", 9404, 2_000)  # noqa: S104 - a test
    assert found.spark == {"spark.master": "local[2]"}


def test_connectors_may_name_the_classes_of_the_list() -> None:
    """Modules, packages and classes."""
    found = settings("connector.python.allowlist=acme.policies, other.Filter").allowed_classes
    assert found == ClassAllowlist(("acme.policies", "other.Filter"))


def test_tracking_of_topics_may_be_off() -> None:
    """Both switches."""
    found = settings("topic.tracking.enable=false", "topic.tracking.allow.reset=false")
    assert (found.topic_tracking, found.topic_tracking_reset) == (False, False)


def test_bytes_are_the_converter_that_needs_no_remark() -> None:
    """It is what happens anyway."""
    lines = [f"{part}.converter={BYTES}" for part in ("key", "value", "header")]
    assert read(*lines).notices == []


@pytest.mark.parametrize("key", WORKER_CONFIG_KEYS, ids=lambda key: key.name)
def test_a_key_of_the_file_has_a_doc_sentence_and_a_valid_default(key: ConfigKey) -> None:
    """As every key of the table."""
    assert key.doc.endswith(".")
    assert key.default is None or key.default_value() is not None


def test_no_key_is_both_read_and_ignored() -> None:
    """Each has one meaning; what is below an ignored prefix may still be a key."""
    names = {key.name for key in WORKER_CONFIG_KEYS}
    assert not names & IGNORED_WORKER_CONFIG_KEYS.keys()
    assert {n for n in names if n.startswith(tuple(IGNORED_PREFIXES))} == {"admin.listeners"}


def test_a_file_that_is_not_there_is_reported(tmp_path: Path) -> None:
    """As of any other file."""
    with pytest.raises(ConfigError, match="There is no file"):
        WorkerConfig.load(tmp_path / "none.properties")
