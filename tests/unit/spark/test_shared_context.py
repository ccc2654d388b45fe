# SPDX-License-Identifier: Apache-2.0
"""The shared Spark context before its start; the rest is tested with a real one."""

from __future__ import annotations

import socket
from contextlib import closing

import pytest

from sparkmirror.devcluster.ports import HOST
from sparkmirror.errors import ConfigError, SetupError
from sparkmirror.model import Flow
from sparkmirror.spark.shared_context import (
    CONTROL_PORT_KEY,
    SharedSparkContext,
)
from sparkmirror.spark.slots import FlowCapacity

FLOW = Flow("a", "b")


@pytest.mark.parametrize("text", ["many", "-1", "65536"])
def test_a_control_port_that_is_none_is_refused_by_name(text: str) -> None:
    """Also when no flow needs Spark yet."""
    with pytest.raises(ConfigError, match=r"spark\.sparkmirror\.control\.port"):
        SharedSparkContext(None).configure({CONTROL_PORT_KEY: text}, {})


def test_nothing_is_fixed_before_a_flow_needs_it() -> None:
    """A file without flows leaves its options open; stopping it works."""
    spark: SharedSparkContext[Flow] = SharedSparkContext(None)
    spark.configure({"spark.executor.memory": "2g"}, {})
    spark.start()
    assert not spark.is_configured
    assert spark.reallocate_slots({}) == []
    assert spark.failure() is None
    spark.stop(keep_log=False)


def test_a_flow_that_waits_for_sparks_start_can_be_stopped() -> None:
    """It asks again and again instead of blocking until Spark runs."""
    spark: SharedSparkContext[Flow] = SharedSparkContext(None)
    assert spark.capacity(FLOW) == FlowCapacity(0, is_starting=True)


def test_a_control_port_that_is_taken_leaves_everything_open() -> None:
    """A file with another port may still be loaded."""
    spark: SharedSparkContext[Flow] = SharedSparkContext(None)
    with closing(socket.create_server((HOST, 0))) as taken:
        spark.configure({CONTROL_PORT_KEY: str(taken.getsockname()[1])}, {FLOW: 1})
        with pytest.raises(SetupError, match="control port"):
            spark.start()
    assert not spark.is_configured
