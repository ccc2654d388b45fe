# SPDX-License-Identifier: Apache-2.0
"""What crosses between driver and executor survives JSON unchanged."""

from __future__ import annotations

import json
from dataclasses import replace

from sparkmirror.config.settings import IncidentPolicies
from sparkmirror.model import ProducerState
from sparkmirror.task.messages import (
    PartitionStart,
    Split,
    TaskSettings,
    TransactionStart,
    split_from_json,
    split_to_json,
    task_settings_from_json,
    task_settings_to_json,
)
from sparkmirror.wire.settings import ConnectionSettings, FetchSettings, ProduceSettings

SETTINGS = TaskSettings(
    flow="a->b",
    connector="MirrorSourceConnector",
    source_alias="a",
    consumer=ConnectionSettings("a", ("h1:9092", "[::1]:9093"), "reader", 12.5, 3.0, 1, 2),
    producer=ConnectionSettings("b", ("h2:9092",), "writer"),
    fetch=FetchSettings(isolation_level="read_uncommitted", fetch_max_bytes=5),
    produce=ProduceSettings(acks=1, max_in_flight=3),
    offsets_topic="mm2-offsets.a.internal",
    offsets_partitions=25,
    flush_seconds=5.0,
    buffer_bytes=1 << 26,
    epoch_seconds=300.0,
    lease_seconds=5.0,
    commit_seconds=0.5,
    transaction_timeout_ms=9000,
    policies=IncidentPolicies(gap="stop", open_transaction_seconds=2.5),
    ledger_topic="mm2-ledger.a.internal",
    dead_letters_topic="mm2-dead-letters.a.internal",
    offsets_cluster=ConnectionSettings("worker", ("h3:9092", "h4:9092"), "connect-mirror"),
    source_cluster_id="Rk1MaG9vcw",
    registry_topic="mm2-producers.internal",
    target_cluster_id="dGFyZ2V0",
)


def test_a_split_arrives_as_it_was_sent() -> None:
    """Every field set to something else than its default, and one partition with defaults only."""
    split = Split(
        3,
        (
            PartitionStart(
                "t", 7, "a.t", 2**40, 2**41, stop_at=2**42, topic_id="x",
                target_topic_id="y", producer=ProducerState(2**50, 12, 2**31 - 1),
                leader_epoch=9, is_handed_over=True,
                map_chunk="5 00ff", skip_origins=("Rk1MaG9vcw", "c2Vjb25k"),
            ),
            PartitionStart("größe", 0, "a.größe", 0),
        ),
        TransactionStart("a-mm2-MirrorSourceConnector-3", 2**50, 12),
    )  # fmt: skip

    assert split_from_json(json.loads(json.dumps(split_to_json(split)))) == split
    plain = replace(split, transaction=None)
    assert split_from_json(json.loads(json.dumps(split_to_json(plain)))) == plain


def test_settings_arrive_as_they_were_sent() -> None:
    """Connection, fetch and produce settings included; positions elsewhere, or on the target."""
    for settings in (SETTINGS, replace(SETTINGS, offsets_cluster=None)):
        sent = json.loads(json.dumps(task_settings_to_json(settings)))
        assert task_settings_from_json(sent) == settings
