# SPDX-License-Identifier: Apache-2.0
"""The driver's end of the control channel: one listener for all flows, on its own thread.

Each epoch has a token. A task that presents it gets its split and keeps its lease while the
connection lives. A second attempt of a Spark task gets what the first one had stored, and the first
one is told to end.
"""

from __future__ import annotations

import asyncio
import contextlib
import hmac
import json
import logging
import secrets
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

from sparkmirror.errors import SetupError, WireError
from sparkmirror.model import ProducerState
from sparkmirror.spark.control_acceptor import ControlAcceptor
from sparkmirror.system.clock import steady_clock
from sparkmirror.system.log_scope import current_scope, log_scope
from sparkmirror.task.control_protocol import (
    LENGTH,
    MAX_MESSAGE_BYTES,
    ControlEndpoint,
    encode_message,
    message_length,
    new_server_context,
)
from sparkmirror.task.messages import (
    PartitionProgress,
    Progress,
    Split,
    TaskSettings,
    split_to_json,
    task_settings_to_json,
)
from sparkmirror.task.progress_json import progress_from_json

_ALIVE_SECONDS = 1.0
_MIN_EPOCH_SECONDS = 1.0  # for a task that registers late
_HELLO_SECONDS = 10.0
_HELLO_BYTES = 4096  # limit before the token is verified
_log = logging.getLogger(__name__)


class EpochTasks:
    """All control connections of one epoch; read by the flow's thread, written by the server's."""

    def __init__(
        self,
        splits: Mapping[int, Split],
        settings: TaskSettings,
        on_progress: Callable[[Progress], None],
    ) -> None:
        self.token = secrets.token_hex(16)
        self.settings = settings
        self.log_scope = current_scope()  # of the connector that plans the epoch
        self.is_ending = False
        self._splits = dict(splits)
        self._deadline = 0.0  # set when the first task registers
        self._on_progress = on_progress
        self._latest: dict[int, dict[tuple[str, int], PartitionProgress]] = {}
        self._writers: dict[int, asyncio.StreamWriter] = {}
        self.dead_splits: set[int] = set()  # splits that this epoch cannot continue
        self.cancel_reason = ""  # why the driver cancelled it
        self.last_message_at: dict[int, float] = {}  # by split with a connected task
        self._waiting_since = dict.fromkeys(splits, steady_clock())  # splits without a task
        self._started: set[int] = set()
        self._finished: set[int] = set()

    def register(self, index: int, writer: asyncio.StreamWriter) -> Split:
        """Register a task. Returns its split, as far as an earlier attempt has stored it."""
        previous = self._writers.get(index)
        split = self._splits.get(index)
        if split is None:
            raise WireError(f"unknown split {index}")
        if previous is not None and split.transaction is not None:
            # Its producer epoch is used up, and only the offsets topic has what was committed.
            self.dead_splits.add(index)
            raise WireError(f"split {index} already had a task; the next epoch continues it")
        if previous is not None:
            _log.warning(
                "%s: split %d has a new task: the previous one died; comparing both clusters",
                self.settings.flow,
                index,
            )
            previous.write(encode_message({"type": "end"}))
            split = self.resumed_split(index)
        self._writers[index] = writer
        self._started.add(index)
        self._finished.discard(index)  # its result was lost: Spark runs it again
        self._waiting_since.pop(index, None)
        self.last_message_at[index] = steady_clock()
        return split

    def remaining_settings(self) -> TaskSettings:
        """Return the settings with the rest of the epoch's time, so that all tasks end together.

        A task that started late, or replaced a dead one, would keep the others waiting.
        """
        now = time.monotonic()
        self._deadline = self._deadline or now + self.settings.epoch_seconds
        left = max(self._deadline - now, _MIN_EPOCH_SECONDS)
        return replace(self.settings, epoch_seconds=left)

    def resumed_split(self, index: int) -> Split:
        """Return a split whose task died, from the positions that it last stored."""
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
                    is_handed_over=False,  # more may have been written than was stored
                    map_chunk="",
                )
            )
        return replace(split, partitions=tuple(starts))

    def on_progress(self, index: int, progress: Progress) -> None:
        """Store a task's report."""
        self.last_message_at[index] = steady_clock()
        latest = self._latest.setdefault(index, {})
        for one in progress.partitions:
            latest[one.topic, one.partition] = one
        self._on_progress(progress)

    def broadcast(self, message: dict[str, Any]) -> None:
        """Send a message to every task of the epoch. Server's thread only."""
        for writer in self._writers.values():
            if not writer.is_closing():
                writer.write(encode_message(message))

    def disconnect_all(self) -> None:
        """Close all connections. Server's thread only."""
        for writer in self._writers.values():
            writer.transport.abort()
        self._writers.clear()

    def is_current(self, index: int, writer: asyncio.StreamWriter) -> bool:
        """Whether no later attempt of the task has registered."""
        return self._writers.get(index) is writer

    def on_finished(self, index: int) -> None:
        """Note that a task has copied all it should and returns its receipts."""
        self._finished.add(index)

    def on_disconnect(self, index: int, writer: asyncio.StreamWriter) -> None:
        if self._writers.get(index) is writer:
            self.last_message_at.pop(index, None)
            if index not in self._finished:
                self._waiting_since[index] = steady_clock()

    @property
    def split_count(self) -> int:
        return len(self._splits)

    def unstarted_splits(self) -> list[int]:
        """Return the splits that have never had a task."""
        return [index for index in self._splits if index not in self._started]

    def waiting_splits(self, seconds: float = 0.0) -> list[int]:
        """Return the unfinished splits that have had no task for longer than this."""
        now = steady_clock()
        return [index for index, when in [*self._waiting_since.items()] if now - when > seconds]

    def silent_splits(self, lease_seconds: float) -> list[int]:
        """Return the splits whose task is connected and silent for longer than the lease."""
        now = steady_clock()
        return [
            index for index, when in [*self.last_message_at.items()] if now - when > lease_seconds
        ]


