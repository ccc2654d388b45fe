# SPDX-License-Identifier: Apache-2.0
"""Spark's own lines carry the token of an epoch: it is told if others can read it there."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import Any, cast

import pytest

from sparkmirror.config.settings import ConnectionSettings, FetchSettings, ProduceSettings
from sparkmirror.pipeline.contract import TaskSettings
from sparkmirror.pipeline.control_server import ControlServer
from sparkmirror.pipeline.epochs import Epochs
from sparkmirror.pipeline.open_lines import warning_about
from sparkmirror.security.settings import Protocol, Security

REMOTE = {"spark.master": "spark://master:7077"}
CRYPTO = {"spark.authenticate": "true", "spark.network.crypto.enabled": "true"}


def task(protocol: Protocol) -> TaskSettings:
    """Of a flow whose target is reached like that."""
    return TaskSettings(
        flow="a->b",
        connector="MirrorSourceConnector",
        source_alias="a",
        consumer=ConnectionSettings("a", ("a:1",), "reader"),
        producer=ConnectionSettings("b", ("b:1",), "writer", security=Security(protocol)),
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
        (REMOTE, Protocol.SASL_SSL, True),
        (REMOTE, Protocol.SSL, True),
        ({"spark.master": "k8s://https://there"}, Protocol.SASL_SSL, True),
        (REMOTE | {"spark.authenticate": "true"}, Protocol.SASL_SSL, True),
        (REMOTE | {"spark.network.crypto.enabled": "true"}, Protocol.SASL_SSL, True),
        (REMOTE | CRYPTO, Protocol.SASL_SSL, False),
        (REMOTE | {"spark.ssl.rpc.enabled": "true"}, Protocol.SASL_SSL, False),
        (REMOTE, Protocol.PLAINTEXT, False),
        ({"spark.master": "local[4,4]"}, Protocol.SASL_SSL, False),
    ],
)
def test_a_token_that_others_can_read_is_told(
    options: Mapping[str, str], protocol: Protocol, *, is_told: bool
) -> None:
    """Where there is something to be had with it."""
    sentence = warning_about(options, task(protocol))
    assert bool(sentence) is is_told
    assert ("spark.network.crypto.enabled=true" in sentence) is is_told


class Somewhere:
    """Spark, as far as it is asked how it is set."""

    def getConf(self) -> Somewhere:  # noqa: N802 - Spark's name
        """Itself."""
        return self

    def getAll(self) -> list[tuple[str, str]]:  # noqa: N802 - Spark's name
        """No encryption."""
        return [*REMOTE.items()]


def test_a_flow_tells_it_once(caplog: pytest.LogCaptureFixture) -> None:
    """Not at every epoch."""
    spark = cast("Any", Somewhere())
    control = ControlServer("127.0.0.1", "127.0.0.1")
    control.start()
    epochs = Epochs("a->b", lambda: spark, control, lambda _progress: None)
    with caplog.at_level(logging.WARNING):
        for _ in range(3):
            with pytest.raises(AttributeError):  # nothing runs there
                epochs.run((), task(Protocol.SSL))
    control.stop()
    assert caplog.text.count("Spark does not encrypt") == 1
