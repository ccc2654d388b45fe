# SPDX-License-Identifier: Apache-2.0
"""Blocking requests on the connections of `wire`: the calling thread runs the event loop.

`ClusterClient` adds retries and errors for users.
"""

from __future__ import annotations

import logging
import time
from collections import Counter, deque
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, NamedTuple
from weakref import WeakKeyDictionary

from sparkmirror.errors import (
    ConnectionLostError,
    LossKind,
    UnsupportedVersionError,
)
from sparkmirror.kafka.error_mapping import closed_client_error, unreachable_error
from sparkmirror.kafka.request import RawResponse, Request
from sparkmirror.kafka.topic_requests import metadata_request
from sparkmirror.wire.brokers import Brokers
from sparkmirror.wire.connection import BrokerConnection
from sparkmirror.wire.event_loop import EventLoop
from sparkmirror.wire.settings import ConnectionSettings

_MAX_IN_FLIGHT = 5  # requests of one connection
_MAX_WAIT_SECONDS = 60.0

_log = logging.getLogger(__name__)


class Send(NamedTuple):
    """A request and its broker; each needs a separate message object."""

    request: Request
    node: int | None = None  # None: any broker
    lane: int = 0  # each lane is a separate connection
    is_raw: bool = False  # the response is a RawResponse


class BrokerSession:
    """The connections of one client, from `open` to `close`. For one thread.

    Methods raise ConnectionLostError, UnsupportedVersionError (then nothing was sent), or
    UnreachableError if no bootstrap address accepts a TCP connection or the session is interrupted.
    """

    def __init__(
        self,
        settings: ConnectionSettings,
        loop: EventLoop,
        is_interrupted: Callable[[], bool] = lambda: False,
    ) -> None:
        """Owns the loop. Calls `is_interrupted` whenever the loop wakes up."""
        self._settings = settings
        self._loop = loop
        self._is_interrupted = is_interrupted
        self.brokers = Brokers(loop, settings)
        self.is_closed = False
        self.used_at = time.monotonic()
        self._last_any = -1
        self._resume_at: WeakKeyDictionary[BrokerConnection, float] = WeakKeyDictionary()

    def open(self) -> None:
        """Get the cluster's brokers from the first bootstrap address that responds."""
        count = len(self.brokers.bootstrap_addresses)
        failures: list[ConnectionLostError] = []
        for _ in range(count):
            try:
                self._bootstrap(self._settings.connect_timeout_seconds / count)
            except ConnectionLostError as error:
                if error.kind in (LossKind.REFUSED, LossKind.NOT_READY):
                    raise
                failures.append(error)
            else:
                return
        for one in failures:
            if one.kind is not LossKind.UNREACHABLE:
                raise one
        reasons = "; ".join(f"{one.address}: {one.reason}" for one in failures)
        raise unreachable_error(self._settings, "connecting", reasons)

    def _bootstrap(self, connect_seconds: float) -> None:
        connection = self.brokers.bootstrap_connection(connect_seconds)
        send = Send(metadata_request([]))
        timeout = min(
            self._settings.connect_timeout_seconds, self._settings.request_timeout_seconds
        )
        (answer,) = self._exchange([connection], [send], timeout)
        self.brokers.learn(answer.brokers)
        if not self.brokers.addresses:
            reason = "its metadata lists no brokers"
            connection.close(reason)
            raise ConnectionLostError(
                reason,
                cluster=self._settings.alias,
                address=str(connection.address),
                kind=LossKind.LOST,
            )

    def run(self, sends: Sequence[Send], timeout_seconds: float | None = None) -> list[Any]:
        """Send requests, a few in flight at a time, and wait for all responses.

        `timeout_seconds` replaces the request timeout of the settings.
        """
        try:
            self._handle_events()
            default = self._any_node() if any(one.node is None for one in sends) else None
            connections = [
                self.brokers.connection(_node(default if one.node is None else one.node), one.lane)
                for one in sends
            ]
            return self._exchange(connections, sends, timeout_seconds)
        except (ConnectionLostError, UnsupportedVersionError):
            raise
        except BaseException:
            self.close()  # responses may still arrive
            raise
        finally:
            self.used_at = time.monotonic()

    def api_versions(self, node: int) -> Mapping[int, tuple[int, int]]:
        """Return the oldest and newest supported version of each API, by API key."""
        self._handle_events()
        connection = self.brokers.connection(node)
        self._await_ready([connection])
        return dict(connection.api_versions)

    def close(self) -> None:
        """Close the connections and the loop. Idempotent."""
        if self.is_closed:
            return
        self.is_closed = True
        self.brokers.close("the client was closed")
        self._loop.close()

    def _any_node(self) -> int | None:
        """Return the next broker with an open connection; if there is none, any broker."""
        listed = self.brokers.addresses
        ready = [node for node in self.brokers.ready_nodes() if node in listed]
        if not ready:
            return self.brokers.next_node()
        self._last_any = next((node for node in ready if node > self._last_any), ready[0])
        return self._last_any

    def _handle_events(self) -> None:
        """Handle events since the last call: closed and idle connections."""
        self._loop.run_once(0.0)
        self.brokers.check_timeouts()

    def _exchange(
        self,
        connections: Sequence[BrokerConnection],
        sends: Sequence[Send],
        timeout_seconds: float | None,
    ) -> list[Any]:
        self._await_ready(connections)
        for connection, one in zip(connections, sends, strict=True):
            request = one.request
            connection.negotiated_version(request.message.API_KEY, request.newest, request.oldest)
        exchange = _Exchange(connections, sends, timeout_seconds)
        while not exchange.is_over:
            pause = exchange.pump(self._resume_at)
            self._run_loop(pause)
            for connection, seconds in exchange.take_throttles():
                _log.info(
                    f"Cluster '{self._settings.alias}': broker {connection.address} throttles "
                    f"this client; pausing for {seconds:g} s"
                )
                self._resume_at[connection] = time.monotonic() + seconds
        exchange.raise_failure()
        return exchange.responses

    def _await_ready(self, connections: Sequence[BrokerConnection]) -> None:
        ready: set[BrokerConnection] = set()
        failures: list[ConnectionLostError] = []
        wanted = set(connections)
        for connection in wanted:
            connection.when_ready(partial(ready.add, connection), failures.append)
        while ready != wanted and not failures:
            self._run_loop(_MAX_WAIT_SECONDS)
        if failures:
            raise failures[0]

    def _run_loop(self, longest: float) -> None:
        """Wait for events, until the next request times out at most."""
        self._raise_if_interrupted()
        now = time.monotonic()
        open_ones = [one for one in self.brokers.connections() if not one.closed]
        left = min((one.seconds_left(now) for one in open_ones), default=longest)
        self._loop.run_once(max(0.0, min(left, longest)))
        self.brokers.check_timeouts()
        self._raise_if_interrupted()

    def _raise_if_interrupted(self) -> None:
        if self._is_interrupted():
            raise closed_client_error(self._settings)