class ControlServer:
    """Started once per process; flows open and close epochs on it."""

    def __init__(self, port: int = 0) -> None:
        self._host = ""
        self._bind_host = ""
        self._port = port
        self._context, self._certificate = new_server_context()
        self._epochs: dict[str, EpochTasks] = {}
        self._loop = asyncio.new_event_loop()
        self._started = threading.Event()
        self._failure: OSError | None = None
        self._acceptor: ControlAcceptor | None = None
        self._thread = threading.Thread(target=self._run, name="control", daemon=True)

    def start(self, host: str, bind_host: str) -> None:
        """Listen on `bind_host`; tasks connect to `host`. Raises SetupError."""
        self._host, self._bind_host = host, bind_host
        self._thread.start()
        self._started.wait()
        if self._failure is not None:
            raise SetupError(
                f"Cannot open the control port on {bind_host}:{self._port}: {self._failure}."
            ) from self._failure

    @property
    def address(self) -> tuple[str, int]:
        """The address that tasks connect to, after `start`."""
        return self._host, self._port

    def stop(self) -> None:
        """Close the listener and every connection."""
        if self._thread.is_alive():
            self._loop.call_soon_threadsafe(self._loop.stop)
            self._thread.join(timeout=5)

    def open_epoch(self, tasks: EpochTasks) -> ControlEndpoint:
        """Accept the tasks of an epoch from now on."""
        self._epochs[tasks.token] = tasks
        return ControlEndpoint(self._host, self._port, tasks.token, self._certificate)

    def close_epoch(self, tasks: EpochTasks) -> None:
        """Accept no more tasks of an epoch."""
        self._epochs.pop(tasks.token, None)

    def disconnect_epoch(self, tasks: EpochTasks) -> None:
        """Close all connections of a failed epoch; its remaining tasks end by their lease."""
        with contextlib.suppress(RuntimeError):  # the server has stopped
            self._loop.call_soon_threadsafe(tasks.disconnect_all)

    def end_epoch(self, tasks: EpochTasks) -> None:
        """Tell every task of an epoch to finish. Thread-safe."""
        tasks.is_ending = True
        self._loop.call_soon_threadsafe(tasks.broadcast, {"type": "end"})

    def _run(self) -> None:
        asyncio.set_event_loop(self._loop)
        try:
            self._port = self._loop.run_until_complete(self._listen())
        except OSError as error:
            self._failure = error
            self._loop.close()
            self._started.set()
            return
        self._started.set()
        keep_alive = self._loop.create_task(self._keep_alive())
        try:
            self._loop.run_forever()
        finally:
            keep_alive.cancel()
            pending = asyncio.all_tasks(self._loop)
            for task in pending:
                task.cancel()
            self._loop.run_until_complete(asyncio.gather(*pending, return_exceptions=True))
            if self._acceptor is not None:
                self._acceptor.close()
            self._loop.run_until_complete(asyncio.sleep(0))  # sockets close in the next iteration
            self._loop.close()

    async def _listen(self) -> int:
        self._acceptor = ControlAcceptor(self._context, self._serve)
        return await self._acceptor.listen(self._bind_host, self._port)

    async def _keep_alive(self) -> None:
        while True:
            for tasks in [*self._epochs.values()]:
                tasks.broadcast({"type": "alive"})
            await asyncio.sleep(_ALIVE_SECONDS)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        tasks: EpochTasks | None = None
        index = -1
        try:
            hello = await asyncio.wait_for(_receive(reader, _HELLO_BYTES), _HELLO_SECONDS)
            tasks = self._epoch_for_token(hello.get("token"))
            index = _split_index(hello)
            with log_scope(tasks.log_scope):
                split = tasks.register(index, writer)
                self._mark_authenticated()
                writer.write(
                    encode_message(
                        {
                            "type": "split",
                            "split": split_to_json(split),
                            "settings": task_settings_to_json(tasks.remaining_settings()),
                        }
                    )
                )
                if tasks.is_ending:
                    writer.write(encode_message({"type": "end"}))
                await _read_reports(reader, writer, tasks, index)
        except (asyncio.IncompleteReadError, ConnectionError, asyncio.CancelledError):
            return  # the task disconnected, or the server stops
        except (WireError, TimeoutError) as error:
            self._log_rejection(str(error) or "no message received")
        finally:
            if tasks is not None:
                tasks.on_disconnect(index, writer)
            writer.transport.abort()  # without TLS close_notify, which would wait

    def _epoch_for_token(self, token: object) -> EpochTasks:
        presented = str(token).encode(errors="replace")
        for known, tasks in [*self._epochs.items()]:
            if hmac.compare_digest(known.encode(), presented):
                return tasks
        raise WireError("unknown token")

    def _mark_authenticated(self) -> None:
        if self._acceptor is not None:
            self._acceptor.mark_authenticated()

    def _log_rejection(self, reason: str) -> None:
        if self._acceptor is not None:
            self._acceptor.log_rejection(reason)


