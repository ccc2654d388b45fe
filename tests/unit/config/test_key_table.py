# SPDX-License-Identifier: Apache-2.0
"""The key table is complete, agrees with itself and with the reference page."""

from __future__ import annotations

import importlib.util
import re
import sys
from dataclasses import MISSING, fields
from pathlib import Path
from typing import Any

import pytest

from sparkmirror.config.keys.client_keys import IGNORED_CLIENT_KEYS
from sparkmirror.config.keys.config_def import ConfigKey, ParsedValue, field_of
from sparkmirror.config.keys.secret_keys import is_secret
from sparkmirror.config.keys.security_keys import KAFKA_SECURITY_KEYS, STRIMZI_OAUTH_KEYS
from sparkmirror.config.keys.table import (
    CLIENT,
    CONNECTOR,
    GLOBAL_CONNECTOR_NAMES,
    SECTIONS,
    SECURITY,
    WORKER,
    WORKER_SECTIONS,
    all_keys,
    differing_defaults,
    nearest_name,
)
from sparkmirror.config.keys.value_types import ConfigType
from sparkmirror.config.keys.worker_keys import (
    IGNORED_PREFIXES,
    IGNORED_WORKER_CONFIG_KEYS,
    WORKER_CONFIG_KEYS,
)
from sparkmirror.config.mirror_config import MirrorConfig
from sparkmirror.config.settings import (
    CheckpointSettings,
    FlowSettings,
    HeartbeatSettings,
    InternalTopics,
    TransactionSettings,
)
from sparkmirror.config.worker_config import WorkerConfig
from sparkmirror.config.worker_settings import RestSettings, WorkerSettings
from sparkmirror.policy.settings import PolicySettings, ReplicationPolicySettings
from sparkmirror.wire.settings import ConnectionSettings, FetchSettings

ROOT = Path(__file__).parents[3]
# What the four tables of MM2's own documentation name, defaults included (4.4).
MM2 = {
    "replication.policy.separator": ".",
    "topics": ".*",
    "topics.exclude": r"mm2.*\.internal, .*\.replica, __.*",
    "refresh.topics.interval.seconds": "600",
    "sync.topic.configs.interval.seconds": "600",
    "sync.topic.acls.interval.seconds": "600",
    "replication.factor": "2",
    "offset-syncs.topic.replication.factor": "3",
    "offset-syncs.topic.location": "source",
    "offset.lag.max": "100",
    "groups.exclude": "console-consumer-.*, connect-.*, __.*",
    "refresh.groups.interval.seconds": "600",
    "emit.checkpoints.interval.seconds": "60",
    "sync.group.offsets.enabled": "false",
    "sync.group.offsets.interval.seconds": "60",
    "checkpoints.topic.replication.factor": "3",
    "emit.heartbeats.interval.seconds": "1",
    "heartbeats.topic.replication.factor": "3",
    "admin.timeout.ms": "60000",
    "tasks.max": "1",
    "offset.storage.partitions": "25",
    "status.storage.partitions": "5",
    "offset.storage.replication.factor": "3",
    "offset.flush.interval.ms": "60000",
    "exactly.once.source.support": "disabled",
}


@pytest.mark.parametrize("key", list(all_keys()), ids=lambda key: key.name)
def test_a_key_has_a_doc_sentence_and_a_valid_default(key: ConfigKey) -> None:
    """A sentence ends with a full stop; a differing default has its reason."""
    assert key.doc.endswith(".")
    assert len(key.doc) > 15
    assert (key.mm2_default is None) == (key.mm2_difference_reason == "")
    if key.default is not None:
        key.default_value()


@pytest.mark.parametrize("name", MM2)
def test_a_default_is_mm2s_or_explains_what_mm2s_is(name: str) -> None:
    """No default differs in silence."""
    key = (CONNECTOR | WORKER)[name]
    assert MM2[name] == (key.default if key.mm2_default is None else key.mm2_default)


def test_the_defaults_that_differ_are_these() -> None:
    """A new difference must be meant."""
    assert {key.name for key in differing_defaults()} == {
        "refresh.topics.interval.seconds",
        "sync.topic.configs.interval.seconds",
        "sync.topic.acls.interval.seconds",
        "refresh.groups.interval.seconds",
        "emit.checkpoints.interval.seconds",
        "sync.group.offsets.interval.seconds",
        "replication.factor",
        "offset-syncs.topic.replication.factor",
        "checkpoints.topic.replication.factor",
        "heartbeats.topic.replication.factor",
        "offset.storage.replication.factor",
        "status.storage.replication.factor",
        "config.storage.replication.factor",
        "offset.flush.interval.ms",
        "listeners",
        "scheduled.rebalance.max.delay.ms",
        "send.buffer.bytes",
        "receive.buffer.bytes",
        "isolation.level",
        "max.partition.fetch.bytes",
        "max.request.size",
        "max.in.flight.requests.per.connection",
        "compression.type",
    }


