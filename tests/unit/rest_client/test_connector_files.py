# SPDX-License-Identifier: Apache-2.0
"""Connectors in files, in both shapes."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from sparkmirror.errors import ConfigError
from sparkmirror.rest_client import connector_files
from sparkmirror.rest_client.connector_files import (
    ConnectorFile,
    load_connector_files,
    parse_connector_file,
)

CLASS = "MirrorSourceConnector"


def test_both_shapes_mean_the_same() -> None:
    """Name and config apart, or all in one object."""
    nested = parse_connector_file(
        '{"name": "m", "config": {"connector.class": "C", "topics": "t"}}', "f"
    )
    flat = parse_connector_file('{"name": "m", "connector.class": "C", "topics": "t"}', "f")
    wanted = {"name": "m", "connector.class": "C", "topics": "t"}
    assert nested == flat == ConnectorFile("f", "m", wanted)


def test_values_become_the_texts_that_connect_makes_of_them() -> None:
    """Booleans in small letters, numbers to the digit, null as it is."""
    text = (
        '{"name": "m", "connector.class": "C", "a": false, "b": 1.50, "c": 1e3, "d": null, "e": 07}'
    )
    with pytest.raises(ConfigError, match="not valid JSON"):
        parse_connector_file(text, "f")
    config = parse_connector_file(text.replace("07", "7"), "f").config
    assert {key: config[key] for key in "abcde"} == {
        "a": "false", "b": "1.50", "c": "1e3", "d": None, "e": "7",
    }  # fmt: skip


def test_a_name_inside_the_config_is_enough_and_is_trimmed() -> None:
    """As Connect takes it."""
    one = parse_connector_file('{"config": {"name": " m ", "connector.class": "C"}}', "f")
    assert (one.name, one.config["name"]) == ("m", "m")


@pytest.mark.parametrize(("written", "wanted"), [("paused", "PAUSED"), ("STOPPED", "STOPPED")])
def test_an_initial_state_is_taken_in_any_case(written: str, wanted: str) -> None:
    """Beside the config."""
    text = json.dumps({"name": "m", "config": {"connector.class": "C"}, "initial_state": written})
    assert parse_connector_file(text, "f").initial_state == wanted


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "f.json is not valid JSON"),
        ("{", "f.json is not valid JSON"),
        ("[" * 100_000, "f.json is not valid JSON"),
        ("[]", "is not a connector"),
        ("1", "is not a connector"),
        ('{"connector.class": "C"}', "has no connector name"),
        ('{"name": "", "connector.class": "C"}', "has no connector name"),
        ('{"name": ["m"], "config": {"connector.class": "C"}}', "has no connector name"),
        ('{"name": "m", "config": {}}', "'m' has no 'connector.class'"),
        ('{"name": "m", "connector.class": null}', "'m' has no 'connector.class'"),
        ('{"name": "m", "config": {"name": "n", "connector.class": "C"}}', "two names: 'm'"),
        ('{"name": "m", "topics": "t", "config": {"connector.class": "C"}}', "'topics' outside of"),
        ('{"name": "m", "connector.class": "C", "topics": ["t"]}', "'topics' is an object"),
        ('{"name": "m", "connector.class": "C", "x": 1, "x": 2}', "duplicate key 'x'"),
        (
            '{"name": "m", "config": {"connector.class": "C"}, "initial_state": "ASLEEP"}',
            "not 'ASLEEP'",
        ),
    ],
)  # fmt: skip
def test_what_is_wrong_is_named(text: str, words: str) -> None:
    """The file, and what it lacks."""
    with pytest.raises(ConfigError) as caught:
        parse_connector_file(text, "f.json")
    assert words in str(caught.value)


def write(path: Path, name: str) -> Path:
    """A small good file."""
    path.write_text(json.dumps({"name": name, "connector.class": CLASS}), encoding="utf-8")
    return path


def test_a_folder_gives_its_json_files_in_order(tmp_path: Path) -> None:
    """Nothing else in it is read."""
    write(tmp_path / "b.json", "b")
    write(tmp_path / "a.json", "a")
    (tmp_path / "notes.txt").write_text("no connector")
    (tmp_path / "deeper").mkdir()
    write(tmp_path / "deeper" / "c.json", "c")
    assert [one.name for one in load_connector_files([tmp_path])] == ["a", "b"]


def test_everything_that_is_wrong_is_reported_at_once(tmp_path: Path) -> None:
    """So that nobody mends one file at a time."""
    (tmp_path / "empty").mkdir()
    (tmp_path / "latin.json").write_bytes(b'{"name": "\xfc"}')
    first, second = write(tmp_path / "1.json", "m"), write(tmp_path / "2.json", "m")
    paths = [
        tmp_path / "empty", tmp_path / "missing.json", tmp_path / "latin.json", first, second,
    ]  # fmt: skip
    with pytest.raises(ConfigError) as caught:
        load_connector_files(paths)
    assert str(caught.value).splitlines() == [
        f"Folder {tmp_path}/empty has no .json file.",
        f"{tmp_path}/missing.json cannot be read: No such file or directory.",
        f"{tmp_path}/latin.json is not encoded in UTF-8.",
        f"Connector 'm' is in {first} and in {second}: remove one of them.",
    ]


def test_a_byte_order_mark_is_no_part_of_the_text(tmp_path: Path) -> None:
    """Editors of another system write one."""
    path = write(tmp_path / "m.json", "m")
    path.write_bytes(b"\xef\xbb\xbf" + path.read_bytes())
    assert [one.name for one in load_connector_files([path])] == ["m"]


def test_a_huge_file_is_not_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A dump of a database that somebody put into the folder."""
    monkeypatch.setattr(connector_files, "MAX_BYTES", 10)
    with pytest.raises(ConfigError, match="larger than 10 bytes"):
        load_connector_files([write(tmp_path / "m.json", "m")])
