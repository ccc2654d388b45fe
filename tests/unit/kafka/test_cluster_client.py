# SPDX-License-Identifier: Apache-2.0
"""How long a client keeps at a cluster that does not answer."""

from __future__ import annotations

import threading
import time

import pytest
from kafka.errors import KafkaConnectionError

from sparkmirror.config.settings import ConnectionSettings
from sparkmirror.errors import UnreachableError
from sparkmirror.kafka.cluster_client import ClusterClient


def ask_one_that_died() -> None:
    """A broker that is still listed."""
    raise KafkaConnectionError("111 ECONNREFUSED")


@pytest.mark.parametrize("stops", [False, True])
def test_whoever_stops_does_not_wait_for_a_cluster_out_of_reach(stops: bool) -> None:
    """It is asked for as long as connecting may take, but not for somebody who has given up."""
    connection = ConnectionSettings("far", ("127.0.0.1:1",), "t", connect_timeout_seconds=3.0)
    stop = threading.Event()
    if stops:
        threading.Timer(0.3, stop.set).start()
    began = time.monotonic()
    with pytest.raises(UnreachableError, match="'far'"):
        ClusterClient(connection, stop).persist("describing topics", ask_one_that_died)
    assert (time.monotonic() - began < 2.0) == stops
