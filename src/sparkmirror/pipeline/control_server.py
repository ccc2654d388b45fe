# SPDX-License-Identifier: Apache-2.0
"""The driver's end of the control channel: one listener for all flows, on a thread of its own.

Each epoch has a token; a task that shows it gets its split and keeps its lease as long as the
connection lives. A task that Spark runs again for the same split gets what the first one had
reported, and the first one is told to end.

Whoever reaches the port can connect. Connections are accepted here, one by one, so that those whose
handshake or hello is still to come can be counted: there are few, none for long, and a newcomer
takes the place of the oldest.
"""

from __future__ import annotations

import asyncio
import contextlib
import hmac
import json
import logging
import secrets
import socket
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from typing import Any

from sparkmirror.attempts import Attempts, shown
from sparkmirror.errors import WireError
from sparkmirror.model import ProducerState
from sparkmirror.pipeline.contract import (
    PartitionProgress,
    Progress,
    Split,
    TaskSettings,
    progress_from_json,
    split_to_json,
    task_settings_to_json,
)
from sparkmirror.pipeline.control_channel import (
    LENGTH,
    MAX_MESSAGE_BYTES,
    Invitation,
    check_length,
    encode,
    new_identity,
)

_ALIVE_SECONDS = 1.0
_SHORTEST_SECONDS = 1.0  # that a task gets
_HANDSHAKE_SECONDS = 5.0
_HELLO_SECONDS = 10.0
_STRANGERS = 64  # connections without a hello, beside those of tasks
_PER_SPLIT = 4  # Spark may run a task several times
_BACKLOG = 128
_PAUSE_SECONDS = 0.1  # when the system has no descriptor for a connection
_HELLO_BYTES = 4096  # nobody gets more room before the token is checked
_log = logging.getLogger(__name__)


class EpochLine:
    """All control connections of one epoch; read by the flow's thread, written by the server's."""

    def __init__(
        self,
        splits: Mapping[int, Split],
        settings: TaskSettings,
        on_progress: Callable[[Progress], None],
    ) -> None:
        self.token = secrets.token_hex(16)
        self.settings = settings
        self.is_ending = False
        self._splits = dict(splits)
        self._deadline = 0.0  # set by the first task that checks in
        self._on_progress = on_progress
        self._latest: dict[int, dict[tuple[str, int], PartitionProgress]] = {}
        self._writers: dict[int, asyncio.StreamWriter] = {}
        self.broken: set[int] = set()  # splits that this epoch cannot go on with
        self.verdict = ""  # why the driver ended it
        self.heard: dict[int, float] = {}  # split -> when it last spoke

    def check_in(self, index: int, writer: asyncio.StreamWriter) -> Split:
        """The split for a task, as far as an earlier attempt has brought it."""
        previous = self._writers.get(index)
        split = self._splits[index]
        if previous is not None and split.transaction is not None:
            # Its identity is used up, and only the offsets topic knows what was committed.
            self.broken.add(index)
            raise WireError(f"split {index} has had its task; the next epoch goes on with it")
        if previous is not None:
            _log.warning(
                "%s: split %d has a new task: the one before died", self.settings.flow, index
            )
            previous.write(encode({"type": "end"}))
            split = self.resumed(index)
        self._writers[index] = writer
        self.heard[index] = time.monotonic()
        return split

    def settings_now(self) -> TaskSettings:
        """The settings with what is left of the epoch: all its tasks end together.

        One that began late, or took the place of a dead one, would keep the others waiting.
        """
        now = time.monotonic()
        self._deadline = self._deadline or now + self.settings.epoch_seconds
        left = max(self._deadline - now, _SHORTEST_SECONDS)
        return replace(self.settings, epoch_seconds=left)

    def resumed(self, index: int) -> Split:
        """A split whose task died, from the positions that it last reported."""
        split = self._splits[index]
        latest = self._latest.get(index, {})
        starts = []
        for start in split.partitions:
            known = latest.get((start.topic, start.partition))
            starts.append(
                replace(
                    start,
                    position=known.stored_position if known else start.position,
                    downstream=known.stored_downstream if known else start.downstream,
                    producer=ProducerState(
                        known.producer_id, known.producer_epoch, known.next_sequence
                    )
                    if known
                    else start.producer,
                    leader_epoch=known.leader_epoch if known else start.leader_epoch,
                    is_handed_over=False,  # more may have landed than was stored
                    map_chunk="",
                )
            )
        return replace(split, partitions=tuple(starts))

    def progressed(self, index: int, progress: Progress) -> None:
        """Note what a task reported."""
        self.heard[index] = time.monotonic()
        latest = self._latest.setdefault(index, {})
        for one in progress.partitions:
            latest[one.topic, one.partition] = one
        self._on_progress(progress)

    def broadcast(self, message: dict[str, Any]) -> None:
        """Say something to every task of the epoch (server's thread only)."""
        for writer in self._writers.values():
            if not writer.is_closing():
                writer.write(encode(message))

    def hang_up(self) -> None:
        """Hear nobody any more (server's thread only)."""
        for writer in self._writers.values():
            writer.transport.abort()
        self._writers.clear()

    def is_current(self, index: int, writer: asyncio.StreamWriter) -> bool:
        """Whether no later attempt of the task has checked in."""
        return self._writers.get(index) is writer

    def forget(self, index: int, writer: asyncio.StreamWriter) -> None:
        """A connection ended."""
        if self._writers.get(index) is writer:
            self.heard.pop(index, None)

    def silent_splits(self, lease_seconds: float) -> list[int]:
        """Splits whose task is connected and has said nothing for longer than the lease."""
        now = time.monotonic()
        return [index for index, when in [*self.heard.items()] if now - when > lease_seconds]

    @property
    def size(self) -> int:
        """How many splits there are."""
        return len(self._splits)

    @property
    def checked_in(self) -> int:
        """How many splits have a task."""
        return len(self._writers)


