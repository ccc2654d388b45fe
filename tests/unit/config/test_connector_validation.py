# SPDX-License-Identifier: Apache-2.0
"""Validation where Connect has no example for us: our own keys, secrets, references, the shape."""

from __future__ import annotations

import sys
from dataclasses import asdict
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sparkmirror.config.connector_config import read_connector
from sparkmirror.config.connector_validation import (
    ConfigValidation,
    ValidatedKey,
    validate_connector,
)
from sparkmirror.config.keys.connector_classes import (
    CONNECTOR_CLASS_KEYS,
    OWN_GROUP,
    SPARKMIRROR_KEY_NAMES,
    ConnectorClass,
    client_definition,
    definitions,
)
from sparkmirror.config.keys.security_keys import KAFKA_SECURITY_KEYS
from sparkmirror.config.worker_config import WorkerConfig
from sparkmirror.errors import ConfigError

WORKER_TEXT = (
    "bootstrap.servers=b1:9092\ngroup.id=mirror\nconfig.storage.topic=cc\n"
    "offset.storage.topic=oo\nstatus.storage.topic=ss"
)
WORKER = WorkerConfig.parse(WORKER_TEXT)
READING_FILES = WorkerConfig.parse(f"{WORKER_TEXT}\nconfig.providers=file")
BASE: dict[str, str | None] = {
    "name": "x",
    "connector.class": "MirrorSource",
    "source.cluster.alias": "a",
    "source.cluster.bootstrap.servers": "a1:9092",
    "target.cluster.bootstrap.servers": "b1:9092",
}


def check(worker: WorkerConfig = WORKER, **extra: str | None) -> ConfigValidation:
    """An ordinary source connector; `__` in a name stands for a dot."""
    return validate_connector(BASE | {k.replace("__", "."): v for k, v in extra.items()}, worker)


def entry(found: ConfigValidation, name: str) -> ValidatedKey:
    """One key of the answer."""
    (one,) = [e for e in found.configs if e.value.name == name]
    return one


@pytest.mark.parametrize("kind", list(ConnectorClass), ids=lambda kind: kind.value)
def test_every_definition_is_complete(kind: ConnectorClass) -> None:
    """A sentence, a known type, and no key twice."""
    found = definitions(kind)
    assert len({one.name for one in found}) == len(found)
    for one in found:
        assert one.documentation.endswith(".")
        assert one.type in {
            *("STRING", "INT", "SHORT", "LONG", "DOUBLE"),
            *("BOOLEAN", "LIST", "CLASS", "PASSWORD"),
        }
        assert one.importance in {"HIGH", "MEDIUM", "LOW"}
        assert one.width in {"NONE", "SHORT", "MEDIUM", "LONG"}
        assert not (one.required and one.default_value is not None)


def test_our_own_keys_are_a_group() -> None:
    """In the order of the table, numbered from one."""
    own = [one for one in definitions(ConnectorClass.SOURCE) if one.group == OWN_GROUP]
    assert {one.name for one in own} == SPARKMIRROR_KEY_NAMES & CONNECTOR_CLASS_KEYS[
        ConnectorClass.SOURCE
    ].keys()
    assert [one.order_in_group for one in own] == list(range(1, len(own) + 1))


def test_only_the_source_connector_copies() -> None:
    """The others have no key about it, but every class may name a profile."""
    for kind in (ConnectorClass.CHECKPOINT, ConnectorClass.HEARTBEAT):
        names = CONNECTOR_CLASS_KEYS[kind].keys() & SPARKMIRROR_KEY_NAMES
        assert names == {"profile", "source.profile", "topic.creation.enabled"}


CLASS_KEYS_OF_POLICY = (
    "replication.policy.class",
    "topic.filter.class",
    "config.property.filter.class",
)


