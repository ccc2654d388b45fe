# SPDX-License-Identifier: Apache-2.0
"""Reasons in the output of Kafka's programs, and the JVM's command line."""

from __future__ import annotations

from pathlib import Path

import pytest

from sparkmirror.devcluster.jvm import KafkaClassArchive, KafkaJvm, extract_failure_reason

_TRACE = """\
Error while executing topic command : Topic 'x' is odd
2026-01-01T00:00:00,000 ERROR o.a.k.TopicCommand: org.apache.kafka.OddException: Topic 'x' is odd
\tat a.b(C)
"""


@pytest.mark.parametrize(
    ("output", "expected"),
    [
        (_TRACE, "Topic 'x' is odd"),
        ("Some words\nError: no such file\n", "Error: no such file"),
        ("It only said this\n", "It only said this"),
        ("", "no reason was printed"),
    ],
)
def test_the_reason_is_found_between_stack_traces(output: str, expected: str) -> None:
    """One line without time, logger or Java class."""
    assert expected == extract_failure_reason("", output)


def jvm(tmp_path: Path, version: str) -> KafkaJvm:
    """A JVM that is not started."""
    return KafkaJvm(
        java=Path("/java"),
        jars=(tmp_path / "a.jar", tmp_path / "b.jar"),
        version=version,
        options=("-Xmx1m",),
        archive=KafkaClassArchive(tmp_path / "classes.jsa"),
    )


@pytest.mark.parametrize(
    ("version", "expected"),
    [("4.3.1", "-Dlog4j2.configurationFile="), ("3.9.2", "-Dlog4j.configuration=")],
)
def test_logging_is_named_as_the_version_wants_it(
    tmp_path: Path, version: str, expected: str
) -> None:
    """Kafka 4 logs by log4j2, Kafka 3 by its predecessor."""
    command = jvm(tmp_path, version).command("Main", "one", logging=tmp_path / "logging")
    assert [f"{expected}file://{tmp_path}/logging"] == [o for o in command if "-Dlog4j" in o]
    assert command[-4:] == ["-cp", f"{tmp_path}/a.jar:{tmp_path}/b.jar", "Main", "one"]


def test_archive_is_used_only_when_it_is_there(tmp_path: Path) -> None:
    """A missing archive is recorded on request, an existing one is used."""
    kafka = jvm(tmp_path, "4.3.1")
    assert kafka.archive.is_missing
    assert kafka.archive.use_options() == ()
    scratch = tmp_path / "scratch"
    scratch.write_text("classes")
    kafka.archive.publish(scratch)
    assert not scratch.exists()
    assert not kafka.archive.is_missing
    assert f"-XX:SharedArchiveFile={tmp_path}/classes.jsa" in kafka.archive.use_options()
