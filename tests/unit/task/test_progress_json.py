# SPDX-License-Identifier: Apache-2.0
"""What a task reports arrives unchanged, or is refused with the field that is wrong."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

from sparkmirror.errors import WireError
from sparkmirror.state.incidents import Incident, IncidentKind
from sparkmirror.task.messages import OtherWriter, PartitionProgress, Progress
from sparkmirror.task.progress_json import progress_from_json, progress_to_json

PROGRESS = Progress(
    split=1,
    attempt=2,
    partitions=(
        PartitionProgress("t", 0, 5, 6, 7, 8, 9, 10, "trouble", 11, 12, skipped_records=13),
    ),
    replication_latency=((3, 4), (5, 6)),
    held_bytes=1,
    oldest_unacked_seconds=2.5,
    cpu_seconds=3.5,
    notices=("gap: größe", "b"),
    error="cluster",
    other_writers=(OtherWriter("a.t", 0, 77),),
    incidents=(Incident(IncidentKind.GAP, "t", 0, 5, 9, 5, "why", 1, "continue"),),
    missing_topics=("mm2-ledger.a.internal",),
    copy_latency=((1, 10),),
)


def sent() -> Any:
    """The report as the driver hears it."""
    return json.loads(json.dumps(progress_to_json(PROGRESS)))


def test_progress_arrives_as_it_was_sent() -> None:
    """Rows of partitions, latency buckets, notices, trouble and incidents."""
    assert progress_from_json(sent()) == PROGRESS


def put(*path: Any) -> Callable[[Any], None]:
    """A change of one value, which stands last."""

    def change(report: Any) -> None:
        *way, last, value = path
        for step in way:
            report = report[step]
        report[last] = value

    return change


@pytest.mark.parametrize(
    ("change", "field"),
    [
        (put("split", "1"), "split"),
        (put("split", True), "split"),
        (put("attempt", 2**63), "attempt"),
        (put("partitions", 0, 2, "5"), "partitions"),
        (put("partitions", 0, 2, 5.0), "partitions"),
        (put("partitions", 0, 2, None), "partitions"),
        (put("partitions", 0, 11, -(2**63) - 1), "partitions"),
        (put("partitions", 0, ["t", 0]), "partitions"),
        (put("partitions", 0, "t"), "partitions"),
        (put("partitions", {}), "partitions"),
        (put("replication_latency", 0, 0, 5000), "replication_latency"),  # 2 ** 1250 ms
        (put("copy_latency", 0, 0, -1), "copy_latency"),
        (put("copy_latency", 0, [3]), "copy_latency"),
        (put("held_bytes", None), "held_bytes"),
        (put("cpu_seconds", float("nan")), "cpu_seconds"),
        (put("oldest_unacked_seconds", "0"), "oldest_unacked_seconds"),
        (put("notices", 0, {}), "notices"),
        (put("notices", "text"), "notices"),
        (put("error", []), "error"),
        (put("other_writers", 0, 2, "77"), "other_writers"),
        (put("incidents", 0, "kind", "no-such"), "incident"),
        (put("incidents", 0, "kind", []), "incident"),
        (put("incidents", 0, "more", 1), "incidents"),
        (put("incidents", 0, "records", 0.5), "incidents"),
        (put("missing_topics", [7]), "missing_topics"),
        (put("more", 1), "fields"),
        (lambda report: report.pop("missing_topics"), "fields"),
    ],
)
def test_a_value_of_another_type_is_refused(change: Callable[[Any], None], field: str) -> None:
    """It would be calculated with, shown and begun from."""
    report = sent()
    change(report)
    with pytest.raises(WireError, match=field):
        progress_from_json(report)


@pytest.mark.parametrize("report", [None, [], "text", 5])
def test_what_is_no_report_is_refused(report: object) -> None:
    """JSON can be anything."""
    with pytest.raises(WireError, match="fields"):
        progress_from_json(report)


def test_halves_of_characters_do_not_reach_the_log() -> None:
    """They cannot be written in UTF-8; whole ones can."""
    report = sent()
    report["error"] = report["partitions"][0][8] = report["notices"][1] = "a\ud800b"
    found = progress_from_json(report)

    assert {found.error, found.partitions[0].error, found.notices[1]} == {"a?b"}
    assert found.notices[0] == "gap: größe"