@pytest.mark.parametrize("key", CLASS_KEYS_OF_POLICY)
def test_a_python_class_must_be_listed_in_the_workers_file(
    key: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whoever reaches the REST server cannot have a module imported by that."""
    (tmp_path / "not_to_be_run.py").write_text("raise AssertionError('it was imported')")
    monkeypatch.syspath_prepend(tmp_path)
    name = "not_to_be_run.Policy"
    found = check(**{key: name})
    (error,) = entry(found, key).value.errors
    assert error.startswith(f"{key}={name}: it is not among the Python classes")
    assert f"connector.python.allowlist={name} in the file of every worker" in error
    assert "not_to_be_run" not in sys.modules
    assert found.error_count == 1
    with pytest.raises(ConfigError, match=r"connector\.python\.allowlist"):
        _ = read_connector(BASE | {key: name}, WORKER).settings
    listed = WorkerConfig.parse(f"{WORKER_TEXT}\nconnector.python.allowlist=not_to_be_run")
    (error,) = entry(validate_connector(BASE | {key: name}, listed), key).value.errors
    assert "it was imported" in error


@pytest.mark.parametrize(
    "name",
    [
        "org.apache.kafka.connect.mirror.IdentityReplicationPolicy",
        "sparkmirror.policy.replication.IdentityReplicationPolicy",
    ],
)
def test_the_built_in_policies_need_no_listing(name: str) -> None:
    """By Java's name and by ours."""
    assert check(replication__policy__class=name).errors == ()


def test_a_client_knows_the_key_that_gave_its_addresses() -> None:
    """So that a message about a silent cluster names a key that the reader can find."""
    found = read_connector(BASE, WORKER).settings
    assert found.consumer.servers_key == "source.cluster.bootstrap.servers"
    assert found.target_admin.servers_key == "target.cluster.bootstrap.servers"
    assert found.producer.servers_key == "bootstrap.servers"
    assert WORKER.settings.connection.servers_key == "bootstrap.servers"
    own = {"producer.override.bootstrap.servers": "b2:9092"}
    producer = read_connector(BASE | own, WORKER).settings.producer
    assert producer.servers_key == "producer.override.bootstrap.servers"


def test_a_definition_explains_what_has_no_effect_here() -> None:
    """Whoever looks at the form should know."""
    one = entry(check(), "errors.tolerance").definition
    assert one is not None
    assert "No effect here: record batches are copied byte for byte" in one.documentation


def test_client_keys_have_definitions_behind_their_prefix() -> None:
    """Those that we know."""
    one = client_definition("producer.override.acks")
    assert one is not None
    assert (one.name, one.display_name, one.type) == ("producer.override.acks", "acks", "STRING")
    servers = client_definition("source.cluster.bootstrap.servers")
    assert servers is not None
    assert servers.required
    assert client_definition("producer.override.linger.ms") is None
    assert client_definition("topics") is None


def test_the_answer_has_connects_fields() -> None:
    """As JSON has them, in Connect's order."""
    found = asdict(check())
    assert list(found) == ["name", "error_count", "groups", "configs"]
    assert list(found["configs"][0]) == ["definition", "value"]
    assert list(found["configs"][0]["definition"]) == [
        *("name", "type", "required", "default_value", "importance", "documentation"),
        *("group", "order_in_group", "width", "display_name", "dependents"),
    ]
    assert list(found["configs"][0]["value"]) == [
        *("name", "value", "recommended_values", "errors", "visible"),
    ]
    assert found["name"] == "MirrorSource"


def test_an_ordinary_connector_has_no_error() -> None:
    """Defaults stand where nothing is said."""
    found = check(tasks__max=" 2 ", sync__topic__acls__enabled="FALSE", topics=" a , b ")
    assert found.error_count == 0
    assert found.errors == ()
    assert entry(found, "tasks.max").value.value == "2"
    assert entry(found, "sync.topic.acls.enabled").value.value == "false"
    assert entry(found, "topics").value.value == "a,b"
    assert entry(found, "enabled").value.value == "true"
    assert entry(found, "topics.exclude").value.value == r"mm2.*\.internal,.*\.replica,__.*"


@pytest.mark.parametrize(
    ("key", "text", "error"),
    [
        ("epoch.seconds", "0", "Invalid value 0 for configuration epoch.seconds: Value must be at"),
        ("epoch.seconds", "99999999", "Value must be no more than 86400"),
        ("gap.policy", "x", "Invalid value x for configuration gap.policy: String must be one of:"),
        ("replication.factor", "0", "must be at least 1, or -1 for the broker's default"),
        ("refresh.topics.interval.seconds", "0", "must not be 0"),
        ("source.cluster.alias", "a b", "becomes part of topic names"),
        ("sasl.login.read.timeout.ms", "x", "Not a number of type INT"),
        ("sasl.kerberos.ticket.renew.jitter", "x", "Not a number of type DOUBLE"),
        ("profile", "x", "String must be one of: none, event-hubs"),
        ("topics", "(", "is not a supported regular expression"),
        ("source.cluster.bootstrap.servers", "x", "must list host:port pairs"),
        ("producer.override.acks", "2", "must be one of all, -1, 1, 0"),
        (
            "topics",
            "${env:NOT_THERE_AT_ALL}",
            "declares may be used: set config.providers=env there",
        ),
    ],
)
def test_a_wrong_value_is_one_error_on_its_key(key: str, text: str, error: str) -> None:
    """Ours and Kafka's alike; whatever could not be run is refused."""
    found = validate_connector(BASE | {key: text}, WORKER)
    assert found.error_count == 1
    assert error in entry(found, key).value.errors[0]
    assert error in found.error_message


@pytest.mark.parametrize("name", ["topics", "tasks.max", "enabled", "name", "unknown", "profile"])
def test_a_null_is_an_error_on_its_key(name: str) -> None:
    """Java lets some pass; they would be stored and mean nothing."""
    found = validate_connector(BASE | {name: None}, WORKER)
    assert entry(found, name).value.errors
    assert entry(found, name).value.value is None


def test_secrets_are_never_shown() -> None:
    """Neither in values nor in errors, under any prefix."""
    found = check(
        sasl__jaas__config="hush",
        producer__override__sasl__jaas__config="hush",
        source__cluster__sasl__jaas__config="hush",
    )
    assert entry(found, "sasl.jaas.config").value.value == "[hidden]"
    assert entry(found, "producer.override.sasl.jaas.config").value.value == "[hidden]"
    assert "hush" not in str(found)


def test_what_a_reference_holds_is_never_shown(tmp_path: Path) -> None:
    """The reference itself is."""
    secrets = tmp_path / "s.properties"
    secrets.write_text("number=hush\ntopics=hush,,hush\nclass=no.hush\nlist=hush\n")
    reference = f"${{file:{secrets}:%s}}"
    found = check(
        READING_FILES,
        tasks__max=reference % "number",
        topics=reference % "topics",
        replication__policy__class=reference % "class",
        groups=reference % "list",
        gap__policy=reference % "number",
    )
    assert "hush" not in str(found)
    assert found.error_count == 5
    assert entry(found, "topics").value.value == reference % "topics"
    written = reference % "number"
    assert entry(found, "tasks.max").value.errors[0] == (
        f"Invalid value {written} for configuration tasks.max: Not a number of type INT"
    )


def test_config_providers_of_a_connector_are_not_used(tmp_path: Path) -> None:
    """The worker's decide what may be read."""
    secrets = tmp_path / "s.properties"
    secrets.write_text("t=orders\n")
    limited = WorkerConfig.parse(
        "bootstrap.servers=b1:9092\ngroup.id=m\nconfig.storage.topic=c\noffset.storage.topic=o\n"
        "status.storage.topic=s\nconfig.providers.file.param.allowed.paths=/usr"
    )
    config = BASE | {
        "topics": f"${{file:{secrets}:t}}",
        "config.providers": "file",
        "config.providers.file.class": "org.apache.kafka.common.config.provider.FileConfigProvider",
    }
    (error,) = validate_connector(config, limited).errors
    assert "outside the provider's allowed.paths" in error
    assert validate_connector(config, READING_FILES).error_count == 0
    (error,) = validate_connector(config, WORKER).errors
    assert "config.providers=file there" in error


def test_a_class_that_is_not_ours_is_no_validation() -> None:
    """The caller answers with Connect's status."""
    for name in (None, "no.such.Thing"):
        with pytest.raises(ConfigError):
            validate_connector(BASE | {"connector.class": name}, WORKER)


_KEYS = sorted(
    {name for keys in CONNECTOR_CLASS_KEYS.values() for name in keys} - {"connector.class"}
)
_PREFIXES = ("source.cluster.", "target.cluster.", "source.consumer.", "producer.override.")
_SECURITY = sorted(key.name for key in KAFKA_SECURITY_KEYS)
_ANY_KEY = st.one_of(
    st.sampled_from(_KEYS),
    st.builds(
        str.__add__,
        st.sampled_from(_PREFIXES),
        st.sampled_from(_SECURITY),
    ),
    st.text(max_size=20),
)
_ANY_TEXT = st.one_of(
    st.none(),
    st.text(max_size=20),
    st.sampled_from(["", "true", "0", "-1", "a,b", "${env:X}", "${x:y:z}", "[hidden]", "h:1", "("]),
    st.integers().map(str),
)


@given(st.dictionaries(_ANY_KEY, _ANY_TEXT, max_size=8), st.sampled_from(ConnectorClass))
@settings(max_examples=60, deadline=None)
def test_no_configuration_is_too_odd_to_be_validated(
    extra: dict[str, str | None], kind: ConnectorClass
) -> None:
    """An answer, never an exception; and what it accepts can be read."""
    config = BASE | extra | {"connector.class": kind.java_name}
    found = validate_connector(config, WORKER)
    assert found.error_count == len(found.errors)
    if found.error_count == 0:
        assert read_connector(config, WORKER).settings.flow.source
    else:
        assert all(found.errors)


@pytest.mark.parametrize("listed", ["", "files", "urls"])
@pytest.mark.parametrize("place", ["key", "option"])
def test_over_rest_only_token_files_are_read_that_the_machines_owner_lists(
    place: str, listed: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What is in them goes to a broker, which whoever sends a connector chooses."""
    file = tmp_path / "token"
    file.write_text("eyJh.eyJz.c2ln")
    names = {"files": str(file), "urls": file.as_uri()}
    option = f"-Dorg.apache.kafka.sasl.oauthbearer.allowed.{listed}=/else,{names.get(listed)}"
    monkeypatch.setenv("KAFKA_OPTS", option if listed else "-Xmx1g")
    module = "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule required"
    places = {
        "key": {"source.cluster.sasl.oauthbearer.token.endpoint.url": file.as_uri()},
        "option": {
            "source.cluster.sasl.jaas.config": f'{module} oauth.access.token.location="{file}";'
        },
    }
    login = {
        "source.cluster.security.protocol": "SASL_PLAINTEXT",
        "source.cluster.sasl.mechanism": "OAUTHBEARER",
    }
    reading = read_connector(BASE | login | places[place], WORKER)
    assert [("allowed.files" in one.message) for one in reading.errors] == (
        [] if listed else [True]
    )
