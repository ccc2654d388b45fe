# SPDX-License-Identifier: Apache-2.0
"""What differs between two readings of a file: no more and no less than has to be restarted."""

from __future__ import annotations

from pathlib import Path

import pytest

from sparkmirror.config.config_changes import (
    ConfigChanges,
    FlowPart,
    compare_runs,
    describe_changes,
    parse_run,
)
from sparkmirror.config.mirror_config import MirrorConfig
from sparkmirror.model import Flow
from support.data.certificates import Authority

BASE = (
    "clusters=a,b,c",
    "a.bootstrap.servers=a:1",
    "b.bootstrap.servers=b:1",
    "c.bootstrap.servers=c:1",
    "emit.heartbeats.enabled=false",
    "a->b.enabled=true",
    "c->b.enabled=true",
)
AB, CB = Flow("a", "b"), Flow("c", "b")
OWN = "unit.config.test_config_changes"


class OwnTopicFilter:
    """A user's own filter, which may read any key."""

    def should_replicate_topic(self, topic: str) -> bool:
        """Whatever."""
        return bool(topic)


class OwnGroupFilter:
    """Likewise for groups."""

    def should_replicate_group(self, group: str) -> bool:
        """Whatever."""
        return bool(group)


def between(
    old: tuple[str, ...], new: tuple[str, ...], targets: tuple[str, ...] = ()
) -> ConfigChanges:
    """What changes from one file to another."""
    readings = [parse_run(MirrorConfig.parse("\n".join(lines)), targets) for lines in (old, new)]
    return compare_runs(*readings)


def added(*lines: str) -> ConfigChanges:
    """What changes when lines are added to the base."""
    return between(BASE, (*BASE, *lines))


def restarted(changes: ConfigChanges) -> dict[Flow, set[FlowPart]]:
    """What of which pair is restarted."""
    return {one.flow: set(one.parts) for one in changes.changed}


def test_the_same_file_with_other_comments_and_order_changes_nothing() -> None:
    """Lines that mean the same are the same, wherever they stand."""
    shuffled = ("# a comment", *reversed(BASE), "a->b.topics = .*", "tasks.max=1")
    changes = between((*BASE, "tasks.max=1"), shuffled)
    assert changes.is_empty
    assert changes.untouched == 2


def test_flows_are_added_and_removed() -> None:
    """The others are left alone."""
    changes = between(BASE, (*BASE[:-1], "a->c.enabled=true"))
    assert (changes.started, changes.stopped) == ((Flow("a", "c"),), (CB,))
    assert (changes.changed, changes.untouched) == ((), 1)


def test_clusters_of_the_command_line_still_limit() -> None:
    """A flow into another cluster is nobody's business here."""
    changes = between(BASE, (*BASE, "b->c.enabled=true"), targets=("b",))
    assert changes.is_empty


@pytest.mark.parametrize(
    ("line", "key"),
    [
        ("a->b.topics=orders", "topics"),
        ("a->b.tasks.max=4", "tasks.max"),
        ("a->b.gap.policy=stop", "gap.policy"),
        ("a.consumer.fetch.max.bytes=1000000", "a.consumer.fetch.max.bytes"),
        ("a->b.producer.override.acks=1", "producer.override.acks"),
        ("a->b.refresh.topics.interval.seconds=7", "refresh.topics.interval.seconds"),
    ],
)
def test_a_key_of_one_flow_restarts_that_flow(line: str, key: str) -> None:
    """And is named as the file spells it."""
    changes = added(line)
    assert restarted(changes) == {AB: {FlowPart.ALL}}
    assert changes.changed[0].keys == (key,)
    assert changes.untouched == 1


def test_a_key_that_is_taken_out_again_is_named_too() -> None:
    """Back to the default is a change as well."""
    changes = between((*BASE, "a->b.tasks.max=4"), BASE)
    assert changes.changed[0].keys == ("tasks.max",)


def test_another_address_is_named_once_and_restarts_every_flow_of_the_cluster() -> None:
    """Although four clients have it."""
    changes = between(BASE, tuple(line.replace("b:1", "b:2") for line in BASE))
    assert restarted(changes) == {AB: {FlowPart.ALL}, CB: {FlowPart.ALL}}
    assert {one.keys for one in changes.changed} == {("b.bootstrap.servers",)}


@pytest.mark.parametrize(
    "line",
    [
        "a->b.groups=orders",
        "a->b.groups.exclude=test",
        "a->b.emit.checkpoints.interval.seconds=7",
        "a->b.sync.group.offsets.enabled=true",
    ],
)
def test_keys_of_groups_leave_the_copying_alone(line: str) -> None:
    """Only checkpoints are restarted."""
    assert restarted(added(line)) == {AB: {FlowPart.CHECKPOINTS}}


def test_keys_of_groups_matter_to_the_sync_of_their_acls() -> None:
    """It asks the same filter, and begins again with its flow."""
    syncing = (*BASE, "sync.acls.scope=all")
    changes = between(syncing, (*syncing, "a->b.groups=orders"))
    assert restarted(changes) == {AB: {FlowPart.ALL}}


def test_keys_of_heartbeats_leave_the_copying_alone() -> None:
    """Only heartbeats are restarted."""
    assert restarted(added("a->b.emit.heartbeats.enabled=true")) == {AB: {FlowPart.HEARTBEATS}}