def test_the_client_set_has_mm2s_68_names() -> None:
    """19 ssl keys, 47 sasl keys, the addresses and the protocol."""
    names = {key.name for key in KAFKA_SECURITY_KEYS}
    assert len(names) == 68
    assert sum(name.startswith("ssl.") for name in names) == 19
    assert sum(name.startswith("sasl.") for name in names) == 47
    assert set(SECURITY) == names | {key.name for key in STRIMZI_OAUTH_KEYS}


def test_no_name_is_both_used_and_ignored() -> None:
    """Each client key has one meaning per role."""
    for role, names in IGNORED_CLIENT_KEYS.items():
        assert not names.keys() & CLIENT[role].keys()


def test_names_that_mm2_drops_globally_are_dropped() -> None:
    """They are known, but only for one flow."""
    for name in ("use.defaults.from", "exactly.once.support", "bootstrap.servers"):
        assert name not in GLOBAL_CONNECTOR_NAMES
    assert {"consumer.poll.timeout.ms", "admin.timeout.ms", "ssl.protocol"} < GLOBAL_CONNECTOR_NAMES


@pytest.mark.parametrize(
    ("name", "secret"),
    [
        ("sasl.jaas.config", True),
        ("primary.sasl.jaas.config", True),
        ("a->b.source.consumer.ssl.keystore.password", True),
        ("sasl.oauthbearer.client.credentials.client.secret", True),
        ("a.oauth.client.secret", True),
        ("ssl.truststore.location", False),
        ("bootstrap.servers", False),
        ("topics", False),
        ("tokens->secret.topics", False),
        ("a.sasl.oauthbearer.token.endpoint.url", False),
        ("a.sasl.oauthbearer.client.credentials.client.id", False),
        ("oauth.token.endpoint.uri", False),
        ("oauth.password.grant.username", False),
        ("offset.storage.topic", False),
        ("key.converter", False),
    ],
)
def test_secrets_are_known_by_the_type_of_their_key(name: str, secret: bool) -> None:
    """Under any prefix."""
    assert secret == is_secret(name)


@pytest.mark.parametrize(
    ("name", "secret"),
    [
        ("a.ssl.keystore.passwort", True),
        ("a.sasl.password", True),
        ("a.consumer.basic.auth.user.info", True),
        ("a->b.transforms.x.secret", True),
        ("a.sasl.jaas.config.old", True),
        ("ssl.keystore.key.old", True),
        ("SASL_PASSWORD", True),
        ("spark.hadoop.fs.s3a.secret.key", True),
        ("spark.hadoop.fs.azure.account.key.me", True),
        ("transforms.x.key.field", False),
        ("a.consumer.basic.auth.credentials.source", False),
        ("spark.authenticate.secret.file", False),
        ("delegation.token.max.lifetime.ms", False),
    ],
)
def test_an_unknown_key_is_secret_if_its_name_suggests_it(name: str, secret: bool) -> None:
    """Misspelt, or of somebody's plugin."""
    assert secret == is_secret(name)


def test_a_name_means_the_same_wherever_it_stands() -> None:
    """Or it would be shown in one place and hidden in another."""
    secrets = {key.name for key in all_keys() if key.is_secret}
    assert secrets == {key.name for key in all_keys() if is_secret(key.name)}


def test_the_nearest_name_is_near() -> None:
    """Nothing is suggested for names that resemble none."""
    assert nearest_name("topcs", CONNECTOR) == "topics"
    assert nearest_name("completely.different.words", CONNECTOR) is None


def test_the_reference_page_is_not_stale() -> None:
    """`make docs` writes it again."""
    spec = importlib.util.spec_from_file_location("reference", ROOT / "tools" / "reference.py")
    assert spec is not None
    assert spec.loader is not None
    reference = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(reference)
    written = (ROOT / "docs" / "configuration.md").read_text("utf-8")
    assert reference.page() == written
    assert reference.metrics_page() == (ROOT / "docs" / "metrics.md").read_text("utf-8")
    assert reference.profiles_page() == (ROOT / "docs" / "profiles.md").read_text("utf-8")
    for key in all_keys():
        assert f"`{key.name}`" in written


def test_the_page_has_every_key_of_a_workers_file_where_it_belongs() -> None:
    """Also those that mean something else in MM2's file, and those that do nothing."""
    page = (ROOT / "docs" / "configuration.md").read_text("utf-8")
    part = page.partition("\n## A Connect worker's file\n")[2].partition("\n## ")[0]
    appendix = page.partition("\n## Keys without effect\n")[2].partition("\n## ")[0]
    workers = appendix.partition("\n**A Connect worker's file: ")[2]
    read = [key.name for key in WORKER_CONFIG_KEYS if not key.no_effect]
    assert sorted(rows(part)) == sorted(read)
    ignored = [key.name for key in WORKER_CONFIG_KEYS if key.no_effect]
    ignored += [*IGNORED_WORKER_CONFIG_KEYS, *(f"{prefix}*" for prefix in IGNORED_PREFIXES)]
    assert sorted(rows(workers)) == sorted(ignored)


