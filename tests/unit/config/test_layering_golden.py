# SPDX-License-Identifier: Apache-2.0
"""The layers of a nasty file are those that Kafka's own MirrorMakerConfig makes of it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from sparkmirror.config.files.layering import (
    LayeredConfig,
    client_config,
    connector_config,
    worker_config,
)
from sparkmirror.config.files.properties import read_properties
from sparkmirror.config.keys.connector_classes import ConnectorClass
from sparkmirror.config.mirror_config import MirrorConfig
from sparkmirror.model import Flow

FILE = Path(__file__).parent / "golden" / "layering.properties"
GOLDEN = json.loads(FILE.with_suffix(".json").read_text("utf-8"))
CLASSES = [one.value for one in ConnectorClass]
CLIENTS = {
    "source consumer": ("source", "consumer"),
    "source admin": ("source", "admin"),
    "target admin": ("target", "admin"),
}
# Java's clients get these too: the first is made later here, the others are connector keys whose
# names happen to begin like a client's.
NOT_LAYERED = {"client.id", "poll.timeout.ms", "timeout.ms"}


def layers(flow: Flow, part: str) -> LayeredConfig:
    """The same part of the configuration, made by us."""
    raw = read_properties(FILE).entries
    if part in CLASSES:
        return connector_config(raw, flow, part)
    if part in CLIENTS:
        return client_config(connector_config(raw, flow), *CLIENTS[part])
    return worker_config(raw, flow)


@pytest.mark.parametrize("part", [*CLASSES, "worker", *CLIENTS])
@pytest.mark.parametrize("flow", [Flow("a", "b"), Flow("c.d", "a")], ids=str)
def test_layers_equal_java_mm2s(flow: Flow, part: str) -> None:
    """Every key and every text, none more and none less."""
    expected = GOLDEN["flows"][str(flow)][part]
    if part in CLIENTS:
        expected = {key: text for key, text in expected.items() if key not in NOT_LAYERED}
    assert expected == {key: value.text for key, value in layers(flow, part).items()}


def test_flows_equal_java_mm2s() -> None:
    """The pairs that get a worker."""
    pairs = [str(flow) for flow in MirrorConfig.load(FILE).flows()]
    assert sorted(GOLDEN["pairs"]) == sorted(pairs)


def test_client_ids_equal_java_mm2s() -> None:
    """The names under which brokers see the flow's clients."""
    settings = MirrorConfig.load(FILE).parsed_flow(Flow("a", "b")).settings
    made = {
        "source consumer": settings.consumer,
        "source admin": settings.source_admin,
        "target admin": settings.target_admin,
    }
    expected = {part: GOLDEN["flows"]["a->b"][part]["client.id"] for part in CLIENTS}
    assert expected == {part: connection.client_id for part, connection in made.items()}
