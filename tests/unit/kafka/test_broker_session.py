# SPDX-License-Identifier: Apache-2.0
"""Blocking requests to a scripted cluster, in virtual time and on one thread."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from sparkmirror.errors import (
    ConnectionLostError,
    LossKind,
    UnreachableError,
    UnsupportedVersionError,
)
from sparkmirror.kafka.broker_session import BrokerSession, Send
from sparkmirror.kafka.request import RawResponse
from sparkmirror.kafka.topic_requests import (
    LATEST,
    describe_producers_request,
    list_offsets_request,
    log_fetch_request,
    metadata_request,
)
from sparkmirror.model import TopicPartition
from sparkmirror.wire import connection
from sparkmirror.wire.settings import ConnectionSettings
from support.manual_clock import WIRE
from support.mirrors.scripted_mirror import VirtualLoop, VirtualTime
from support.peers.scripted_cluster import (
    DESCRIBE_PRODUCERS,
    FETCH,
    LIST_OFFSETS,
    METADATA,
    NODE,
    DelayedResponse,
    ScriptedCluster,
)

TP = TopicPartition("t", 0)


class Scripted:
    """A session with a scripted cluster."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.clock = VirtualTime(monkeypatch, *WIRE, "sparkmirror.kafka.broker_session")
        self.loop = VirtualLoop(self.clock)
        self.cluster = ScriptedCluster("a", ["t"])
        self.cluster.attach(self.loop)
        self.connects = 0
        self.is_interrupted = False
        monkeypatch.setattr(connection, "open_socket", self._connect)
        self.session = BrokerSession(self.settings(), self.loop, lambda: self.is_interrupted)
        self.session.open()

    def settings(self) -> ConnectionSettings:
        host, port = self.cluster.address
        return ConnectionSettings("a", (f"{host}:{port}",), "test", 30.0, 10.0, max_idle_seconds=60)

    def _connect(self, _settings: ConnectionSettings, addresses: list[Any]) -> Any:
        self.connects += 1
        assert addresses.pop(0)[4] == self.cluster.address
        return self.cluster.connect()

    def delay(self, api_key: int, seconds: float) -> None:
        """Answer requests of a kind after a pause."""
        serve = self.cluster.serve

        def delayed(key: int, request: Any, version: int) -> Any:
            answer = serve(key, request, version)
            if key == api_key:
                return DelayedResponse(seconds, lambda: answer, ends_early=False)
            return answer

        self.cluster.serve = delayed  # type: ignore[method-assign]

    def metadata(self) -> Any:
        (found,) = self.session.run([Send(metadata_request(["t"]))])
        return found


@pytest.fixture
def scripted(monkeypatch: pytest.MonkeyPatch) -> Iterator[Scripted]:
    made = Scripted(monkeypatch)
    yield made
    made.session.close()
    for line in made.cluster._lines:
        line._socket.close()


def test_one_connection_is_enough_for_bootstrap_and_requests(scripted: Scripted) -> None:
    assert scripted.metadata().topics[0].name == "t"
    assert scripted.connects == 1


def test_responses_are_in_the_order_of_the_requests(scripted: Scripted) -> None:
    """Also if there are more than may be in flight, on several connections."""
    names = [f"name-{number}" for number in range(20)]
    sends = [Send(metadata_request([name]), NODE, lane=n % 3) for n, name in enumerate(names)]
    found = scripted.session.run(sends)
    assert [one.topics[0].name for one in found] == names
    assert scripted.connects == 3


def test_a_raw_response_is_decoded_on_demand(scripted: Scripted) -> None:
    (raw,) = scripted.session.run([Send(metadata_request(["t"]), is_raw=True)])
    assert isinstance(raw, RawResponse)
    assert raw.decode().topics[0].name == "t"
    assert raw.throttle_time_ms == 0


def test_nothing_is_sent_if_one_request_has_no_version(scripted: Scripted) -> None:
    scripted.cluster.switch_off(DESCRIBE_PRODUCERS)
    scripted.cluster.drop_connections()
    before = scripted.cluster.requests[LIST_OFFSETS]
    sends = [
        Send(list_offsets_request([TP], LATEST, "read_committed"), NODE),
        Send(describe_producers_request([TP]), NODE),
    ]
    with pytest.raises(UnsupportedVersionError):
        scripted.session.run(sends)
    assert scripted.cluster.requests[LIST_OFFSETS] == before
    assert scripted.metadata()


