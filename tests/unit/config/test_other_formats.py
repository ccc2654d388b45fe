# SPDX-License-Identifier: Apache-2.0
"""JSON and YAML where a properties file is expected."""

from __future__ import annotations

from pathlib import Path

import pytest
from typer.testing import CliRunner

from sparkmirror.cli.main import app
from sparkmirror.config.files.other_formats import describe_other_format

CONNECTOR = '{"name": "m", "config": {"connector.class": "x.MirrorSourceConnector"}}'
REMEDY = "write its clusters and mirrors as lines of a properties file"
STRIMZI = "apiVersion: kafka.strimzi.io/v1beta2\nkind: KafkaMirrorMaker2\nspec: {}\n"


@pytest.mark.parametrize(
    ("text", "description"),
    [
        (CONNECTOR, "JSON: the configuration of a connector; use sparkmirror deploy -f for it"),
        (
            '\n {"connector.class": "x"}',
            "JSON: the configuration of a connector; use sparkmirror deploy -f for it",
        ),
        (
            '{"version": 1, "flows": [], "bytesPerSecond": 1}',
            "JSON: a plan; use sparkmirror apply for it",
        ),
        ("[1, 2]", "JSON"),
        ('{"a": ', "JSON with an error in it"),
        ("[" * 100_000, "JSON with an error in it"),
        ("---\nclusters: a\n", "YAML"),
        (
            STRIMZI,
            f"YAML: a KafkaMirrorMaker2 resource of Strimzi; {REMEDY}",
        ),
        ("apiVersion: v1\nkind: ConfigMap\n", "YAML: a ConfigMap resource of Kubernetes"),
        ("", ""),
        ("clusters = a, b\na.topics = {x}\n", ""),
        ("clusters: a, b\n# kind: x\n", ""),
        ("-----BEGIN: x\n", ""),
    ],
)
def test_another_format_is_named(text: str, description: str) -> None:
    assert describe_other_format(text) == description


@pytest.mark.parametrize("name", ["m.json", "mm2.properties"])
def test_check_says_what_a_file_is(tmp_path: Path, name: str) -> None:
    """Whatever its name is."""
    file = tmp_path / name
    file.write_text(CONNECTOR)
    done = CliRunner().invoke(app, ["check", str(file)])
    assert done.exit_code == 1
    text = " ".join(done.output.split())
    assert f"{name} is not a properties file (lines such as clusters = a, b)." in text
    assert "It is JSON: the configuration of a connector; use sparkmirror deploy -f for it." in text
