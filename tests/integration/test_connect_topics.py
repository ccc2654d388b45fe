# SPDX-License-Identifier: Apache-2.0
"""Connect's config and status topics on a real broker: what one worker writes another reads."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from sparkmirror.devcluster.cluster import LocalCluster
from sparkmirror.errors import BrokerError, ConfigError
from sparkmirror.formats.connect_config_records import (
    LoggerLevel,
    RestartRequest,
    SessionKey,
    TargetState,
)
from sparkmirror.formats.connect_status_records import (
    ConnectorStatus,
    RunState,
    Status,
    TaskStatus,
    TopicSeen,
    TopicStatus,
)
from sparkmirror.formats.primitives import partition_for_key
from sparkmirror.kafka.cluster_client import ClusterClient
from sparkmirror.state.connect_configs import (
    ConfigLog,
    ConnectorChanged,
    ConnectorRemoved,
    TargetChanged,
    TasksChanged,
)
from sparkmirror.state.connect_statuses import StatusLog
from sparkmirror.wire.settings import ConnectionSettings
from support.clients.librdkafka import (
    Record,
    create_topics,
    delete_topic,
    messages,
    produce,
    topics,
)
from support.waiting import PATIENCE_SECONDS, eventually

COMPACT = {"cleanup.policy": "compact"}
HERE, THERE = "here:8083", "there:8083"


@pytest.fixture
def client(target_cluster: LocalCluster) -> Iterator[ClusterClient]:
    """One that both workers of a test share."""
    servers = (target_cluster.bootstrap_servers,)
    opened = ClusterClient(ConnectionSettings("target", servers, "connect-topics-test"))
    yield opened
    opened.close()


@pytest.fixture
def config_topic(target_cluster: LocalCluster, unique_topic: Callable[..., str]) -> str:
    """One partition, as Connect wants it."""
    topic = unique_topic("configs")
    create_topics(target_cluster, {topic: 1}, COMPACT)
    return topic


def test_workers_agree_on_connectors(client: ClusterClient, config_topic: str) -> None:
    """The writer knows at once, the other one after its next look; both are told what is new."""
    one, other = ConfigLog(client, config_topic), ConfigLog(client, config_topic)
    assert one.refresh() == other.refresh() == []
    config = {"name": "c-1", "secret": "${file:x:y}", "note": "ünïcode \N{GRINNING FACE}"}
    one.put_connector("c-1", config, TargetState.PAUSED)
    one.put_tasks("c-1", [{"task": "0"}, {"task": "1"}])
    one.put_target_state("c-1", TargetState.STARTED)
    one.put_task_count("c-1", 2)
    restart = RestartRequest("c-1", include_tasks=True, only_failed=True)
    one.put_restart_request(restart)
    level = LoggerLevel("sparkmirror", "DEBUG")
    one.put_logger_level(level)
    key = SessionKey(b"k" * 32, "HmacSHA256", 1_700_000_000_000)
    one.put_session_key(key)
    news = [
        ConnectorChanged("c-1"),
        TasksChanged("c-1", (0, 1)),
        TargetChanged("c-1"),
        restart,
        level,
        key,
    ]
    assert one.refresh() == other.refresh() == news
    assert one.state == other.state
    assert other.state.configs == {"c-1": config}
    assert other.state.tasks("c-1") == [{"task": "0"}, {"task": "1"}]
    assert (other.state.offset, other.state.fenced_counts) == (10, {"c-1": 2})

    late = ConfigLog(client, config_topic)
    assert late.refresh() == []  # a restart that was asked for before it began is over
    assert late.state == one.state

    one.put_tasks("c-1", [])
    one.remove_connector("c-1")
    assert other.refresh() == [TasksChanged("c-1", ()), ConnectorRemoved("c-1")]
    assert (other.state.connectors, other.state.target_states) == ([], {})


def test_tasks_may_be_larger_than_a_record_batch(client: ClusterClient, config_topic: str) -> None:
    """Each of a few hundred kilobytes: lists of thousands of partitions."""
    log = ConfigLog(client, config_topic)
    log.put_connector("c", {"name": "c"})
    tasks = [{"task.assigned.partitions": f"{number}," * 150_000} for number in range(6)]
    log.put_tasks("c", tasks)
    assert log.state.tasks("c") == tasks


def test_foreign_records_are_reported_once(
    client: ClusterClient,
    target_cluster: LocalCluster,
    config_topic: str,
    caplog: pytest.LogCaptureFixture,
) -> None:
    """The others are read."""
    log = ConfigLog(client, config_topic)
    log.put_connector("c", {"name": "c"})
    strange = [Record(b"connector-d", b"{"), Record(b"who", b"{}")]
    produce(target_cluster, config_topic, [(0, record) for record in strange])
    log.refresh()
    log.refresh()
    (line,) = [one.getMessage() for one in caplog.records if config_topic in one.getMessage()]
    assert line.startswith(
        f"Topic '{config_topic}' on cluster 'target': skipped 2 records not written by Connect. "
        f"The first one: the record with key 'connector-d' is not JSON: "
    )
    assert (log.state.skipped_records, log.state.connectors) == (2, ["c"])


def test_a_config_topic_has_one_partition(
    client: ClusterClient, target_cluster: LocalCluster, unique_topic: Callable[..., str]
) -> None:
    """Anything else is refused before a record is read or written."""
    topic = unique_topic("configs")
    with pytest.raises(BrokerError, match=topic):
        ConfigLog(client, topic).refresh()
    create_topics(target_cluster, {topic: 2})
    log = ConfigLog(client, topic)
    for attempt in (log.refresh, lambda: log.put_connector("c", {})):
        with pytest.raises(ConfigError, match=rf"'{topic}' on cluster 'target' has 2 partit") as no:
            attempt()
        assert no.value.key == "config.storage.topic"


def test_a_config_topic_that_was_deleted_takes_its_connectors_with_it(
    client: ClusterClient,
    target_cluster: LocalCluster,
    config_topic: str,
    caplog: pytest.LogCaptureFixture,
) -> None:
    """What the new one says counts, and a worker is told what to stop."""
    log = ConfigLog(client, config_topic)
    log.put_connector("a", {"name": "a"})
    log.put_connector("b", {"name": "b"})
    log.refresh()
    delete_topic(target_cluster, config_topic)
    eventually(lambda: config_topic not in topics(target_cluster), PATIENCE_SECONDS, "it is gone")
    create_topics(target_cluster, {config_topic: 1}, COMPACT)
    log.put_connector("b", {"name": "b", "new": "yes"})
    assert log.refresh() == [ConnectorChanged("b"), ConnectorRemoved("a")]
    assert log.state.connectors == ["b"]
    assert "was recreated or truncated" in caplog.text


def test_workers_agree_on_statuses(
    client: ClusterClient, target_cluster: LocalCluster, unique_topic: Callable[..., str]
) -> None:
    """One that is late by a generation cannot spoil what the other one says."""
    topic = unique_topic("status")
    create_topics(target_cluster, {topic: 5}, COMPACT)
    one, other = StatusLog(client, topic), StatusLog(client, topic)
    running = Status(RunState.RUNNING, HERE, 4, None, "4.3.1")
    records = (
        ConnectorStatus("c", running),
        *(TaskStatus("c", task, running) for task in range(12)),
        TopicStatus("c", "t", TopicSeen(0, 1_700_000_000_000)),
    )
    assert one.put(*records) == []
    late = TaskStatus("c", 3, Status(RunState.FAILED, THERE, 3, "no"))
    own = TaskStatus("d", 0, Status(RunState.FAILED, THERE, 3, "no"))
    assert other.put(late, own) == [late]
    one.refresh()
    assert one.state == other.state
    assert list(one.state.tasks("c").items()) == [(task, running) for task in range(12)]
    assert one.state.tasks("d") == {0: own.status}
    assert list(one.state.topics("c")) == ["t"]
    for chunk in messages(target_cluster, [(topic, index) for index in range(5)]):
        for message in chunk:
            assert message.partition() == partition_for_key(message.key(), 5)

    one.remove_connector("c")
    other.refresh()
    assert (other.state.connectors, other.state.tasks("c"), other.state.topics("c")) == ({}, {}, {})
    assert other.state.tasks("d") == {0: own.status}
