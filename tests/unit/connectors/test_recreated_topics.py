# SPDX-License-Identifier: Apache-2.0
"""Recreated topics are detected by their ids and handled by policy."""

from __future__ import annotations

import pytest

from sparkmirror.config.settings import IncidentPolicies
from sparkmirror.connectors.recreated_topics import find_recreated
from sparkmirror.connectors.source_topics import MirroredPartition
from sparkmirror.formats.source_offsets import StoredPosition
from sparkmirror.model import TopicPartition
from sparkmirror.state.incidents import IncidentKind

TP = TopicPartition("t", 0)
MIRRORED = [MirroredPartition(TP, "a.t", "source-now", "target-now")]


def stored(source: str | None, target: str | None) -> dict[TopicPartition, StoredPosition]:
    """A position that was stored with these topic ids."""
    return {TP: StoredPosition(41, 7, None, -1, source, target)}


@pytest.mark.parametrize(
    "known",
    [
        stored("source-now", "target-now"),
        stored(None, None),  # Java wrote it, or the broker is older than topic ids
        {},
    ],
)
def test_the_same_topics_are_no_news(known: dict[TopicPartition, StoredPosition]) -> None:
    """Nor is a position without topic ids."""
    assert find_recreated(MIRRORED, known, IncidentPolicies(source_recreated="restart")) == []


def test_another_target_is_reported_with_its_policy() -> None:
    """The incident has the next offset."""
    (found,) = find_recreated(
        MIRRORED, stored("source-now", "old"), IncidentPolicies(target_recreated="stop")
    )
    assert (found.kind, found.policy) == (IncidentKind.TARGET_RECREATED, "stop")
    incident = found.incident("b", 5)
    assert (incident.first_offset, incident.last_offset) == (42, 42)
    assert "b: a.t" in incident.cause


def test_another_source_is_the_tasks_business_unless_it_restarts() -> None:
    """Under stop the task detects it, also while it runs."""
    known = stored("old", "target-now")
    assert find_recreated(MIRRORED, known, IncidentPolicies()) == []
    (found,) = find_recreated(MIRRORED, known, IncidentPolicies(source_recreated="restart"))
    assert (found.kind, found.policy) == (IncidentKind.SOURCE_RECREATED, "restart")


def test_a_stopped_source_keeps_the_targets_news_for_later() -> None:
    """Both were recreated: nothing is written until the source is handled."""
    assert find_recreated(MIRRORED, stored("old", "old"), IncidentPolicies()) == []
