# SPDX-License-Identifier: Apache-2.0
"""Moves the logs of a cluster while nothing copies: restored from an older copy, or cut in front.

Offsets are those of the log. An end is one past the last record.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterable, Mapping
from pathlib import Path

from confluent_kafka import KafkaException, TopicPartition
from confluent_kafka.admin import OffsetSpec

from sparkmirror.devcluster.cluster import LocalCluster
from support.clients.librdkafka import Cluster, Place, admin, read_topic
from support.waiting import PATIENCE_SECONDS, eventually

_MOST_RESTARTS = 10


def leader_epochs(cluster: Cluster, places: Iterable[Place]) -> dict[Place, int]:
    """The present leader epoch of each topic partition."""
    client = admin(cluster)
    wanted = {TopicPartition(*place): OffsetSpec.latest() for place in places}

    def known() -> dict[Place, int]:
        answers = client.list_offsets(wanted, request_timeout=PATIENCE_SECONDS)
        found = {tp: future.result(PATIENCE_SECONDS) for tp, future in answers.items()}
        return {(tp.topic, tp.partition): int(one.leader_epoch or 0) for tp, one in found.items()}

    # A broker that has just started serves before it leads.
    return eventually(known, PATIENCE_SECONDS, "leader epochs", not_yet=(KafkaException,))


def copy_data(cluster: LocalCluster, into: Path) -> None:
    """Stop the brokers, copy their data, and start them again."""
    cluster.stop()
    for broker in cluster.brokers:
        shutil.copytree(broker.data, into / str(broker.node_id))
    cluster.start()


def replace_data(cluster: LocalCluster, copy: Path) -> None:
    """Put a copy in the place of the data of brokers that are stopped."""
    for broker in cluster.brokers:
        folder = broker.data.resolve()
        for one in folder.iterdir():
            shutil.rmtree(one) if one.is_dir() else one.unlink()
        shutil.copytree(copy / str(broker.node_id), folder, dirs_exist_ok=True)


def restore_data(cluster: LocalCluster, copy: Path, places: Iterable[Place]) -> None:
    """Replace the brokers' data by a copy, and start until every leader epoch is a new one.

    An epoch that the lost records had as well would hide that they are gone.
    """
    wanted = list(places)
    before = leader_epochs(cluster, wanted)
    cluster.stop()
    replace_data(cluster, copy)
    cluster.start()
    for _ in range(_MOST_RESTARTS):
        now = leader_epochs(cluster, wanted)
        if all(now[place] > before[place] for place in wanted):
            return
        cluster.stop()
        cluster.start()
    raise AssertionError(f"{cluster.name}: leader epochs are still {now}, and were {before}")


def delete_before(cluster: Cluster, firsts: Mapping[Place, int]) -> None:
    """DeleteRecords: let topic partitions begin at these offsets."""
    client = admin(cluster)
    wanted = [TopicPartition(*place, first) for place, first in firsts.items()]
    for future in client.delete_records(wanted).values():
        future.result(PATIENCE_SECONDS)


def stored_positions(target: Cluster, alias: str) -> dict[Place, int]:
    """The last mirrored offset of each source partition, from Connect's offsets topic."""
    found: dict[Place, int] = {}
    records = read_topic(target, f"mm2-offsets.{alias}.internal")
    for record in (one for partition in records.values() for one in partition):
        connector, place = json.loads(record.key or b"[]")
        if connector == "MirrorSourceConnector" and record.value is not None:
            found[place["topic"], place["partition"]] = json.loads(record.value)["offset"]
    return found
