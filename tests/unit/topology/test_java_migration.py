# SPDX-License-Identifier: Apache-2.0
"""What changes for a user of Java MirrorMaker 2 with exactly this file."""

from __future__ import annotations

from sparkmirror.config.keys.table import differing_defaults
from sparkmirror.config.mirror_config import MirrorConfig
from sparkmirror.model import Flow
from sparkmirror.topology.java_migration import plan_java_migration, steps_back, steps_to_move

FILE = """
clusters = primary, backup
primary.bootstrap.servers = p:9092
backup.bootstrap.servers = b:9092
primary->backup.enabled = true
primary->backup.topics = orders
backup->primary.emit.heartbeats.enabled = false
"""
FLOW = Flow("primary", "backup")
ALL_ON = "sync.group.offsets.enabled = true\n"
# Keys of a Connect worker's file only.
OF_WORKERS = {"scheduled.rebalance.max.delay.ms"}


def migration(extra: str = "") -> dict[str, tuple[str, ...]]:
    """The lines to add, by key."""
    found = plan_java_migration(MirrorConfig.parse(FILE + extra))
    lines: dict[str, tuple[str, ...]] = {}
    for one in found.defaults:
        lines[one.key] = (*lines.get(one.key, ()), *one.lines)
    return lines


def test_every_differing_default_is_listed_while_the_file_sets_none() -> None:
    """The syncs factor too, and the interval of group sync because it is enabled."""
    expected = {key.name for key in differing_defaults()} - OF_WORKERS
    assert set(migration(ALL_ON)) == expected


def test_the_lines_that_keep_the_values_of_mm2_are_valid_and_leave_no_difference() -> None:
    lines = [line for some in migration(ALL_ON).values() for line in some]
    kept = MirrorConfig.parse(FILE + ALL_ON + "\n".join(lines))
    kept.validate()
    assert plan_java_migration(kept).defaults == ()


def test_a_key_of_the_file_is_no_difference() -> None:
    assert "refresh.topics.interval.seconds" in migration()
    assert "refresh.topics.interval.seconds" not in migration("refresh.topics.interval.seconds=7")


def test_a_default_of_a_disabled_feature_has_no_effect() -> None:
    """Group sync is off by default; ACL sync is switched off."""
    assert "sync.group.offsets.interval.seconds" not in migration()
    assert "sync.topic.acls.interval.seconds" not in migration("sync.topic.acls.enabled=false")


def test_a_profile_is_not_a_default() -> None:
    """Its values are neither MM2's nor ours to keep."""
    assert "max.request.size" not in migration("primary->backup.profile = event-hubs")


def test_lines_without_effect_are_listed_with_their_number() -> None:
    found = plan_java_migration(
        MirrorConfig.parse(FILE + "primary.consumer.max.poll.records = 5\ntasks.mx = 3\n")
    )
    (ignored,) = found.without_effect
    assert (ignored.line, ignored.key) == (8, "primary.consumer.max.poll.records")
    assert [one.key for one in found.to_resolve] == ["tasks.mx"]


def test_a_flow_names_what_it_shares_with_java() -> None:
    (flow,) = plan_java_migration(MirrorConfig.parse(FILE)).flows
    assert (flow.flow, flow.group, flow.positions) == (
        FLOW,
        "primary-mm2",
        "mm2-offsets.primary.internal",
    )
    assert "mm2-offset-syncs.backup.internal on primary" in flow.shared_topics
    assert "mm2-offset-map.primary.internal on backup" in flow.new_topics
    assert not flow.syncs_groups


def test_java_is_stopped_before_sparkmirror_starts() -> None:
    """And the other way round on the way back."""
    found = plan_java_migration(MirrorConfig.parse(FILE))
    move = [sentence.split()[0] for sentence, _ in steps_to_move("f", found.flows)]
    assert move.index("Stop") < move.index("Start")
    assert [sentence.split()[0] for sentence, _ in steps_back("f")] == ["Stop", "Start"]


def test_a_file_with_errors_says_what_to_resolve() -> None:
    found = plan_java_migration(MirrorConfig.parse(FILE + "tasks.max = many\n"))
    assert not found.ok
    assert [one.key for one in found.to_resolve] == ["tasks.max"]
