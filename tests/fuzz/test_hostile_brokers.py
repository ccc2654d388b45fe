# SPDX-License-Identifier: Apache-2.0
"""Whoever sits on a broker's port takes little memory and no more time than a request has."""

from __future__ import annotations

import logging
import struct
import time
import tracemalloc
from collections.abc import Iterator

import pytest
from kafka.protocol.metadata import ApiVersionsResponse, MetadataRequest

from sparkmirror.errors import ClusterError
from sparkmirror.kafka.cluster_client import ClusterClient
from sparkmirror.wire.connection import BrokerConnection
from sparkmirror.wire.event_loop import EventLoop
from sparkmirror.wire.frames import MAX_PREALLOCATED_BYTES
from sparkmirror.wire.settings import ConnectionSettings
from support.clients.wire_requests import Outcome, run_until
from support.peers.hostile_broker import Answer, HostileBroker, framed

PATIENCE_SECONDS = 0.2
MOST_SECONDS = 60.0  # of a test that takes one, on a busy machine
MOST_BYTES = 8 << 20
MANY = 2**31 - 1

KEY = ApiVersionsResponse.ApiVersion
KNOWN = [KEY(api_key=key, min_version=0, max_version=12) for key in (0, 1, 3)]
VERSIONS = ApiVersionsResponse(error_code=0, api_keys=KNOWN)
WELCOME = framed(bytes(VERSIONS.encode(version=0)))
ENDLESS_VARINT = b"\xff" * 2_000


def nothing_asked(_correlation_id: int) -> bytes:
    """An answer to a request that nobody sent."""
    return struct.pack(">ii", 4, 77_777)


def twice(correlation_id: int) -> bytes:
    """The right answer, and another one to nothing."""
    return WELCOME(correlation_id) + nothing_asked(correlation_id)


AT_ONCE: dict[str, Answer] = {
    "two gibibytes announced": framed(b"", announced=MANY),
    "a hundred megabytes announced": framed(b"", announced=100_000_000),
    "less than nothing announced": framed(b"", announced=-(2**31)),
    "an array without end": framed(struct.pack(">hi", 0, MANY) + bytes(600)),
    "an array of less than nothing": framed(struct.pack(">hi", 0, -(2**31))),
    "a varint without end": framed(b"\0\0" + ENDLESS_VARINT),
    "an answer to nothing": nothing_asked,
    "an answer to nothing behind a good one": twice,
}
SLOWLY: dict[str, Answer] = {
    "a frame that does not end": framed(b"\0\0", announced=60_000),
}


@pytest.fixture(autouse=True)
def bounded() -> Iterator[None]:
    """Little memory, and no error that holds what the peer sent."""
    tracemalloc.start()
    began = time.monotonic()
    try:
        yield
        _now, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert time.monotonic() - began < MOST_SECONDS
    assert peak < MOST_BYTES


def ask(peer: HostileBroker) -> Outcome:
    """A request on a connection of the data path, whose owner looks at the clock at times."""
    loop, outcome = EventLoop(), Outcome()
    settings = ConnectionSettings("b", (), "test", PATIENCE_SECONDS, PATIENCE_SECONDS)
    try:
        connection = BrokerConnection(loop, settings, peer.address)
        connection.when_ready(
            lambda: connection.request(
                MetadataRequest(topics=None),
                outcome.replies.append,
                outcome.failures.append,
                newest=12,
            ),
            outcome.failures.append,
        )

        def is_over() -> bool:
            connection.check_timeout(time.monotonic())
            return outcome.is_over

        run_until(loop, is_over)
        connection.close("the test is over")
    finally:
        loop.close()
    return outcome


@pytest.mark.parametrize("case", AT_ONCE | SLOWLY)
def test_a_task_loses_only_the_connection(case: str) -> None:
    """Its request has failed, once."""
    answers = AT_ONCE | SLOWLY
    with HostileBroker([answers[case]], drips=case in SLOWLY) as peer:
        outcome = ask(peer)

    assert len(outcome.failures) == 1
    assert not outcome.replies


@pytest.mark.parametrize("case", AT_ONCE | SLOWLY)
def test_errors_of_the_control_plane_name_the_cluster(
    case: str, caplog: pytest.LogCaptureFixture
) -> None:
    """An error of ours; the log does not repeat what came."""
    answers = AT_ONCE | SLOWLY
    with HostileBroker([answers[case]], drips=case in SLOWLY) as peer:
        settings = ConnectionSettings(
            "b",
            (str(peer.address),),
            "test",
            request_timeout_seconds=PATIENCE_SECONDS,
            connect_timeout_seconds=PATIENCE_SECONDS,
        )
        client = ClusterClient(settings)
        try:
            with caplog.at_level(logging.DEBUG), pytest.raises(ClusterError, match="'b'"):
                client.retry("listing topics", lambda: client.metadata(None))
        finally:
            client.close()
    assert not any(len(record.getMessage()) > 2_000 for record in caplog.records)


@pytest.mark.parametrize("announced", [MANY, 1 << 30])
def test_a_frame_length_of_a_gigabyte_is_rejected(
    announced: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nor waited for as long as a byte comes now and then."""
    monkeypatch.setattr(
        "sparkmirror.wire.frames.MAX_PREALLOCATED_BYTES", MAX_PREALLOCATED_BYTES // 16
    )
    with HostileBroker([WELCOME, framed(b"", announced=announced)], drips=True) as peer:
        outcome = ask(peer)

    assert len(outcome.failures) == 1