def test_the_tables_of_the_page_have_only_keys_with_an_effect() -> None:
    """The others are in the appendix, each with its reason."""
    page = (ROOT / "docs" / "configuration.md").read_text("utf-8")
    tables, _, rest = page.partition("\n## Keys without effect\n")
    appendix = rest.partition("\n## ")[0]
    for section in (*SECTIONS, *WORKER_SECTIONS):
        names = [key.name for key in section.keys if key.no_effect]
        names += [name for name, _ in section.ignored]
        assert {*names} <= {*rows(appendix)}
    assert "No effect" not in tables
    assert len(rows(appendix)) > 150


def rows(text: str) -> list[str]:
    """The keys of tables."""
    return re.findall(r"^\| `([^`]+)` \|", text, re.MULTILINE)


def test_the_examples_of_the_page_work() -> None:
    """The file has no problem and the policy does what its comment says."""
    page = (ROOT / "docs" / "configuration.md").read_text("utf-8")
    example, worker_file = re.findall(r"```properties\n(.*?)```", page, re.DOTALL)
    assert MirrorConfig.parse(example).all_notices() == []
    assert WorkerConfig.parse(worker_file).notices == []
    (source,) = re.findall(r"```python\n(.*?)```", page, re.DOTALL)
    scope: dict[str, Any] = {}
    exec(source, scope)  # noqa: S102 - our own page
    policy = scope["SuffixPolicy"]()
    assert policy.format_remote_topic("source", "orders") == "orders.source"
    assert policy.topic_source("orders.source") == "source"
    assert policy.original_topic("orders.west.east") == "orders"


# Fields that come from several keys, from the role of a client, or from no key.
EXPLICIT = {
    ConnectionSettings: {
        *("alias", "bootstrap_servers", "client_id", "max_request_bytes", "security"),
        "servers_key",
    },
    ReplicationPolicySettings: {"options", "allowed_classes"},
    PolicySettings: {"options", "allowed_classes"},
    InternalTopics: {"extra_configs", "wished_configs"},
    HeartbeatSettings: {"name"},
    CheckpointSettings: {"name"},
    TransactionSettings: {"id_prefix", "commit_seconds"},
    RestSettings: {"listeners", "admin_listeners", "tls", "client_auth", "users"},
    FlowSettings: {one.name for one in fields(FlowSettings)} - {"enabled"},
    WorkerSettings: {
        *("connection", "group", "signing", "rest", "internal_topics", "overrides", "metrics"),
        *("spark", "log"),
    },
}
FILLED = {(key, field) for key in all_keys() for field in key.fills}


def test_every_settings_field_is_filled_by_a_key_or_explicit() -> None:
    """A field that nobody fills would be a TypeError for some files only."""
    for settings in {field.settings for _key, field in FILLED}:
        filled = {one.name for _key, one in FILLED if issubclass(settings, one.settings)}
        explicit = EXPLICIT.get(settings, set())
        assert filled | explicit == {one.name for one in fields(settings)}
        assert not filled & explicit


def test_the_default_of_a_field_is_the_default_of_its_key() -> None:
    """Settings that are made without a file behave like an empty file."""
    for key, field in FILLED:
        declared = {one.name: one.default for one in fields(field.settings)}[field.name]
        if declared not in (MISSING, None) and key.default is not None:
            parsed = ParsedValue(key.default_value(), key, key.name, False, False)
            assert declared == field.convert(parsed), (key.name, field.name)


def test_a_field_must_exist() -> None:
    """A misspelt field is found when the table is imported."""
    with pytest.raises(AttributeError, match="FetchSettings has no field 'max_byte'"):
        field_of(FetchSettings, "max_byte")


def test_a_switch_names_a_boolean_key() -> None:
    """Both keys are read by the same reader."""
    switches = {key.switch for key in CONNECTOR.values() if key.switch}
    assert all(CONNECTOR[name].type is ConfigType.BOOLEAN for name in switches)


def test_the_dashboards_are_not_stale() -> None:
    """`make docs` writes them again."""
    spec = importlib.util.spec_from_file_location("dashboards", ROOT / "tools" / "dashboards.py")
    assert spec is not None
    assert spec.loader is not None
    dashboards = importlib.util.module_from_spec(spec)
    sys.modules["dashboards"] = dashboards  # its dataclasses look their module up
    spec.loader.exec_module(dashboards)
    for file, text in dashboards.dashboards().items():
        assert file.read_text("utf-8") == text
