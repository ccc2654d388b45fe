# SPDX-License-Identifier: Apache-2.0
"""The internal topics of a flow on each cluster, from the properties file."""

from dataclasses import replace

import pytest

from sparkmirror.config.keys.connector_classes import ConnectorClass
from sparkmirror.config.mirror_config import MirrorConfig
from sparkmirror.model import Flow
from sparkmirror.policy.loading import load_policy
from sparkmirror.topology.internal_topics import (
    InternalTopic,
    connector_topics,
    internal_topics,
    on_demand_topics,
)

FILE = """
clusters = a, b
a.bootstrap.servers = 127.0.0.1:1
b.bootstrap.servers = 127.0.0.1:2
a->b.enabled = true
"""
STORAGE = {
    ("target", "mm2-configs.a.internal", 1),
    ("target", "mm2-offsets.a.internal", 25),
    ("target", "mm2-status.a.internal", 5),
}
HEARTBEATS = ("target", "heartbeats", 1)
CHECKPOINTS = ("target", "a.checkpoints.internal", 1)
ACLS = ("target", "mm2-acls.a.internal", 1)
OFFSET_MAP = ("target", "mm2-offset-map.a.internal", 1)
PRODUCERS = ("target", "mm2-producers.internal", 1)
SYNCS_ON_SOURCE = ("source", "mm2-offset-syncs.b.internal", 1)
SYNCS_ON_TARGET = ("target", "mm2-offset-syncs.a.internal", 1)


def planned(extra: str = "", flow: Flow | None = None) -> tuple[InternalTopic, ...]:
    """The internal topics of a flow, a->b by default, under the file with a few lines more."""
    flow = flow or Flow("a", "b")
    settings = MirrorConfig.parse(FILE + extra).flow_settings(flow)
    return internal_topics(settings, load_policy(settings.policy, flow).replication)


def shapes(topics: tuple[InternalTopic, ...]) -> set[tuple[str, str, int]]:
    """Side, name and partitions of each topic."""
    return {(topic.side.value, topic.name, topic.partitions) for topic in topics}


def test_an_enabled_flow_gets_all_topics() -> None:
    """Offset syncs are on the source and named after the target."""
    assert shapes(planned()) == STORAGE | {
        HEARTBEATS,
        CHECKPOINTS,
        SYNCS_ON_SOURCE,
        OFFSET_MAP,
        PRODUCERS,
    }


def test_a_disabled_flow_gets_storage_and_heartbeats() -> None:
    """MM2 runs the heartbeat connector for every flow."""
    expected = {(side, name.replace(".a.", ".b."), count) for side, name, count in STORAGE}
    assert shapes(planned(flow=Flow("b", "a"))) == expected | {HEARTBEATS}


@pytest.mark.parametrize(
    ("line", "gone", "added"),
    [
        ("a->b.emit.heartbeats.enabled = false", set(), set()),
        ("a->b.emit.checkpoints.enabled = false", {CHECKPOINTS}, set()),
        ("a->b.emit.offset-syncs.enabled = false", {CHECKPOINTS, SYNCS_ON_SOURCE}, set()),
        ("a->b.offset-syncs.topic.location = target", {SYNCS_ON_SOURCE}, {SYNCS_ON_TARGET}),
        ("a->b.sync.acls.scope = all", set(), {ACLS}),
        ("a->b.sync.acls.removals.enabled = true", set(), {ACLS}),
        ("sync.acls.scope = all\nsync.topic.acls.enabled = false", set(), set()),
        (
            "offset.storage.partitions = 7",
            {("target", "mm2-offsets.a.internal", 25)},
            {("target", "mm2-offsets.a.internal", 7)},
        ),
        (
            "b.status.storage.topic = st",
            {("target", "mm2-status.a.internal", 5)},
            {("target", "st", 5)},
        ),
    ],
)
def test_the_file_decides(
    line: str, gone: set[tuple[str, str, int]], added: set[tuple[str, str, int]]
) -> None:
    """Keys that move, resize or disable internal topics work as in MM2."""
    everything = STORAGE | {HEARTBEATS, CHECKPOINTS, SYNCS_ON_SOURCE, OFFSET_MAP, PRODUCERS}
    assert shapes(planned(line)) == (everything - gone) | added


