# SPDX-License-Identifier: Apache-2.0
"""Reserved ports: not given to others, but usable by the broker."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from contextlib import closing

import pytest

from sparkmirror.devcluster.ports import HOST, ReservedPort
from sparkmirror.errors import SetupError


@pytest.fixture
def port() -> Iterator[ReservedPort]:
    """A reserved free port."""
    port = ReservedPort()
    port.reserve()
    yield port
    port.release()


def test_the_broker_can_listen_on_a_held_port(port: ReservedPort) -> None:
    """As every Java server does."""
    port.prepare_bind()
    with (
        closing(socket.create_server((HOST, port.number))) as server,
        closing(socket.create_connection((HOST, port.number), timeout=60)),
    ):
        accepted, _ = server.accept()
        accepted.close()


def test_a_reserved_port_is_given_to_no_other_program(port: ReservedPort) -> None:
    """Free ports are never the reserved one, however many are requested."""
    others = [ReservedPort() for _ in range(200)]
    for other in others:
        other.reserve()
    assert port.number not in [other.number for other in others]
    for other in others:
        other.release()


def test_a_port_in_use_is_named() -> None:
    with closing(socket.create_server((HOST, 0))) as server:
        taken = server.getsockname()[1]
        with pytest.raises(SetupError, match=rf"Port {taken} is in use by another program"):
            ReservedPort(taken).reserve()


@pytest.mark.parametrize("number", [-1, 65536])
def test_an_impossible_port_is_named(number: int) -> None:
    with pytest.raises(SetupError, match=rf"Cannot use port {number}"):
        ReservedPort(number).reserve()


def test_change_takes_another_free_port(port: ReservedPort) -> None:
    before = port.number
    with closing(socket.create_server((HOST, before))):
        port.reserve_another()
    assert port.number != before


def test_change_keeps_a_chosen_port(port: ReservedPort) -> None:
    number = port.number
    port.release()
    chosen = ReservedPort(number)
    chosen.reserve_another()
    assert number == chosen.number
    chosen.release()
