# SPDX-License-Identifier: Apache-2.0
"""Internal topics on a real broker: shaped as MM2 leaves them, or refused with a sentence."""

import pytest
from confluent_kafka.admin import AdminClient, ConfigResource

from sparkmirror.config.mirror_config import MirrorConfig
from sparkmirror.config.settings import ReplicationFactor
from sparkmirror.devcluster.cluster import LocalCluster
from sparkmirror.errors import ReplicationFactorError
from sparkmirror.kafka.admin import ClusterAdmin
from sparkmirror.kafka.descriptions import NewTopic
from sparkmirror.model import Flow
from sparkmirror.policy.loading import load_policy
from sparkmirror.state.offset_store import OffsetStore
from sparkmirror.topology.internal_topics import (
    EnsureOutcome,
    InternalTopic,
    Side,
    ensure_internal_topics,
    internal_topics,
)
from sparkmirror.topology.replication_factors import ReplicationFactorChooser
from sparkmirror.wire.settings import ConnectionSettings
from support.waiting import PATIENCE_SECONDS, eventually

FILE = """
clusters = {a}, b
{a}.bootstrap.servers = 127.0.0.1:1
b.bootstrap.servers = 127.0.0.1:2
{a}->b.enabled = true
"""


@pytest.fixture(scope="module")
def cluster(target_cluster: LocalCluster) -> LocalCluster:
    """The shared target."""
    return target_cluster


@pytest.fixture
def witness(target_cluster: LocalCluster) -> AdminClient:
    """Another implementation's view of the broker."""
    return AdminClient({"bootstrap.servers": target_cluster.bootstrap_servers})


def witnessed_configs(witness: AdminClient, topic: str) -> dict[str, str]:
    """The configs that were set on a topic."""
    resource = ConfigResource(ConfigResource.Type.TOPIC, topic)
    (future,) = witness.describe_configs([resource]).values()
    dynamic_topic_config = 1
    return {
        name: entry.value
        for name, entry in future.result().items()
        if entry.source == dynamic_topic_config
    }


def flow_topics(alias: str, extra: str = "") -> list[InternalTopic]:
    """The internal topics of the flow alias->b on the target."""
    flow = Flow(alias, "b")
    settings = MirrorConfig.parse(FILE.format(a=alias) + extra).flow_settings(flow)
    planned = internal_topics(settings, load_policy(settings.policy, flow).replication)
    return [topic for topic in planned if topic.side is Side.TARGET]


def test_internal_topics_are_those_that_mm2_leaves(
    admin: ClusterAdmin, witness: AdminClient, connection: ConnectionSettings
) -> None:
    """Names, partition counts and compaction; the second time nothing is created."""
    topics = flow_topics("mm")
    ensured = ensure_internal_topics(topics, admin, ReplicationFactorChooser())
    assert {result.error for result in ensured} == {None}
    expected = {
        "mm2-configs.mm.internal": 1,
        "mm2-offsets.mm.internal": 25,
        "mm2-status.mm.internal": 5,
        "mm.checkpoints.internal": 1,
        "heartbeats": 1,
    }

    def seen() -> bool:
        found = witness.list_topics(timeout=PATIENCE_SECONDS).topics
        assert {name: len(found[name].partitions) for name in expected} == expected
        return True

    eventually(seen, PATIENCE_SECONDS, "the topics show", not_yet=(AssertionError, KeyError))
    for name in expected:
        assert witnessed_configs(witness, name) == {"cleanup.policy": "compact"}
    store = OffsetStore(
        connection, "mm2-offsets.mm.internal", connector="MirrorSourceConnector", source_alias="mm"
    )
    assert (store.read().positions, store.read().partitions) == ({}, 25)
    again = ensure_internal_topics(topics, admin, ReplicationFactorChooser())
    assert {result.state for result in again} == {EnsureOutcome.EXISTED}


@pytest.mark.parametrize(
    ("alias", "name", "partitions", "configs", "complaint"),
    [
        (
            "deleting",
            "mm2-offsets.deleting.internal",
            25,
            {"cleanup.policy": "delete"},
            r"cleanup\.policy=delete; .* offset\.storage\.topic",
        ),
        (
            "both",
            "mm2-status.both.internal",
            5,
            {"cleanup.policy": "compact,delete"},
            r"cleanup\.policy=compact,delete; .* status\.storage\.topic",
        ),
        (
            "wide",
            "mm2-configs.wide.internal",
            2,
            {"cleanup.policy": "compact"},
            r"2 partitions; .* config\.storage\.topic",
        ),
    ],
)
def test_a_storage_topic_of_the_wrong_shape_is_refused(
    admin: ClusterAdmin,
    alias: str,
    name: str,
    partitions: int,
    configs: dict[str, str],
    complaint: str,
) -> None:
    """It would lose state; the sentence names the topic, the cluster and the key."""
    assert admin.create_topics([NewTopic(name, partitions, 1, configs)]) == {name: None}
    admin.await_topics([name], PATIENCE_SECONDS)
    topics = flow_topics(alias)
    failed = [
        result
        for result in ensure_internal_topics(topics, admin, ReplicationFactorChooser())
        if result.error is not None
    ]
    (result,) = failed
    assert result.state is EnsureOutcome.FAILED
    with pytest.raises(type(result.error), match=f"'{name}' on cluster 'b' has {complaint}"):
        raise result.error


def test_a_set_factor_that_cannot_be_met_fails_its_own_topic_only(admin: ClusterAdmin) -> None:
    """The others are created; the error names the key."""
    topics = flow_topics("rf", "status.storage.replication.factor = 3\n")
    results = {
        result.topic.name: result
        for result in ensure_internal_topics(topics, admin, ReplicationFactorChooser())
    }
    failed = results.pop("mm2-status.rf.internal")
    assert isinstance(failed.error, ReplicationFactorError)
    assert "status.storage.replication.factor" in str(failed.error)
    assert {result.error for result in results.values()} == {None}


@pytest.mark.parametrize("needs_configs", [True, False])
def test_a_refused_config_is_left_out_only_where_we_chose_it_ourselves(
    admin: ClusterAdmin, needs_configs: bool
) -> None:
    """What the user wants set is set, or the topic fails with the broker's words."""
    topic = InternalTopic(
        Side.TARGET,
        f"mm2-refused.{needs_configs}.internal",
        1,
        ReplicationFactor("replication.factor", None, 1),
        extra_configs={"segment.bytes": "-5"},
        needs_configs=needs_configs,
    )
    (result,) = ensure_internal_topics([topic], admin, ReplicationFactorChooser())
    if needs_configs:
        assert "segment.bytes" in str(result.error)
    else:
        assert (result.state, result.error) == (EnsureOutcome.CREATED, None)
