# SPDX-License-Identifier: Apache-2.0
"""What a task knows of a cluster: connections to its brokers."""

from __future__ import annotations

import socket
from contextlib import ExitStack
from types import SimpleNamespace

import pytest

from sparkmirror.errors import UnreachableError
from sparkmirror.model import Secret
from sparkmirror.security.settings import Mechanism, Protocol, SaslSettings, Security
from sparkmirror.wire.cluster import Cluster
from sparkmirror.wire.dialer import Address, Dialer
from sparkmirror.wire.loop import Loop
from support.hand_clock import WIRE, HandClock
from support.secure_peer import AUTHENTICATE, SecurePeer
from support.wire_requests import turn

LOOPBACK = "127.0.0.1"
DIALER = Dialer("b", "test", 60.0, 60.0, -1, -1)


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


def test_a_broker_that_refuses_us_is_not_asked_all_the_time(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The trouble is told meanwhile, to whoever wants a connection and in the status."""
    clock = HandClock(monkeypatch, *WIRE, "sparkmirror.wire.cluster")
    login = SaslSettings(Mechanism.PLAIN, "me", Secret("wrong"))
    security = Security(Protocol.SASL_PLAINTEXT, sasl=login)
    loop = Loop()
    with ExitStack() as stack:
        stack.callback(loop.close)
        peer = stack.enter_context(SecurePeer(login=b"\0me\0right"))
        cluster = Cluster(loop, DIALER._replace(security=security), [peer.address])
        stack.callback(cluster.close)
        cluster._addresses[1] = peer.address
        cluster.want(["t"])
        turn(loop, lambda: cluster.trouble is not None)
        for _ in range(9):  # a tenth of a second short of the pause
            with pytest.raises(UnreachableError, match=r"sasl\.jaas\.config"):
                cluster.connection(1)
            loop.turn(0.01)
            clock.advance(0.1)
        assert peer.seen.count(AUTHENTICATE) == 1
        clock.advance(1.0)
        turn(loop, lambda: peer.seen.count(AUTHENTICATE) == 2)
        assert "sasl.jaas.config" in str(cluster.trouble)