def test_several_small_changes_are_one_restart_each() -> None:
    """Heartbeats and checkpoints together; with the copying among them, all."""
    small = ("a->b.emit.heartbeats.enabled=true", "a->b.groups=orders")
    assert restarted(added(*small)) == {AB: {FlowPart.HEARTBEATS, FlowPart.CHECKPOINTS}}
    assert restarted(added(*small, "a->b.topics=orders")) == {AB: {FlowPart.ALL}}


def test_a_flow_with_heartbeats_only_ignores_changes_of_copy_keys() -> None:
    """`topics` is nothing to it, the heartbeats' interval is."""
    beating = tuple(line for line in BASE if "heartbeats" not in line)
    changes = between(beating, (*beating, "topics=orders"))
    assert set(restarted(changes)) == {AB, CB}
    assert changes.untouched == 4
    changes = between(beating, (*beating, "b->a.emit.heartbeats.interval.seconds=5"))
    assert restarted(changes) == {Flow("b", "a"): {FlowPart.ALL}}


def test_the_line_that_gave_a_replication_factor_does_not_matter() -> None:
    """Only messages name it."""
    general, special = "replication.factor=1", "a->b.replication.factor=1"
    assert between((*BASE, general), (*BASE, general, special)).is_empty


def test_a_custom_class_is_instantiated_again_when_an_option_of_its_flow_changes() -> None:
    """It may read whatever it likes; built-in classes read none."""
    own = "a->b.own.filter.option=1"
    assert added(own).is_empty
    with_filter = (*BASE, f"a->b.topic.filter.class={OWN}.OwnTopicFilter")
    changes = between(with_filter, (*with_filter, own))
    assert restarted(changes) == {AB: {FlowPart.ALL}}
    assert changes.changed[0].keys == ("own.filter.option",)
    with_filter = (*BASE, f"a->b.group.filter.class={OWN}.OwnGroupFilter")
    assert restarted(between(with_filter, (*with_filter, own))) == {AB: {FlowPart.CHECKPOINTS}}


def test_a_value_behind_a_reference_is_compared_and_never_shown(tmp_path: Path) -> None:
    """The file is the same, what it refers to is not; the older reading keeps what it read."""
    secrets = tmp_path / "secrets"
    config = "\n".join((*BASE, f"a->b.topics=${{file:{secrets}:topics}}"))
    secrets.write_text("topics=first-secret\n")
    old = parse_run(MirrorConfig.parse(config))
    secrets.write_text("topics=second-secret\n")
    new = parse_run(MirrorConfig.parse(config))
    changes = compare_runs(old, new)
    assert restarted(changes) == {AB: {FlowPart.ALL}}
    assert (
        describe_changes("f", changes)
        == "f was reloaded: restarted a->b (topics); 1 flow untouched"
    )
    assert "secret" not in repr(changes)


def test_a_store_that_holds_something_else_is_named(tmp_path: Path) -> None:
    """A certificate was replaced, not a line: the flows of its cluster begin again."""
    store = tmp_path / "trust.pem"
    lines = (
        "a.security.protocol=SSL",
        "a.ssl.truststore.type=PEM",
        f"a.ssl.truststore.location={store}",
    )
    readings = []
    for name in ("one", "two"):
        store.write_text(Authority(name).pem)
        readings.append(parse_run(MirrorConfig.parse("\n".join((*BASE, *lines)))))
    changes = compare_runs(*readings)
    assert changes.changed
    assert {one.keys for one in changes.changed} == {("a.ssl.truststore.location",)}


def test_how_a_security_key_is_spelled_does_not_matter() -> None:
    """For all clusters or for each: the same connections."""
    one = ("security.protocol=SSL",)
    other = ("a.security.protocol=SSL", "b.security.protocol=SSL", "c.security.protocol=SSL")
    assert between((*BASE, *one), (*BASE, *other)).is_empty


def test_keys_of_spark_and_metrics_are_distinguished_from_flows() -> None:
    """No flow is restarted for them."""
    changes = added("spark.executor.memory=2g", "metrics.port=9404")
    assert changes.spark_keys == ("spark.executor.memory",)
    assert changes.metrics_changed
    assert not changes.log_changed
    assert (changes.changed, changes.untouched) == ((), 2)


def test_the_line_for_the_log_says_everything_in_one_sentence() -> None:
    """Started, stopped, restarted with keys, untouched, what has to wait."""
    old = (*BASE, "b->a.enabled=true")
    new = (
        *BASE[:-1],
        "b->a.enabled=true",
        "a->c.enabled=true",
        "a->b.tasks.max=2",
        "a->b.topics=orders",
        "b->a.groups=orders",
        "spark.executor.memory=2g",
    )
    changes = between(old, new)
    assert describe_changes("mm2.properties", changes, changes.spark_keys) == (
        "mm2.properties was reloaded: started a->c; stopped c->b; restarted a->b (topics, "
        "tasks.max); restarted the checkpoints of b->a (groups); spark.executor.memory takes "
        "effect at the next start"
    )


def test_a_file_that_changed_nothing_reports_it() -> None:
    """Comments only, or a SIGHUP for nothing."""
    assert (
        describe_changes("f", between(BASE, BASE))
        == "f was reloaded: nothing to do; 2 flows untouched"
    )


def test_a_progress_interval_changes_without_a_restart() -> None:
    changes = added("log.progress.seconds=5")
    assert changes.log_changed
    assert not changes.is_empty
    assert "log settings changed" in describe_changes("f", changes)
    assert "next start" not in describe_changes("f", changes)
