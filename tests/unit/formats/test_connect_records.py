# SPDX-License-Identifier: Apache-2.0
"""Records of Connect's config and status topics: written as Java does, read from any origin."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from sparkmirror.errors import WireError
from sparkmirror.formats.connect_config_records import (
    ConfigRecord,
    ConnectorConfig,
    ConnectorTargetState,
    LoggerLevel,
    RestartRequest,
    SessionKey,
    TargetState,
    TaskConfig,
    TasksCommit,
    TasksFencing,
    read_config_record,
)
from sparkmirror.formats.connect_fields import UnreadableRecord
from sparkmirror.formats.connect_status_records import (
    ConnectorStatus,
    RunState,
    Status,
    StatusRecord,
    TaskStatus,
    TopicSeen,
    TopicStatus,
    read_status_record,
)

NAMES = st.text(st.characters(exclude_categories=["Cs"]), min_size=1) | st.sampled_from(
    ["a-1", "-", "1", "c-", "-c", "task-c-0", "connector-x", 'odd / "name" \\ \x1f']
)
TEXTS = st.text(st.characters(exclude_categories=["Cs"]))
CONFIGS = st.dictionaries(TEXTS, st.none() | TEXTS)
INTS = st.integers(0, 2**31 - 1)
LONGS = st.integers(0, 2**63 - 1)
CONFIG_RECORDS = st.one_of(
    st.builds(ConnectorConfig, NAMES, st.none() | CONFIGS),
    st.builds(TaskConfig, NAMES, INTS, CONFIGS),
    st.builds(TasksCommit, NAMES, INTS),
    st.builds(ConnectorTargetState, NAMES, st.none() | st.sampled_from(TargetState)),
    st.builds(RestartRequest, NAMES, st.booleans(), st.booleans()),
    st.builds(TasksFencing, NAMES, INTS),
    st.builds(SessionKey, st.binary(), TEXTS, LONGS),
    st.builds(LoggerLevel, NAMES, TEXTS),
)
STATUSES = st.builds(
    Status,
    st.sampled_from(RunState),
    TEXTS,
    st.integers(-1, 2**31 - 1),
    st.none() | TEXTS,
    st.none() | TEXTS,
    st.just("") | TEXTS,
)
STATUS_RECORDS = st.one_of(
    st.builds(ConnectorStatus, NAMES, st.none() | STATUSES),
    st.builds(TaskStatus, NAMES, INTS, st.none() | STATUSES),
    st.builds(
        TopicStatus,
        NAMES,
        st.from_regex(r"[a-zA-Z0-9._-]{1,20}", fullmatch=True),
        st.none() | st.builds(TopicSeen, INTS, LONGS),
    ),
)
KEYS = (
    "connector-c", "task-c-0", "commit-c", "target-state-c", "restart-connector-c",
    "tasks-fencing-c", "session-key", "logger-cluster-l",
    "status-connector-c", "status-task-c-0", "status-topic-t:connector-c",
)  # fmt: skip


@given(CONFIG_RECORDS)
def test_config_records_come_back_as_they_were_written(record: ConfigRecord) -> None:
    """For any names: dashes, digits, other prefixes."""
    assert read_config_record(record.key(), record.value()) == record


@given(STATUS_RECORDS)
def test_status_records_come_back_as_they_were_written(record: StatusRecord) -> None:
    assert read_status_record(record.key(), record.value()) == record


@given(STATUSES)
def test_a_warning_only_adds_a_last_field(status: Status) -> None:
    """Without one the bytes are Connect's; with one Java finds its own fields as they were."""
    plain = json.loads(replace(status, warning="").value())
    assert list(plain) == ["state", "trace", "worker_id", "generation", "version"]
    if status.warning:
        warned = json.loads(status.value())
        assert warned.popitem() == ("warning", status.warning)
        assert list(warned.items()) == list(plain.items())


@pytest.mark.parametrize(
    ("record", "key", "value"),
    [
        (ConnectorConfig("c", {"name": "c", "n": None}), "connector-c",
         '{"properties":{"name":"c","n":null}}'),
        (TaskConfig("a-b", 11, {"x": "1"}), "task-a-b-11", '{"properties":{"x":"1"}}'),
        (TasksCommit("c", 3), "commit-c", '{"tasks":3}'),
        (ConnectorTargetState("c", TargetState.STARTED), "target-state-c",
         '{"state":"STARTED","state.v2":"STARTED"}'),
        (ConnectorTargetState("c", TargetState.STOPPED), "target-state-c",
         '{"state":"PAUSED","state.v2":"STOPPED"}'),
        (RestartRequest("c", include_tasks=True), "restart-connector-c",
         '{"include-tasks":true,"only-failed":false}'),
        (TasksFencing("c", 4), "tasks-fencing-c", '{"task-count":4}'),
        (SessionKey(b"\x00\xff", "HmacSHA256", 17), "session-key",
         '{"key":"AP8=","algorithm":"HmacSHA256","creation-timestamp":17}'),
        (LoggerLevel("org.x", "DEBUG"), "logger-cluster-org.x", '{"level":"DEBUG"}'),
        (ConnectorStatus("c", Status(RunState.RUNNING, "h:8083", 3, None, "4.4.0")),
         "status-connector-c",
         '{"state":"RUNNING","trace":null,"worker_id":"h:8083","generation":3,"version":"4.4.0"}'),
        (TaskStatus("c", 0, Status(RunState.RUNNING, "h", 3, None, "4.4.0", "silent")),
         "status-task-c-0",
         ('{"state":"RUNNING","trace":null,"worker_id":"h","generation":3,"version":"4.4.0",'
          '"warning":"silent"}')),
        (TopicStatus("c", "t", TopicSeen(0, 1700000000000)), "status-topic-t:connector-c",
         '{"topic":{"name":"t","connector":"c","task":0,"discoverTimestamp":1700000000000}}'),
    ],
    ids=lambda value: value if isinstance(value, str) and "{" not in value else "",
)  # fmt: skip
def test_records_have_the_bytes_of_the_specification(
    record: ConfigRecord | StatusRecord, key: str, value: str
) -> None:
    """Keys plain, values without white space, fields in Java's order."""
    assert (record.key(), record.value()) == (key.encode(), value.encode())


