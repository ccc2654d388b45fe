# SPDX-License-Identifier: Apache-2.0
"""What a task knows of a cluster: connections to its brokers."""

from __future__ import annotations

import socket
from contextlib import ExitStack
from types import SimpleNamespace

from sparkmirror.wire.cluster import Cluster
from sparkmirror.wire.dialer import Address, Dialer
from sparkmirror.wire.loop import Loop

LOOPBACK = "127.0.0.1"
DIALER = Dialer("b", "test", 2.0, 2.0, -1, -1)


def metadata(address: Address) -> SimpleNamespace:
    """An answer that knows one broker and no topic."""
    broker = SimpleNamespace(node_id=1, host=address.host, port=address.port)
    return SimpleNamespace(brokers=[broker], topics=[])


def test_every_connection_to_a_broker_that_moved_is_closed() -> None:
    """Also those of further lanes; the next ones go to its new address."""
    with ExitStack() as stack:
        old, new = (
            Address(LOOPBACK, stack.enter_context(made).getsockname()[1])
            for made in (socket.create_server((LOOPBACK, 0)) for _ in range(2))
        )
        loop = Loop()
        stack.callback(loop.close)
        cluster = Cluster(loop, DIALER, [old])
        stack.callback(cluster.close)
        cluster._answered(metadata(old))
        before = [cluster.connection(1, lane) for lane in range(3)]
        assert len(set(map(id, before))) == 3
        assert cluster.connection(1, 2) is before[2]

        cluster._answered(metadata(new))

        assert all(one.closed for one in before)
        assert {cluster.connection(1, lane).address for lane in range(3)} == {new}