async def _receive(
    reader: asyncio.StreamReader, max_bytes: int = MAX_MESSAGE_BYTES
) -> dict[str, Any]:
    size = message_length(await reader.readexactly(LENGTH.size), max_bytes)
    body = await reader.readexactly(size)
    try:
        message = json.loads(body)
    except (ValueError, RecursionError) as error:
        raise WireError("a control message is not JSON") from error
    if not isinstance(message, dict):
        raise WireError("a control message is not a JSON object")
    return message


def _split_index(hello: dict[str, Any]) -> int:
    index = hello.get("split")
    if not isinstance(index, int):
        raise WireError("a task did not name its split")
    return index


async def _read_reports(
    reader: asyncio.StreamReader, writer: asyncio.StreamWriter, tasks: EpochTasks, index: int
) -> None:
    """Read a task's reports until it disconnects or sends an invalid message."""
    try:
        while True:
            message = await _receive(reader)
            if not tasks.is_current(index, writer):
                continue
            if message.get("type") == "progress":
                tasks.on_progress(index, _parse_report(message, index))
            elif message.get("type") == "finished":
                tasks.on_finished(index)
    except WireError as error:
        flow = tasks.settings.flow
        _log.warning(
            "%s: disconnecting the task of split %d: %s; Spark retries it", flow, index, error
        )


def _parse_report(message: dict[str, Any], index: int) -> Progress:
    try:
        progress = progress_from_json(message.get("progress"))
    except WireError as error:
        raise WireError(f"invalid report: {error}") from error
    if progress.split != index:
        raise WireError(f"it reports for split {progress.split}")
    return progress
