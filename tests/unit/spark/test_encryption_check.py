# SPDX-License-Identifier: Apache-2.0
"""A warning if Spark sends an epoch's token unencrypted."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import Any, cast

import pytest

from sparkmirror.security.settings import SecurityProtocol, SecuritySettings
from sparkmirror.spark.control_server import ControlServer
from sparkmirror.spark.encryption_check import encryption_warning
from sparkmirror.spark.epoch_runner import EpochRunner
from sparkmirror.task.messages import TaskSettings
from sparkmirror.wire.settings import ConnectionSettings, FetchSettings, ProduceSettings

REMOTE = {"spark.master": "spark://master:7077"}
CRYPTO = {"spark.authenticate": "true", "spark.network.crypto.enabled": "true"}


def task(protocol: SecurityProtocol) -> TaskSettings:
    """Settings of a flow whose target is reached like that."""
    return TaskSettings(
        flow="a->b",
        connector="MirrorSourceConnector",
        source_alias="a",
        consumer=ConnectionSettings("a", ("a:1",), "reader"),
        producer=ConnectionSettings("b", ("b:1",), "writer", security=SecuritySettings(protocol)),
        fetch=FetchSettings(),
        produce=ProduceSettings(),
        offsets_topic="mm2-offsets.a.internal",
        offsets_partitions=25,
        flush_seconds=5.0,
        buffer_bytes=1 << 26,
        epoch_seconds=300.0,
        lease_seconds=5.0,
    )


@pytest.mark.parametrize(
    ("options", "protocol", "is_told"),
    [
        (REMOTE, SecurityProtocol.SASL_SSL, True),
        (REMOTE, SecurityProtocol.SSL, True),
        ({"spark.master": "k8s://https://there"}, SecurityProtocol.SASL_SSL, True),
        (REMOTE | {"spark.authenticate": "true"}, SecurityProtocol.SASL_SSL, True),
        (REMOTE | {"spark.network.crypto.enabled": "true"}, SecurityProtocol.SASL_SSL, True),
        (REMOTE | CRYPTO, SecurityProtocol.SASL_SSL, False),
        (REMOTE | {"spark.ssl.rpc.enabled": "true"}, SecurityProtocol.SASL_SSL, False),
        (REMOTE, SecurityProtocol.PLAINTEXT, False),
        ({"spark.master": "local[4,4]"}, SecurityProtocol.SASL_SSL, False),
    ],
)
def test_a_token_that_others_can_read_is_reported(
    options: Mapping[str, str], protocol: SecurityProtocol, *, is_told: bool
) -> None:
    """If it gives access to credentials."""
    sentence = encryption_warning(options, task(protocol))
    assert bool(sentence) is is_told
    assert ("spark.network.crypto.enabled=true" in sentence) is is_told


class Somewhere:
    """A SparkContext with a configuration only."""

    def getConf(self) -> Somewhere:  # noqa: N802 - Spark's name
        return self

    def getAll(self) -> list[tuple[str, str]]:  # noqa: N802 - Spark's name
        return [*REMOTE.items()]


def test_a_flow_reports_it_once(caplog: pytest.LogCaptureFixture) -> None:
    spark = cast("Any", Somewhere())
    control = ControlServer()
    control.start("127.0.0.1", "127.0.0.1")
    epochs = EpochRunner("a->b", lambda: spark, control, lambda _progress: None)
    with caplog.at_level(logging.WARNING):
        for _ in range(3):
            assert epochs.run((), task(SecurityProtocol.SSL)).failure  # nothing runs there
    control.stop()
    assert caplog.text.count("Spark does not encrypt") == 1
