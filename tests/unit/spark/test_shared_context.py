# SPDX-License-Identifier: Apache-2.0
"""The shared Spark context before its start; the rest is tested with a real one."""

from __future__ import annotations

import socket
from contextlib import closing
from pathlib import Path

import pytest

from sparkmirror.devcluster.ports import HOST
from sparkmirror.errors import ConfigError, SetupError
from sparkmirror.model import Flow
from sparkmirror.spark.shared_context import (
    CONTROL_PORT_KEY,
    SharedSparkContext,
    SlotCount,
    last_error,
)

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


def test_a_control_port_that_is_taken_leaves_everything_open() -> None:
    """A file with another port may still be loaded."""
    spark: SharedSparkContext[Flow] = SharedSparkContext(None)
    with closing(socket.create_server((HOST, 0))) as taken:
        spark.configure({CONTROL_PORT_KEY: str(taken.getsockname()[1])}, {FLOW: 1})
        with pytest.raises(SetupError, match="control port"):
            spark.start()
    assert not spark.is_configured


def test_slots_are_lost_at_once_and_gained_when_stable() -> None:
    """Executors register one after another: one new plan serves them all."""
    slots = SlotCount()
    assert not slots.observe(2, 100.0)
    assert not slots.observe(4, 102.0)
    assert not slots.observe(4, 104.9)
    assert slots.observe(4, 105.0)
    assert slots.current == 4
    assert slots.observe(2, 106.0)
    assert slots.current == 2
    assert not slots.observe(2, 120.0)


def test_the_time_without_executors_begins_with_their_loss() -> None:
    """And ends with the first one, before its slots are used."""
    slots = SlotCount()
    slots.observe(0, 100.0)
    assert slots.seconds_without(130.0) == 30.0
    slots.observe(2, 131.0)
    assert slots.seconds_without(132.0) == 0.0


def test_the_cause_is_the_last_error_in_sparks_log(tmp_path: Path) -> None:
    """Without the time, the level and the class."""
    log = tmp_path / "spark.log"
    log.write_text(
        "WARNING: Using incubator modules\n"
        "10:00:01 spark ERROR StandaloneAppClient: first\n"
        "10:00:02 spark ERROR StandaloneSchedulerBackend: Application has been killed. "
        "Reason: Master removed our application: FAILED\n"
        "\tat java.lang.Thread.run\n",
        encoding="utf-8",
    )
    assert last_error(log) == (
        "Application has been killed. Reason: Master removed our application: FAILED"
    )
    log.write_text("", encoding="utf-8")
    assert last_error(log) == ""
