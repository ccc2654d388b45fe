# SPDX-License-Identifier: Apache-2.0
"""A MirrorClient from properties or from a file; invalid calls never reach a cluster."""

from __future__ import annotations

import logging
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import sparkmirror.client
from sparkmirror.client import MirrorClient
from sparkmirror.config.mirror_client_config import read_client_properties
from sparkmirror.config.mirror_config import MirrorConfig
from sparkmirror.errors import ArgumentError, ConfigError, UnreachableError
from sparkmirror.model import Secret
from sparkmirror.policy.replication import DefaultReplicationPolicy, IdentityReplicationPolicy

NOBODY = "127.0.0.1:1"
PROPERTIES = {"bootstrap.servers": NOBODY}
IDENTITY = "org.apache.kafka.connect.mirror.IdentityReplicationPolicy"


def test_the_default_policy_is_mm2s() -> None:
    """Nothing but the addresses is needed."""
    policy = MirrorClient(PROPERTIES).replication_policy
    assert type(policy) is DefaultReplicationPolicy
    assert policy.checkpoints_topic("a") == "a.checkpoints.internal"


def test_the_policy_is_made_from_the_properties() -> None:
    """Class, separator, the flag for internal names and the source's alias."""
    keys = {"replication.policy.class": IDENTITY, "source.cluster.alias": "primary"}
    policy = MirrorClient(PROPERTIES | keys).replication_policy
    assert isinstance(policy, IdentityReplicationPolicy)
    assert policy.topic_source("orders") == "primary"
    separator = {"replication.policy.separator": "__"}
    policy = MirrorClient(PROPERTIES | separator).replication_policy
    assert policy.checkpoints_topic("a") == "a__checkpoints__internal"
    plain = separator | {"replication.policy.internal.topic.separator.enabled": False}
    policy = MirrorClient(PROPERTIES | plain).replication_policy
    names = (policy.checkpoints_topic("a"), policy.format_remote_topic("a", "t"))
    assert names == ("a.checkpoints.internal", "a__t")


@pytest.mark.parametrize("servers", [{}, {"bootstrap.servers": " "}, {"bootstrap.servers": None}])
def test_addresses_are_required(servers: dict[str, object]) -> None:
    with pytest.raises(ConfigError, match=r"bootstrap\.servers is missing"):
        MirrorClient(servers)


def test_every_wrong_value_is_named() -> None:
    """One error with all messages, and without line numbers."""
    wrong = {
        "bootstrap.servers": "nowhere",
        "admin.request.timeout.ms": "soon",
        "replication.policy.separator": "->",
    }
    with pytest.raises(ConfigError) as caught:
        MirrorClient(wrong)
    text = str(caught.value)
    assert [key for key in wrong if key not in text] == []
    assert "line" not in text


def test_a_policy_that_cannot_be_loaded_is_refused() -> None:
    """The key and the class are named."""
    with pytest.raises(ConfigError, match=r"replication\.policy\.class=com\.acme\.Policy"):
        MirrorClient(PROPERTIES | {"replication.policy.class": "com.acme.Policy"})


def test_values_of_pythons_types_are_taken() -> None:
    """Numbers, lists and secrets of Python; other types are rejected by key."""
    settings = read_client_properties(
        {
            "bootstrap.servers": ["one:1", "two:2"],
            "consumer.request.timeout.ms": 1500,
            "sasl.jaas.config": Secret("hush"),
        }
    )
    assert settings.consumer.bootstrap_servers == ("one:1", "two:2")
    assert settings.consumer.request_timeout_seconds == 1.5
    assert settings.admin.request_timeout_seconds == 30.0
    assert settings.admin.alias == "one:1,two:2"
    assert "hush" not in repr(settings)
    with pytest.raises(ConfigError, match=r"client\.id must be a str"):
        read_client_properties(PROPERTIES | {"client.id": object()})
    with pytest.raises(ArgumentError, match="key 5"):
        read_client_properties({5: "x"})  # type: ignore[dict-item]


def test_keys_of_one_client_win_for_that_client() -> None:
    """`admin.` and `consumer.` keys are of one client each, others of both."""
    settings = read_client_properties(PROPERTIES | {"admin.bootstrap.servers": "other:1"})
    assert settings.admin.bootstrap_servers == ("other:1",)
    assert settings.consumer.bootstrap_servers == (NOBODY,)


