# SPDX-License-Identifier: Apache-2.0
"""Definitions, validations and refused offsets are those of a real Kafka Connect 4.3.1 worker."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from sparkmirror.config.connector_config import connector_class
from sparkmirror.config.connector_validation import validate_connector
from sparkmirror.config.keys.connector_classes import (
    GROUPS,
    OWN_GROUP,
    SPARKMIRROR_KEY_NAMES,
    ConnectorClass,
    definitions,
)
from sparkmirror.config.worker_config import WorkerConfig
from sparkmirror.errors import ConfigError

GOLDEN: dict[str, Any] = json.loads(
    (Path(__file__).parent / "golden" / "connect.json").read_text("utf-8")
)
SOURCE, WORKER = "source:9092", "kafka:9092"
# Ours are told by COMPATIBILITY.md, with the reason.
OTHER_DEFAULTS = {
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
}
# Keys of Kafka's version after the captured one.
NEWER = {"sasl.oauthbearer.allow.unverified.audience", "sasl.oauthbearer.allow.unverified.issuer"}


def worker(policy: str = "All", support: str = "disabled", allowlist: str = "") -> WorkerConfig:
    """A worker such as the captured one, on the target."""
    lines = (
        f"bootstrap.servers={WORKER}",
        "group.id=w",
        "config.storage.topic=c",
        "offset.storage.topic=o",
        "status.storage.topic=s",
        f"connector.client.config.override.policy={policy}",
        f"connector.client.config.override.allowlist={allowlist}",
        f"exactly.once.source.support={support}",
    )
    return WorkerConfig.parse("\n".join(lines))


def texts(body: dict[str, object]) -> dict[str, str | None]:
    """A request's values as Connect makes texts of them; the source is not the target here."""
    made: dict[str, str | None] = {}
    for key, value in body.items():
        if isinstance(value, bool):
            made[key] = str(value).lower()
        else:
            made[key] = None if value is None else str(value)
    if made.get("source.cluster.bootstrap.servers") == WORKER:
        made["source.cluster.bootstrap.servers"] = SOURCE
    return made


@pytest.mark.parametrize("kind", list(ConnectorClass), ids=lambda kind: kind.value)
def test_a_class_has_javas_keys_and_ours(kind: ConnectorClass) -> None:
    """No key is missing, and none is added but our own."""
    java = {row[0] for row in GOLDEN["definitions"][kind.value]}
    ours = {one.name for one in definitions(kind)}
    assert java - ours == set()
    assert ours - java <= SPARKMIRROR_KEY_NAMES | NEWER


@pytest.mark.parametrize("kind", list(ConnectorClass), ids=lambda kind: kind.value)
def test_a_definition_is_javas(kind: ConnectorClass) -> None:
    """Type, place in a form and default; how important a key is we may see otherwise."""
    ours = {one.name: one for one in definitions(kind)}
    for name, type_, required, default, _, group, order, width, label in GOLDEN["definitions"][
        kind.value
    ]:
        one = ours[name]
        assert (name, one.type, one.required) == (name, type_, required)
        assert (one.group, one.order_in_group, one.width) == (group, order, width), name
        assert one.display_name == label
        if name not in OTHER_DEFAULTS and not name.startswith(("ssl.", "sasl.")):
            assert (name, one.default_value) == (name, default)


def test_the_groups_are_javas_and_ours() -> None:
    """In Connect's order."""
    assert [*GOLDEN["groups"], OWN_GROUP] == list(GROUPS)


# What only we say, or say otherwise, by case; each with the reason.
DIFFERS = {
    # Java finds out when the connector starts, and fails it then.
    "s empty": "addresses that are missing are refused at once",
    "c empty": "addresses that are missing are refused at once",
    "h empty": "addresses that are missing are refused at once",
    "s no bootstrap": "addresses that are missing are refused at once",
    "s bad bootstrap": "addresses that are none are refused at once",
    "s alias empty": "an alias becomes part of topic names",
    # A reference that leads nowhere is never passed on as a text.
    "s ref": "unresolved references are refused",
    # Classes here are Python's, and converters convert nothing.
    "s types2": "a transform is refused, and so is a filter class that is none",
    "s converter ns": "a converter's keys are not looked at",
    "s transform": "transforms are refused",
    "s plugin version": "there is no other version",
    "s types": "a class that cannot be loaded is said with the remedy",
    "c types": "a class that cannot be loaded is said with the remedy",
    "s overrides": "addresses and acks of the producer are checked",
    "s negative": "a replication factor of -5 is refused",
    "s eos none boundary junk": "a transaction of 0 ms is refused",
    "s eos principal boundary junk": "a transaction of 0 ms is refused",
    "s eos allow boundary junk": "a transaction of 0 ms is refused",
    # Ours is read_committed where nothing is said, so it can be promised.
    "s eos required": "isolation.level is read_committed by default",
    "s eos REQUIRED": "isolation.level is read_committed by default",
    "s eos required none": "isolation.level is read_committed by default",
    "s eos required principal": "isolation.level is read_committed by default",
    "s eos required allow": "isolation.level is read_committed by default",
    # Java lets a null pass where a key has no check.
    "s nulls": "every null is refused",
    "s null name": "every null is refused",
}
SAME = [tag for tag in GOLDEN["validations"] if tag not in DIFFERS]


@pytest.mark.parametrize("tag", SAME)
def test_a_validation_is_javas(tag: str) -> None:
    """Values, errors word by word, and their number."""
    case = GOLDEN["validations"][tag]
    found = validate_connector(texts(case["body"]), worker(*case["worker"]))
    errors = {e.value.name: list(e.value.errors) for e in found.configs if e.value.errors}
    assert words(errors) == words(case["errors"])
    assert found.error_count == case["error_count"]
    assert found.name == case["name"]
    values = {e.value.name: e.value.value for e in found.configs if e.definition}
    assert {k: v for k, v in case["values"].items() if k in values}.items() <= values.items()
    assert [e.value.name for e in found.configs if not e.value.visible] == case["invisible"]


@pytest.mark.parametrize("tag", DIFFERS)
def test_a_validation_that_differs_still_does(tag: str) -> None:
    """A reason that no longer holds is taken off the list."""
    case = GOLDEN["validations"][tag]
    found = validate_connector(texts(case["body"]), worker(*case["worker"]))
    errors = {e.value.name: list(e.value.errors) for e in found.configs if e.value.errors}
    assert words(errors) != words(case["errors"])


def words(errors: dict[str, list[str]]) -> dict[str, list[list[str]]]:
    """Java names the members of a set in no order."""
    return {
        name: [sorted(re.split(r"[ ,]+", text)) for text in found] for name, found in errors.items()
    }


@pytest.mark.parametrize("tag", ["two errors", "empty name", "blank name"])
def test_a_refused_connector_gets_connects_message(tag: str) -> None:
    """As the answer to POST /connectors has it."""
    case = GOLDEN["posts"][tag]
    config = texts({"name": case["body"]["name"].strip(), **case["body"]["config"]})
    assert validate_connector(config, worker()).error_message == case["message"]


@pytest.mark.parametrize("tag", ["file connector", "no class", "null class"])
def test_a_class_that_is_not_there_gets_connects_words(tag: str) -> None:
    """The list of what is there included."""
    case = GOLDEN["posts"][tag]
    config = {"name": "x", **case["body"]["config"]}
    with pytest.raises(ConfigError) as caught:
        connector_class(config)
    assert sorted(re.split("[{}, ]+", case["message"])) == sorted(
        re.split("[{}, ]+", str(caught.value))
    )