def test_a_connection_that_was_lost_between_two_calls_is_opened_again(scripted: Scripted) -> None:
    scripted.cluster.drop_connections()
    assert scripted.metadata()
    assert scripted.connects == 2


def test_a_broker_that_is_not_known_is_an_error(scripted: Scripted) -> None:
    with pytest.raises(ConnectionLostError, match="not in the metadata") as caught:
        scripted.session.run([Send(metadata_request([]), 99)])
    assert caught.value.kind is LossKind.UNREACHABLE


def test_a_request_times_out(scripted: Scripted) -> None:
    """Each after its own time; a new connection serves what follows."""
    scripted.delay(FETCH, 1000.0)
    fetch = log_fetch_request({TP: 0}, "read_committed")
    for timeout, expected in ((None, 30.0), (100.0, 100.0)):
        began = scripted.clock.monotonic()
        with pytest.raises(ConnectionLostError, match="got no response"):
            scripted.session.run([Send(fetch, NODE)], timeout)
        assert scripted.clock.monotonic() - began == pytest.approx(expected, abs=1.0)
        assert scripted.metadata()


def test_connections_with_outstanding_responses_are_closed_after_a_failure(
    scripted: Scripted,
) -> None:
    """A late response must not be taken for the next one."""
    scripted.delay(FETCH, 1000.0)
    fetch = log_fetch_request({TP: 0}, "read_committed")
    scripted.loop.call_later(5.0, scripted.cluster.drop_connections)
    with pytest.raises(ConnectionLostError):
        scripted.session.run([Send(fetch, NODE), Send(metadata_request(["t"]), NODE, lane=1)])
    assert all(one.closed or not one.in_flight for one in scripted.session.brokers.connections())


@pytest.mark.parametrize("is_opening", [True, False])
def test_an_interrupted_call_ends_at_once(scripted: Scripted, is_opening: bool) -> None:
    scripted.delay(METADATA, 1000.0)
    if is_opening:
        scripted.session.brokers.close("the test wants a new one")

    def interrupt() -> None:
        scripted.is_interrupted = True

    scripted.loop.call_later(3.0, interrupt)
    began = scripted.clock.monotonic()
    with pytest.raises(UnreachableError, match="was closed"):
        scripted.metadata()
    assert scripted.clock.monotonic() - began == pytest.approx(3.0, abs=0.1)


def test_a_throttled_connection_pauses(
    scripted: Scripted, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "sparkmirror.kafka.broker_session")
    throttle_once(scripted, 7.0)
    scripted.metadata()
    began = scripted.clock.monotonic()
    scripted.metadata()
    assert scripted.clock.monotonic() - began == pytest.approx(7.0, abs=0.1)
    assert "throttles this client; pausing for 7 s" in caplog.text


def throttle_once(scripted: Scripted, seconds: float) -> None:
    serve: Callable[..., Any] = scripted.cluster.serve
    left = [seconds]

    def throttled(key: int, request: Any, version: int) -> Any:
        answer = serve(key, request, version)
        if key == METADATA and left:
            answer.throttle_time_ms = round(left.pop() * 1000)
        return answer

    scripted.cluster.serve = throttled  # type: ignore[method-assign]


def test_an_idle_connection_is_not_used_any_more(scripted: Scripted) -> None:
    scripted.clock.advance(61.0)
    assert scripted.metadata()
    assert scripted.connects == 2


def test_an_unforeseen_error_closes_the_session(
    scripted: Scripted, monkeypatch: pytest.MonkeyPatch
) -> None:
    request = metadata_request(["t"])
    monkeypatch.setattr(type(request.message), "with_header", lambda *_a, **_k: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        scripted.session.run([Send(request)])
    assert all(one.closed for one in scripted.session.brokers.connections())


def test_every_bootstrap_address_is_tried_and_named(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(_settings: ConnectionSettings, addresses: list[Any]) -> Any:
        raise OSError(f"{addresses.pop(0)[4][1]} is closed")

    monkeypatch.setattr(connection, "open_socket", refuse)
    clock = VirtualTime(monkeypatch, *WIRE, "sparkmirror.kafka.broker_session")
    settings = ConnectionSettings("far", ("127.0.0.1:1", "127.0.0.1:2"), "test")
    session = BrokerSession(settings, VirtualLoop(clock))
    with pytest.raises(UnreachableError, match=r"'far' cannot be reached at") as caught:
        session.open()
    assert "127.0.0.1:1: 1 is closed" in str(caught.value)
    assert "127.0.0.1:2: 2 is closed" in str(caught.value)
    session.close()