class ControlServer:
    """Started once per process; flows open and close lines on it."""

    def __init__(self, host: str, bind_host: str, port: int = 0) -> None:
        self._host = host
        self._bind_host = bind_host
        self._port = port
        self._context, self._certificate = new_identity()
        self._lines: dict[str, EpochLine] = {}
        self._loop = asyncio.new_event_loop()
        self._started = threading.Event()
        self._failure: OSError | None = None
        self._sockets: list[socket.socket] = []
        self._strangers: dict[asyncio.Task[None], None] = {}  # in the order in which they came
        self._refused = Attempts(_log)
        self._crowded = Attempts(_log)
        self._thread = threading.Thread(target=self._run, name="control", daemon=True)

    def start(self) -> None:
        """Listen; raises OSError if the port cannot be had."""
        self._thread.start()
        self._started.wait()
        if self._failure is not None:
            raise self._failure

    def stop(self) -> None:
        """Close the listener and every connection."""
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(timeout=5)

    def open(self, line: EpochLine) -> Invitation:
        """Expect the tasks of an epoch."""
        self._lines[line.token] = line
        return Invitation(self._host, self._port, line.token, self._certificate)

    def close(self, line: EpochLine) -> None:
        """The epoch is over."""
        self._lines.pop(line.token, None)

    def cut_off(self, line: EpochLine) -> None:
        """The epoch failed: whoever still runs in it is heard no more, and ends by itself."""
        with contextlib.suppress(RuntimeError):  # the server has stopped: nobody is connected
            self._loop.call_soon_threadsafe(line.hang_up)

    def end(self, line: EpochLine) -> None:
        """Tell every task of an epoch to finish; callable from any thread."""
        line.is_ending = True
        self._loop.call_soon_threadsafe(line.broadcast, {"type": "end"})

    def _run(self) -> None:
        asyncio.set_event_loop(self._loop)
        try:
            self._sockets = _listen(self._bind_host, self._port)
        except OSError as error:
            self._failure = error
            self._loop.close()
            self._started.set()
            return
        self._port = self._sockets[0].getsockname()[1]
        self._started.set()
        running = [self._loop.create_task(self._accept(one)) for one in self._sockets]
        running.append(self._loop.create_task(self._keep_alive()))
        try:
            self._loop.run_forever()
        finally:
            pending = asyncio.all_tasks(self._loop)
            for task in pending:
                task.cancel()
            self._loop.run_until_complete(asyncio.gather(*pending, return_exceptions=True))
            self._loop.run_until_complete(asyncio.sleep(0))  # sockets close in the next turn
            for one in self._sockets:
                one.close()
            self._loop.close()

    async def _keep_alive(self) -> None:
        while True:
            for line in [*self._lines.values()]:
                line.broadcast({"type": "alive"})
            await asyncio.sleep(_ALIVE_SECONDS)

    async def _accept(self, listening: socket.socket) -> None:
        while True:
            try:
                connection, _address = await self._loop.sock_accept(listening)
            except ConnectionError:
                continue  # it was gone before we looked
            except OSError as error:
                self._crowded.note(f"a control connection cannot be taken: {error}")
                await asyncio.sleep(_PAUSE_SECONDS)
                continue
            self._make_room()
            newcomer = self._loop.create_task(self._greet(connection))
            self._strangers[newcomer] = None
            newcomer.add_done_callback(partial(self._gone, connection))

    def _gone(self, connection: socket.socket, task: asyncio.Task[None]) -> None:
        """Closes what a task that was called off before it began has left open."""
        self._strangers.pop(task, None)
        connection.close()

    def _make_room(self) -> None:
        most = _STRANGERS + _PER_SPLIT * sum(line.size for line in [*self._lines.values()])
        while len(self._strangers) >= most:
            oldest = next(iter(self._strangers))
            del self._strangers[oldest]
            oldest.cancel()
            self._crowded.note(f"{most} control connections have said no hello: the oldest ends")

    async def _greet(self, connection: socket.socket) -> None:
        reader = asyncio.StreamReader(loop=self._loop)
        protocol = asyncio.StreamReaderProtocol(reader, loop=self._loop)
        try:
            transport, _ = await self._loop.connect_accepted_socket(
                lambda: protocol,
                connection,
                ssl=self._context,
                ssl_handshake_timeout=_HANDSHAKE_SECONDS,
            )
        except (OSError, asyncio.CancelledError) as error:  # ssl.SSLError is an OSError
            if isinstance(error, OSError) and not isinstance(error, ConnectionResetError):
                reason = getattr(error, "reason", None) or error
                self._refused.note(f"a control connection has failed: {shown(str(reason))}")
            return
        await self._serve(reader, asyncio.StreamWriter(transport, protocol, reader, self._loop))

    def _is_known(self) -> None:
        """Whoever this task talks to has shown its token, and is nobody's newcomer."""
        task = asyncio.current_task()
        if task is not None:
            self._strangers.pop(task, None)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        line: EpochLine | None = None
        index = -1
        try:
            hello = await asyncio.wait_for(_receive(reader, _HELLO_BYTES), _HELLO_SECONDS)
            line = self._line(str(hello["token"]))
            index = int(hello["split"])
            split = line.check_in(index, writer)
            self._is_known()
            writer.write(
                encode(
                    {
                        "type": "split",
                        "split": split_to_json(split),
                        "settings": task_settings_to_json(line.settings_now()),
                    }
                )
            )
            if line.is_ending:
                writer.write(encode({"type": "end"}))
            while True:
                message = await _receive(reader)
                if message["type"] == "progress" and line.is_current(index, writer):
                    line.progressed(index, progress_from_json(message["progress"]))
        except (asyncio.IncompleteReadError, ConnectionError, asyncio.CancelledError):
            return  # the task hung up, or the server ends
        except _NONSENSE as error:
            if line is None:
                reason = shown(str(error) or type(error).__name__)
                self._refused.note(f"a connection to the control port was refused: {reason}")
            else:
                _log.warning("a connection to the control port was refused: %s", error)
        finally:
            if line is not None:
                line.forget(index, writer)
            writer.transport.abort()  # nothing is left to say; a TLS farewell would wait

    def _line(self, token: str) -> EpochLine:
        for known, line in [*self._lines.items()]:
            if hmac.compare_digest(known.encode(), token.encode()):
                return line
        raise WireError("unknown token")


# What a message can be wrong with; json knows no depth, and int() no bounds.
_NONSENSE = (
    WireError,
    KeyError,
    ValueError,
    TypeError,
    OverflowError,
    RecursionError,
    TimeoutError,
)


def _listen(host: str, port: int) -> list[socket.socket]:
    """All addresses of the host, on one port; 0 is any free one."""
    bound: list[socket.socket] = []
    found = socket.getaddrinfo(host or None, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
    try:
        for family, _, _, _, address in dict.fromkeys(found):
            at = (address[0], bound[0].getsockname()[1] if bound else port)
            bound.append(socket.create_server(at, family=family, backlog=_BACKLOG))
    except OSError:
        for one in bound:
            one.close()
        raise
    for one in bound:
        one.setblocking(False)
    return bound


async def _receive(reader: asyncio.StreamReader, most: int = MAX_MESSAGE_BYTES) -> dict[str, Any]:
    size = check_length(await reader.readexactly(LENGTH.size), most)
    message = json.loads(await reader.readexactly(size))
    if not isinstance(message, dict):
        raise WireError("a control message is no JSON object")
    return message
