# SPDX-License-Identifier: Apache-2.0
"""Plan files: what is written is what is read, and nothing else is taken for a plan."""

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sparkmirror.errors import PlanError
from sparkmirror.kafka.acls import AclBinding, Operation, PatternType, Permission, ResourceType
from sparkmirror.model import Flow
from sparkmirror.topology.acls import RevokeAcl
from sparkmirror.topology.configs import AlterTopic
from sparkmirror.topology.flow_plan import FlowPlan, MoveGroup, sorted_actions
from sparkmirror.topology.forecast import Forecast, TopicForecast
from sparkmirror.topology.internal_topics import CreateInternalTopic, Side
from sparkmirror.topology.plan_file import PlanDocument, dump, parse, read, write
from sparkmirror.topology.topic_deletions import DeleteTopic
from sparkmirror.topology.topics import CreateTopic, GrowTopic
from support.data.plan_strategies import documents

ACL = AclBinding(
    ResourceType.TOPIC,
    "a.orders",
    PatternType.LITERAL,
    "User:app",
    "*",
    Operation.READ,
    Permission.ALLOW,
)
ACTIONS = sorted_actions(
    [
        CreateInternalTopic(Side.SOURCE, "syncs", 1, 3, {"cleanup.policy": "compact"}),
        CreateTopic("orders", "a.orders", 6, 3, {"retention.ms": "1"}),
        GrowTopic("clicks", "a.clicks", 1, 4),
        AlterTopic("views", "a.views", {"retention.ms": None}, {"retention.ms": "5"}),
        MoveGroup("billing", "a.orders", 0, 10, 17),
        RevokeAcl(ACL),
        DeleteTopic("gone", "a.gone", "id"),
    ]
)
PLAN = FlowPlan(
    Flow("a", "b"),
    "digest",
    "id-a",
    None,
    ACTIONS,
    ("a remark",),
    Forecast(10, 1000, (TopicForecast("orders", 10, 1000),)),
)
DOCUMENT = PlanDocument("/etc/mm2.properties", "2030-01-01T00:00:00+00:00", 50e6, (PLAN,))


def damaged(*path: str | int, value: object) -> str:
    """The document with one value replaced, or removed if it is None."""
    text: Any = json.loads(dump(DOCUMENT))
    inner = text
    for step in path[:-1]:
        inner = inner[step]
    if value is None:
        del inner[path[-1]]
    else:
        inner[path[-1]] = value
    return json.dumps(text)


@given(documents)
def test_what_is_written_is_what_is_read(document: PlanDocument) -> None:
    """Whatever names and values there are."""
    assert parse(dump(document)) == document


@given(documents)
def test_the_same_plan_is_the_same_text(document: PlanDocument) -> None:
    """Two plans can be compared with any tool."""
    assert dump(parse(dump(document))) == dump(document)


@given(st.text())
def test_any_text_is_a_plan_or_refused_as_one(text: str) -> None:
    """No other error comes out."""
    with pytest.raises(PlanError):
        parse(text)


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        (damaged("version", value=2), "its version is 2"),
        (damaged("version", value=True), "version is not a whole number"),
        (damaged("version", value=None), "version is missing"),
        (damaged("file", value=""), "file is empty"),
        (damaged("file", value=5), "file is not a string"),
        (damaged("file", value="\ud800"), "file is not text"),
        (damaged("extra", value=1), "'extra' is an unknown field"),
        (damaged("flows", value={}), "flows is not a list"),
        (damaged("flows", 0, "flow", value="a->b"), "flow is not a JSON object"),
        (damaged("flows", 0, "actions", 0, "do", value="burn"), "do is 'burn'"),
        (damaged("flows", 0, "actions", 0, "side", value="left"), "not one of source, target"),
        (damaged("flows", 0, "actions", 0, "needsConfigs", value=1), "neither true nor false"),
        (damaged("flows", 0, "actions", 1, "partitions", value=0), "partitions is out of range"),
        (damaged("flows", 0, "actions", 1, "partitions", value=1.5), "not a whole number"),
        (damaged("flows", 0, "actions", 1, "configs", "k", value=5), "k is not a string"),
        (damaged("flows", 0, "actions", 2, "after", value=1), "after is out of range"),
        (damaged("flows", 0, "actions", 3, "after", value={}), "the same configs as before"),
        (damaged("flows", 0, "actions", 4, "after", value=2**63), "after is out of range"),
        (damaged("flows", 0, "actions", 4, "after", value=9), "after is out of range"),
        (damaged("flows", 0, "actions", 4, "more", value=1), "'more' is an unknown field"),
        (damaged("flows", 0, "actions", 5, "operation", value="BURN"), "the ACL is invalid"),
        (damaged("flows", 0, "actions", 5, "host", value=None), "the ACL is invalid"),
        (damaged("flows", 0, "actions", 5, "until", value="now"), "the ACL has unknown fields"),
        (damaged("flows", 0, "actions", 6, "topicId", value=None), "topicId is missing"),
        (damaged("flows", 0, "forecast", "bytes", value="many"), "bytes is not a whole number"),
        (damaged("bytesPerSecond", value=float("inf")), "bytesPerSecond is out of range"),
        ("[" * 100_000, "damaged"),
        ("[]", "not a JSON object"),
    ],
)
def test_a_corrupt_plan_is_refused_with_the_place(text: str, sentence: str) -> None:
    """A person may have edited it."""
    with pytest.raises(PlanError, match=sentence):
        parse(text)


def test_two_plans_for_one_flow_are_refused() -> None:
    """Nobody could say which one holds."""
    flows = json.loads(dump(DOCUMENT))["flows"]
    with pytest.raises(PlanError, match="same flow"):
        parse(damaged("flows", value=[*flows, *flows]))


def test_two_actions_for_one_thing_are_refused() -> None:
    """Only one of them can be right."""
    actions = json.loads(dump(DOCUMENT))["flows"][0]["actions"]
    with pytest.raises(PlanError, match="same subject"):
        parse(damaged("flows", 0, "actions", value=[*actions, actions[2]]))


def test_a_file_is_written_whole_and_read_back(tmp_path: Path) -> None:
    """Also over an older one, in a folder that is not there yet, and without leftovers."""
    path = tmp_path / "new" / "plan.json"
    for _ in range(2):
        write(DOCUMENT, path)
        assert read(path) == DOCUMENT
    assert [one.name for one in path.parent.iterdir()] == ["plan.json"]


def test_a_place_that_cannot_be_written_is_an_error_message(tmp_path: Path) -> None:
    """And what was there stays."""
    (tmp_path / "plan.json").mkdir()
    with pytest.raises(PlanError, match="Cannot write the plan"):
        write(DOCUMENT, tmp_path / "plan.json")
    assert [one.name for one in tmp_path.iterdir()] == ["plan.json"]


def test_a_file_that_is_not_there_or_not_text_is_an_error_message(tmp_path: Path) -> None:
    """As is every other."""
    with pytest.raises(PlanError, match="Cannot read the plan"):
        read(tmp_path / "absent.json")
    (tmp_path / "bytes.json").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(PlanError, match="is not a valid plan"):
        read(tmp_path / "bytes.json")
