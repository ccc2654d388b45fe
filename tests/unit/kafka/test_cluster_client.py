# SPDX-License-Identifier: Apache-2.0
"""How long a client keeps at a cluster that does not answer."""

from __future__ import annotations

import threading
import time

import pytest
from kafka.errors import KafkaConnectionError

from sparkmirror.errors import UnreachableError
from sparkmirror.kafka.cluster_client import PAUSE_SECONDS, ClusterClient
from sparkmirror.wire.settings import ConnectionSettings


def ask_one_that_died() -> None:
    """A broker that is still listed."""
    raise KafkaConnectionError("111 ECONNREFUSED")


def far(connect_timeout_seconds: float) -> ConnectionSettings:
    """A cluster out of reach."""
    return ConnectionSettings(
        "far", ("127.0.0.1:1",), "t", connect_timeout_seconds=connect_timeout_seconds
    )


def test_a_cluster_out_of_reach_is_asked_for_as_long_as_connecting_may_take() -> None:
    """Then it is an error."""
    began = time.monotonic()
    with pytest.raises(UnreachableError, match="'far'"):
        ClusterClient(far(0.6)).retry("describing topics", ask_one_that_died)
    assert time.monotonic() - began > 0.6 - 2 * PAUSE_SECONDS


def test_whoever_stops_does_not_wait_for_a_cluster_out_of_reach() -> None:
    """Though connecting may take an hour."""
    stop = threading.Event()
    threading.Timer(0.3, stop.set).start()
    began = time.monotonic()
    with pytest.raises(UnreachableError, match="'far'"):
        ClusterClient(far(3600.0), stop).retry("describing topics", ask_one_that_died)
    assert time.monotonic() - began < 60