@pytest.mark.parametrize(
    ("key", "value", "meaning"),
    [
        ("target-state-c", '{"state":"PAUSED"}', ConnectorTargetState("c", TargetState.PAUSED)),
        ("target-state-c", '{"state":"PAUSED","state.v2":7}',
         ConnectorTargetState("c", TargetState.PAUSED)),
        ("target-state-c", '{"state.v2":"STOPPED","state.v3":{}}',
         ConnectorTargetState("c", TargetState.STOPPED)),
        ("restart-connector-c", "{}", RestartRequest("c")),
        ("restart-connector-c", '{"only-failed":true,"include-tasks":"yes","new":1}',
         RestartRequest("c", only_failed=True)),
        ("connector-c", "null", ConnectorConfig("c", None)),
        ("connector-c", '{"properties":{"n":1,"b":true,"half":"\\ud800"}}',
         ConnectorConfig("c", {"n": "1", "b": "true", "half": "?"})),
    ],
)  # fmt: skip
def test_config_records_of_other_versions_are_understood(
    key: str, value: str, meaning: ConfigRecord
) -> None:
    """Missing fields have defaults, unknown ones are ignored."""
    assert read_config_record(key.encode(), value.encode()) == meaning


@pytest.mark.parametrize(
    ("value", "status"),
    [
        ('{"state":"RUNNING","trace":null,"worker_id":"h:1","generation":3}',
         Status(RunState.RUNNING, "h:1", 3)),
        ('{"state":"FAILED"}', Status(RunState.FAILED, "", -1)),
        ('{"state":"RUNNING","warning":["odd"]}', Status(RunState.RUNNING, "", -1)),
        ('{"state":"PAUSED","worker_id":1,"generation":true,"more":[]}',
         Status(RunState.PAUSED, "", -1)),
    ],
)  # fmt: skip
def test_statuses_of_other_versions_are_understood(value: str, status: Status) -> None:
    """Those before 4.2 have no version; without a generation any worker may overwrite it."""
    found = read_status_record(b"status-task-a-b-0", value.encode())
    assert found == TaskStatus("a-b", 0, status)


@given(
    st.sampled_from(KEYS) | st.none() | TEXTS,
    st.binary() | TEXTS.map(str.encode) | st.sampled_from([b"{}", b"[]", b"1", b'"x"', b"NaN"]),
)
@example("connector-c", b"[" * 1_000_000)
@example("commit-c", b'{"tasks":' + b"9" * 10_000 + b"}")
@example("commit-c", b'{"tasks":-1}')
@example("commit-c", b'{"tasks":true}')
@example("commit-c", b'{"tasks":1.0}')
@example("session-key", b'{"key":"no base64!","algorithm":"x","creation-timestamp":1}')
@example("session-key-2", b"{}")
@example("restart-connector-c", b"{}")
@example("task-c-" + "9" * 5_000, b'{"properties":{}}')
@example("task-c-4294967296", b'{"properties":{}}')
@example("task-0", b'{"properties":{}}')
@example("target-state-c", b'{"state.v2":"ASLEEP"}')
@example("status-connector-c", b'{"state":"ASLEEP"}')
@example("status-topic-t", b"{}")
@example("status-topic-t:connector-c", b'{"topic":[]}')
@example("connector-c", b'{"properties":{"x":["\\ud800"]}}')
def test_foreign_bytes_never_raise(key: str | None, value: bytes) -> None:
    """Whatever is in the topic, a worker must start."""
    raw = None if key is None else key.encode()
    # A request to restart may say nothing more, as with Java.
    assert isinstance(read_config_record(raw, value), (UnreadableRecord, RestartRequest))
    assert isinstance(read_status_record(raw, value), UnreadableRecord)


def test_bytes_that_are_no_text_are_read_as_java_reads_them() -> None:
    """A Java worker and this one see the same connectors."""
    found = read_config_record(b"connector-\xff", b'{"properties":{}}')
    assert found == ConnectorConfig("\ufffd", {})
    assert ConnectorConfig("half \ud800", None).key() == b"connector-half ?"


def test_whether_it_was_json_is_reported() -> None:
    """Java does not count records that are not JSON."""
    assert read_config_record(b"connector-c", b"{") == UnreadableRecord(
        "the record with key 'connector-c' is not JSON: Expecting property name enclosed in "
        "double quotes: line 1 column 2 (char 1).",
        is_json=False,
    )
    empty = read_config_record(b"connector-c", b"{}")
    assert isinstance(empty, UnreadableRecord)
    assert empty.is_json


def test_secrets_are_not_printed() -> None:
    """A record may end up in a log line."""
    records = (
        ConnectorConfig("c", {"password": "hush"}),
        TaskConfig("c", 0, {"password": "hush"}),
        SessionKey(b"hush", "HmacSHA256", 1),
    )
    assert "hush" not in repr(records)


def test_half_a_character_in_a_value_is_refused_by_our_error() -> None:
    """Java cannot write it either."""
    with pytest.raises(WireError, match="lone surrogate"):
        ConnectorConfig("c", {"x": "\ud800"}).value()