@pytest.mark.parametrize(
    ("line", "names"),
    [
        ("", ("mm2-ledger.a.internal", "mm2-dead-letters.a.internal")),
        (
            "replication.policy.separator = _",
            ("mm2-ledger_a_internal", "mm2-dead-letters_a_internal"),
        ),
    ],
)
def test_topics_of_our_own_are_internal_to_every_policy(line: str, names: tuple[str, str]) -> None:
    """The reverse flow must not mirror them."""
    settings = MirrorConfig.parse(FILE + line).flow_settings(Flow("a", "b"))
    policy = load_policy(settings.policy, Flow("a", "b")).replication
    ledger, letters = on_demand_topics(settings, policy)
    assert (ledger.name, letters.name) == names
    assert all(policy.is_internal_topic(name) for name in names)
    assert not {ledger.name, letters.name} & {topic.name for topic in planned(line)}


def test_dead_letters_need_no_key_and_may_be_large() -> None:
    """A compacted topic rejects records without a key."""
    settings = MirrorConfig.parse(FILE).flow_settings(Flow("a", "b"))
    ledger, letters = on_demand_topics(
        settings, load_policy(settings.policy, Flow("a", "b")).replication
    )
    assert (ledger.cleanup_policy, letters.cleanup_policy) == ("compact", "delete")
    assert int(letters.extra_configs["max.message.bytes"]) > 8 << 20


def test_storage_topics_know_the_keys_that_name_them() -> None:
    """Errors name the key to change."""
    keys = {topic.name: topic.storage_key for topic in planned()}
    assert keys["mm2-offsets.a.internal"] == "offset.storage.topic"
    assert keys["mm2-status.a.internal"] == "status.storage.topic"
    assert keys["mm2-configs.a.internal"] == "config.storage.topic"
    assert keys["heartbeats"] is None


def test_unset_factors_prefer_mm2s_defaults() -> None:
    """All internal topics have three replicas in MM2."""
    assert {topic.factor.preferred for topic in planned()} == {3}
    assert {topic.factor.value for topic in planned()} == {None}


@pytest.mark.parametrize(
    ("kind", "expected"),
    [
        (ConnectorClass.SOURCE, {SYNCS_ON_SOURCE, OFFSET_MAP, PRODUCERS}),
        (ConnectorClass.CHECKPOINT, {CHECKPOINTS}),
        (ConnectorClass.HEARTBEAT, {HEARTBEATS}),
    ],
)
def test_a_connector_sees_to_its_own_topics(
    kind: ConnectorClass, expected: set[tuple[str, str, int]]
) -> None:
    """The worker creates the three storage topics; a disabled flow has heartbeats at most."""
    settings = MirrorConfig.parse(FILE).flow_settings(Flow("a", "b"))
    names = load_policy(settings.policy, settings.flow).replication
    assert shapes(connector_topics(kind, settings, names)) == expected
    disabled = connector_topics(kind, replace(settings, enabled=False), names)
    assert shapes(disabled) == expected & {HEARTBEATS}


def test_exactly_once_positions_are_the_connectors_own() -> None:
    """They are on the target; the worker may be on another cluster."""
    line = "b.exactly.once.source.support = enabled"
    settings = MirrorConfig.parse(FILE + line).flow_settings(Flow("a", "b"))
    names = load_policy(settings.policy, settings.flow).replication
    topics = connector_topics(ConnectorClass.SOURCE, settings, names)
    assert shapes(topics) == {
        SYNCS_ON_SOURCE,
        OFFSET_MAP,
        PRODUCERS,
        ("target", "mm2-offsets.a.internal", 25),
    }