def _node(node: int | None) -> int:
    if node is None:
        raise AssertionError("an open session knows at least one broker")
    return node


class _Exchange:
    """The requests of one call, their responses and their failures."""

    def __init__(
        self,
        connections: Sequence[BrokerConnection],
        sends: Sequence[Send],
        timeout_seconds: float | None,
    ) -> None:
        self._sends = sends
        self._timeout_seconds = timeout_seconds
        self._queues: dict[BrokerConnection, deque[int]] = {}
        for at, connection in enumerate(connections):
            self._queues.setdefault(connection, deque()).append(at)
        self._in_flight: Counter[BrokerConnection] = Counter()
        self._left = len(sends)
        self._failures: list[ConnectionLostError] = []
        self._throttles: list[tuple[BrokerConnection, float]] = []
        self.responses: list[Any] = [None] * len(sends)

    @property
    def is_over(self) -> bool:
        """Whether all responses have arrived, or a request failed."""
        return not self._left or bool(self._failures)

    def pump(self, resume_at: Mapping[BrokerConnection, float]) -> float:
        """Send up to the in-flight limit; returns the seconds to wait for events at most."""
        longest = _MAX_WAIT_SECONDS
        for connection, queue in self._queues.items():
            pause = resume_at.get(connection, 0.0) - time.monotonic()
            if pause > 0 and queue:
                longest = min(longest, pause)
                continue
            while queue and self._in_flight[connection] < _MAX_IN_FLIGHT and not self.is_over:
                self._send(connection, queue.popleft())
        return 0.0 if self.is_over else longest

    def _send(self, connection: BrokerConnection, at: int) -> None:
        request, is_raw = self._sends[at].request, self._sends[at].is_raw
        self._in_flight[connection] += 1
        (connection.request_raw if is_raw else connection.request)(
            request.message,
            partial(self._on_raw if is_raw else self._on_response, connection, at),
            self._failures.append,
            newest=request.newest,
            oldest=request.oldest,
            timeout_seconds=self._timeout_seconds,
        )

    def _on_raw(self, connection: BrokerConnection, at: int, frame: memoryview) -> None:
        self._on_response(connection, at, RawResponse(self._sends[at].request.message, frame))

    def _on_response(self, connection: BrokerConnection, at: int, response: Any) -> None:
        self._in_flight[connection] -= 1
        self._left -= 1
        self.responses[at] = response
        throttled_ms = getattr(response, "throttle_time_ms", None) or 0
        if throttled_ms > 0:
            self._throttles.append((connection, throttled_ms / 1000))

    def take_throttles(self) -> list[tuple[BrokerConnection, float]]:
        """Return and clear the throttled connections, with the seconds to pause."""
        found, self._throttles = self._throttles, []
        return found

    def raise_failure(self) -> None:
        """Raise the first failure, and close connections with outstanding responses."""
        if not self._failures:
            return
        for connection, count in self._in_flight.items():
            if count:
                connection.close("another request failed")
        raise self._failures[0]
