# SPDX-License-Identifier: Apache-2.0
"""Start positions for a forecast, without storing anything."""

from dataclasses import replace

import pytest

from sparkmirror.config.mirror_config import MirrorConfig
from sparkmirror.connectors.backlog import BacklogStarts, starting_positions
from sparkmirror.connectors.source_topics import MirroredPartition
from sparkmirror.formats.source_offsets import StoredPosition
from sparkmirror.model import Flow, ProducerState, TopicPartition

FILE = """
clusters = a, b
a.bootstrap.servers = 127.0.0.1:1
b.bootstrap.servers = 127.0.0.1:2
a->b.enabled = true
"""
TP = TopicPartition("orders", 0)
HERE = MirroredPartition(TP, "a.orders", "source-1", "target-1")
STORED = StoredPosition(41, 41, source_topic="source-1", target_topic="target-1")


def starts(
    *lines: str,
    stored: StoredPosition | None = None,
    in_group: int | None = None,
    here: MirroredPartition = HERE,
) -> BacklogStarts:
    """The start of one partition with the offsets 10 to 99."""
    settings = MirrorConfig.parse("\n".join([FILE, *lines])).flow_settings(Flow("a", "b"))
    return starting_positions(
        [here],
        {TP: stored} if stored is not None else {},
        {TP: 10},
        {TP: 100},
        settings,
        in_group={TP: in_group} if in_group is not None else {},
    )


@pytest.mark.parametrize(
    ("line", "position"),
    [("", 10), ("a.consumer.auto.offset.reset = latest", 100)],
)
def test_what_was_never_copied_begins_as_the_file_says(line: str, position: int) -> None:
    """At the first offset, or at the end if configured."""
    assert starts(line).positions == {TP: position}


def test_without_a_reset_it_waits() -> None:
    """The reason is reported."""
    found = starts("a.consumer.auto.offset.reset = none")
    assert found.positions == {}
    assert [tps for reason, tps in found.waiting.items() if "auto.offset.reset" in reason] == [[TP]]


def test_a_group_shows_where_new_partitions_begin() -> None:
    """A stored position has precedence."""
    assert starts(in_group=55).positions == {TP: 55}
    assert starts(in_group=55, stored=STORED).positions == {TP: 42}


def test_partitions_that_were_added_begin_at_their_beginning() -> None:
    """Also in a flow with auto.offset.reset=latest: producers find them first."""
    added = MirroredPartition(TopicPartition("orders", 3), "a.orders", "source-1", "target-1")
    lines = FILE + "a.consumer.auto.offset.reset = latest"
    settings = MirrorConfig.parse(lines).flow_settings(Flow("a", "b"))
    first, end = {added.source: 10}, {added.source: 100}
    for known, position in ((replace(STORED, producer=ProducerState(7, 0, 5)), 10), (STORED, 100)):
        found = starting_positions([added], {TP: known}, first, end, settings, in_group={})
        assert found.positions == {added.source: position}


@pytest.mark.parametrize(
    ("here", "line", "position"),
    [
        (HERE, "", 42),
        (MirroredPartition(TP, "a.orders", "source-2", "target-1"), "", None),
        (
            MirroredPartition(TP, "a.orders", "source-2", "target-1"),
            "source.recreated.policy = restart",
            10,
        ),
        (MirroredPartition(TP, "a.orders", "source-1", "target-2"), "", 42),
        (
            MirroredPartition(TP, "a.orders", "source-1", "target-2"),
            "target.recreated.policy = restart",
            10,
        ),
        (
            MirroredPartition(TP, "a.orders", "source-1", "target-2"),
            "target.recreated.policy = stop",
            None,
        ),
    ],
)
def test_recreated_topics_follow_their_policies(
    here: MirroredPartition, line: str, position: int | None
) -> None:
    """As in the running flow."""
    found = starts(line, stored=STORED, here=here)
    assert found.positions == ({} if position is None else {TP: position})
    assert bool(found.waiting) is (position is None)