def test_references_are_resolved(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Config providers work as in a file; an unresolvable reference is an error."""
    (tmp_path / "secrets").write_text("servers=one:1\n")
    monkeypatch.setenv("SEPARATOR_OF_TEST", "_")
    settings = read_client_properties(
        {
            "bootstrap.servers": f"${{file:{tmp_path}/secrets:servers}}",
            "replication.policy.separator": "${env:SEPARATOR_OF_TEST}",
        }
    )
    assert settings.admin.bootstrap_servers == ("one:1",)
    assert settings.naming.separator == "_"
    with pytest.raises(ConfigError, match="NO_SUCH_VARIABLE"):
        read_client_properties({"bootstrap.servers": "${env:NO_SUCH_VARIABLE}"})
    with pytest.raises(ConfigError, match="names no known provider"):
        read_client_properties(PROPERTIES | {"config.providers": "vault"})


def test_security_is_read_by_the_same_layer_as_in_files() -> None:
    """An unsupported protocol is rejected, never ignored."""
    with pytest.raises(ConfigError, match=r"security\.protocol"):
        read_client_properties(PROPERTIES | {"security.protocol": "CARRIER_PIGEON"})


def test_misspelt_keys_are_reported(caplog: pytest.LogCaptureFixture) -> None:
    """Keys that look like known ones; keys for a custom policy are ignored."""
    with caplog.at_level(logging.WARNING):
        read_client_properties(
            PROPERTIES | {"replication.policy.seperator": "_", "shout.suffix": "!"}
        )
    (record,) = caplog.records
    assert "did you mean replication.policy.separator?" in record.message


FILE = """
clusters = primary, backup
primary.bootstrap.servers = p:1
primary.ssl.keystore.password = ${env:NOT_ON_THIS_MACHINE}
backup.bootstrap.servers = b:1
backup.admin.request.timeout.ms = 1000
replication.policy.separator = _
primary->backup.enabled = true
admin.timeout.ms = 5000
"""


def test_a_file_gives_the_properties_of_one_cluster(tmp_path: Path) -> None:
    """The cluster's lines and the global ones; other clusters' secrets are not read."""
    file = tmp_path / "mm2.properties"
    file.write_text(FILE)
    settings = MirrorConfig.load(file).client_settings("backup")
    assert (settings.admin.alias, settings.admin.bootstrap_servers) == ("backup", ("b:1",))
    assert settings.admin.request_timeout_seconds == 1.0
    assert settings.consumer.request_timeout_seconds == 30.0
    client = MirrorClient.from_file(str(file), "backup")
    assert client.replication_policy.checkpoints_topic("primary") == "primary_checkpoints_internal"


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        (FILE, "has no cluster 'elsewhere', only primary, backup"),
        ("clusters=elsewhere,b", r"elsewhere\.bootstrap\.servers is missing"),
        ("a.bootstrap.servers=x:1", "clusters is missing"),
    ],
)
def test_a_cluster_that_a_file_does_not_describe(tmp_path: Path, text: str, sentence: str) -> None:
    """The error names the file and what it lacks."""
    file = tmp_path / "mm2.properties"
    file.write_text(text)
    with pytest.raises(ConfigError, match=sentence) as caught:
        MirrorClient.from_file(file, "elsewhere")
    assert str(file) in str(caught.value)


GROUPS = re.compile("g")


@pytest.mark.parametrize(
    ("method", "arguments"),
    [
        ("replication_hops", (None,)),
        ("remote_consumer_offsets", (None, "a", 1.0)),
        ("remote_consumer_offsets", ("g", None, 1.0)),
        ("remote_consumer_offsets", ("g", "", 1.0)),
        ("remote_consumer_offsets", ("g", "a", None)),
        ("remote_consumer_offsets", ("g", "a", -1)),
        ("remote_consumer_offsets", (GROUPS, None, 1.0)),
        ("remote_consumer_offsets", (GROUPS, "a", None)),
    ],
)
def test_missing_arguments_are_refused(method: str, arguments: tuple[Any, ...]) -> None:
    """Before any connection, with a ValueError of our exception tree."""
    with pytest.raises(ArgumentError), MirrorClient(PROPERTIES) as client:
        getattr(client, method)(*arguments)


def test_missing_properties_and_files_are_refused() -> None:
    """None is no mapping, no path and no alias."""
    nothing: Any = None
    for call in (
        lambda: MirrorClient(nothing),
        lambda: MirrorClient.from_file(nothing, "a"),
        lambda: MirrorClient.from_file("mm2.properties", nothing),
        lambda: sparkmirror.client.heartbeat_topics(nothing),
    ):
        with pytest.raises(ArgumentError):
            call()


def test_a_cluster_that_does_not_answer_is_named() -> None:
    """By its addresses if it has no alias; the remedy names the key as the program wrote it."""
    with pytest.raises(UnreachableError) as caught:
        sparkmirror.client.upstream_clusters(
            PROPERTIES | {"admin.socket.connection.setup.timeout.ms": 100}
        )
    assert caught.value.cluster == NOBODY
    assert "Check bootstrap.servers and" in str(caught.value)


def test_no_spark_is_loaded() -> None:
    """Programs do not pay for PySpark."""
    program = "import sys, sparkmirror.client; print('pyspark' in sys.modules)"
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", program],
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout.strip() == "False"
