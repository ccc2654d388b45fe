# SPDX-License-Identifier: Apache-2.0
"""Driver and tasks over real TLS sockets on loopback."""

from __future__ import annotations

import json
import math
import socket
import ssl
import struct
import threading
from collections.abc import Callable, Iterator
from dataclasses import replace

import pytest

from sparkmirror.errors import ControlUnreachableError, SetupError, WireError
from sparkmirror.model import ProducerState
from sparkmirror.spark import control_server
from sparkmirror.spark.control_server import ControlServer, EpochTasks
from sparkmirror.task import control_client
from sparkmirror.task.control_client import ControlClient
from sparkmirror.task.control_protocol import (
    MAX_MESSAGE_BYTES,
    SERVER_NAME,
    ControlEndpoint,
    client_context,
    encode_message,
    message_length,
    new_server_context,
)
from sparkmirror.task.messages import (
    PartitionProgress,
    PartitionStart,
    Progress,
    Split,
    TaskSettings,
    TransactionStart,
)
from sparkmirror.task.progress_json import progress_to_json
from sparkmirror.wire.settings import ConnectionSettings, FetchSettings, ProduceSettings
from support.manual_clock import ManualClock
from support.waiting import PATIENCE_SECONDS, eventually

LOOPBACK = "127.0.0.1"
SETTINGS = TaskSettings(
    flow="a->b",
    connector="MirrorSourceConnector",
    source_alias="a",
    consumer=ConnectionSettings("a", ("source.example:9092",), "reader"),
    producer=ConnectionSettings("b", ("target.example:9092",), "writer"),
    fetch=FetchSettings(),
    produce=ProduceSettings(),
    offsets_topic="mm2-offsets.a.internal",
    offsets_partitions=25,
    flush_seconds=5.0,
    buffer_bytes=1 << 26,
    epoch_seconds=300.0,
    lease_seconds=5.0,
)
SPLIT = Split(
    4,
    (
        PartitionStart("t", 0, "a.t", 10, producer=ProducerState(5, 0, 7), is_handed_over=True),
        PartitionStart("t", 1, "a.t", 20, producer=ProducerState(5, 0, 9), is_handed_over=True),
    ),
)
REFUSED = (OSError, WireError, ControlUnreachableError)


class Epoch:
    """An epoch on a running server, and the reports of its tasks."""

    def __init__(self, server: ControlServer, epoch_seconds: float = 300.0) -> None:
        self.server = server
        self.reports: list[Progress] = []
        settings = replace(SETTINGS, epoch_seconds=epoch_seconds)
        self.line = EpochTasks({SPLIT.index: SPLIT}, settings, self.reports.append)
        self.invitation = server.open_epoch(self.line)


@pytest.fixture
def server() -> Iterator[ControlServer]:
    """A control server on a free port."""
    made = ControlServer()
    made.start(LOOPBACK, LOOPBACK)
    try:
        yield made
    finally:
        made.stop()


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> ManualClock:
    """The clocks of the driver and of its tasks, which include suspended time."""
    return ManualClock(monkeypatch, "sparkmirror.spark.control_server", "sparkmirror.system.clock")


@pytest.fixture
def epoch(server: ControlServer) -> Epoch:
    """An epoch of one split."""
    return Epoch(server)


@pytest.fixture
def join() -> Iterator[Callable[[ControlEndpoint], ControlClient]]:
    """Returns a function that registers as the task of the split; disconnects at the end."""
    clients: list[ControlClient] = []

    def connect(invitation: ControlEndpoint) -> ControlClient:
        client = ControlClient(invitation, SPLIT.index)
        clients.append(client)
        client.start(lambda: None)
        return client

    yield connect
    for client in clients:
        client.close()


def progress(position: int, records: int = 1) -> Progress:
    row = PartitionProgress(
        *("t", 0, position + 7, position + 107, 50, records, 10, 0, "", 12, 3, 5, 0),
        stored_position=position,
        stored_downstream=position + 100,
    )
    return Progress(SPLIT.index, 1, (row,), ((3, 1),), 0, 0.0, 0.1, ())


def raw_connection(invitation: ControlEndpoint) -> ssl.SSLSocket:
    """A client without token that trusts the driver's certificate."""
    sock = socket.create_connection((invitation.host, invitation.port), PATIENCE_SECONDS)
    return client_context(invitation.certificate).wrap_socket(sock, server_hostname=SERVER_NAME)


def is_hung_up(stranger: socket.socket) -> bool:
    """Whether the server closed the connection."""
    try:
        return stranger.recv(100) == b""
    except OSError as error:
        return not isinstance(error, TimeoutError)


def test_a_task_with_the_token_gets_its_split_and_the_settings(
    epoch: Epoch, join: Callable[[ControlEndpoint], ControlClient]
) -> None:
    """Both arrive unchanged."""
    client = join(epoch.invitation)

    assert client.split == SPLIT
    assert client.settings == replace(SETTINGS, epoch_seconds=client.settings.epoch_seconds)
    assert epoch.line.unstarted_splits() == []
    assert not client.end_requested


@pytest.mark.parametrize("token", ["", "0" * 32, "größe"])
def test_a_wrong_token_gets_nothing(epoch: Epoch, token: str) -> None:
    """The connection is closed, and the split is still available."""
    with pytest.raises(REFUSED):
        ControlClient(replace(epoch.invitation, token=token), SPLIT.index)

    assert epoch.line.unstarted_splits() == [SPLIT.index]


def test_the_token_of_a_closed_epoch_is_worth_nothing(epoch: Epoch) -> None:
    """A task that Spark starts too late does not copy."""
    epoch.server.close_epoch(epoch.line)

    with pytest.raises(REFUSED):
        ControlClient(epoch.invitation, SPLIT.index)


def test_an_unknown_split_gets_nothing(epoch: Epoch) -> None:
    """Only splits of the plan are handed out."""
    with pytest.raises(REFUSED):
        ControlClient(epoch.invitation, 99)


def test_a_task_that_trusts_another_certificate_refuses(epoch: Epoch) -> None:
    """Without this run's key no process can act as the driver."""
    _context, other = new_server_context()

    with pytest.raises(ssl.SSLError):
        ControlClient(replace(epoch.invitation, certificate=other), SPLIT.index)


def test_progress_arrives(epoch: Epoch, join: Callable[[ControlEndpoint], ControlClient]) -> None:
    """In order and unchanged; the task counts as alive."""
    client = join(epoch.invitation)
    reports = [progress(position) for position in range(50)]
    for report in reports:
        client.report(report)

    eventually(lambda: epoch.reports == reports, PATIENCE_SECONDS, "all reports at the driver")
    assert epoch.line.silent_splits(60) == []


def test_everything_reported_before_hanging_up_arrives(
    epoch: Epoch,
    join: Callable[[ControlEndpoint], ControlClient],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The last report has the final positions."""
    monkeypatch.setattr(control_client, "_FLUSH_SECONDS", PATIENCE_SECONDS)
    client = join(epoch.invitation)
    client.report(progress(41))
    client.report(progress(42))
    client.close()

    eventually(
        lambda: epoch.reports == [progress(41), progress(42)], PATIENCE_SECONDS, "both reports"
    )


def test_the_end_arrives_and_wakes_the_task(monkeypatch: pytest.MonkeyPatch) -> None:
    """At once, not at the next interval."""
    monkeypatch.setattr(control_server, "_ALIVE_SECONDS", 3600.0)
    server, woken = ControlServer(), threading.Event()
    server.start(LOOPBACK, LOOPBACK)
    epoch = Epoch(server)
    client = ControlClient(epoch.invitation, SPLIT.index)
    try:
        client.start(woken.set)

        epoch.server.end_epoch(epoch.line)

        assert woken.wait(PATIENCE_SECONDS)
        assert client.end_requested
    finally:
        client.close()
        server.stop()


def test_a_task_that_comes_after_the_end_is_reported_at_once(
    epoch: Epoch, join: Callable[[ControlEndpoint], ControlClient]
) -> None:
    """It must not copy for a whole epoch."""
    epoch.server.end_epoch(epoch.line)

    client = join(epoch.invitation)

    eventually(lambda: client.end_requested, PATIENCE_SECONDS, "the end")


def test_a_second_attempt_begins_at_the_stored_positions(
    epoch: Epoch, join: Callable[[ControlEndpoint], ControlClient]
) -> None:
    """It compares, because more may have been written; the first attempt is told to end."""
    first = join(epoch.invitation)
    first.report(progress(15))
    eventually(lambda: epoch.reports, PATIENCE_SECONDS, "the report")

    second = join(epoch.invitation)

    assert second.split.partitions == (
        replace(
            SPLIT.partitions[0],
            position=15,
            downstream=115,
            producer=ProducerState(5, 0, 12),
            leader_epoch=3,
            is_handed_over=False,
        ),
        replace(SPLIT.partitions[1], is_handed_over=False),
    )
    eventually(lambda: first.end_requested, PATIENCE_SECONDS, "the first attempt ends")
    assert not second.end_requested
    assert epoch.line.unstarted_splits() == []


def test_all_tasks_of_an_epoch_end_together(
    clock: ManualClock, server: ControlServer, join: Callable[[ControlEndpoint], ControlClient]
) -> None:
    """A task that replaces a dead one gets the remaining time, but enough for a report."""
    epoch = Epoch(server, epoch_seconds=2.0)
    first = join(epoch.invitation)
    clock.advance(0.5)
    second = join(epoch.invitation)
    clock.advance(1.6)
    third = join(epoch.invitation)

    assert first.settings.epoch_seconds == pytest.approx(2.0)
    assert second.settings.epoch_seconds == pytest.approx(1.5)
    assert third.settings.epoch_seconds == 1.0


def test_a_second_attempt_after_a_crash_continues_too(epoch: Epoch) -> None:
    """The first connection is closed when Spark starts the task again."""
    first = ControlClient(epoch.invitation, SPLIT.index)
    first.start(lambda: None)
    first.report(progress(15))
    eventually(lambda: epoch.reports, PATIENCE_SECONDS, "the report")
    first.close()
    eventually(
        lambda: not epoch.line.last_message_at,
        PATIENCE_SECONDS,
        "the driver noticed the end of the first",
    )

    second = ControlClient(epoch.invitation, SPLIT.index)
    second.close()

    assert second.split.partitions[0].position == 15


def test_a_transactional_split_has_one_task_an_epoch(
    server: ControlServer, join: Callable[[ControlEndpoint], ControlClient]
) -> None:
    """Its producer epoch is used up: the second attempt is rejected, and the epoch fails."""
    start = TransactionStart("a-mm2-MirrorSourceConnector-4", 9, 3)
    split = replace(SPLIT, transaction=start)
    line = EpochTasks({SPLIT.index: split}, SETTINGS, lambda _progress: None)
    invitation = server.open_epoch(line)
    assert join(invitation).split == split
    assert line.dead_splits == set()
    with pytest.raises(REFUSED):
        ControlClient(invitation, SPLIT.index)
    assert line.dead_splits == {SPLIT.index}


def test_a_task_of_a_failed_epoch_is_cut_off(
    epoch: Epoch, join: Callable[[ControlEndpoint], ControlClient]
) -> None:
    """It notices at once, and its reports are ignored."""
    client = join(epoch.invitation)
    epoch.server.close_epoch(epoch.line)
    epoch.server.disconnect_epoch(epoch.line)
    eventually(lambda: client.silence_seconds == math.inf, PATIENCE_SECONDS, "the task knows")
    client.report(progress(11))
    assert epoch.reports == []


def test_the_lease_is_kept_alive(
    clock: ManualClock,
    epoch: Epoch,
    join: Callable[[ControlEndpoint], ControlClient],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The driver sends a message about once a second."""
    assert SETTINGS.lease_seconds / 3 > control_server._ALIVE_SECONDS
    monkeypatch.setattr(control_server, "_ALIVE_SECONDS", 0.05)
    client = join(epoch.invitation)
    for _ in range(2):
        clock.advance(3600.0)
        eventually(lambda: client.silence_seconds < 1, PATIENCE_SECONDS, "the driver speaks")


def test_stopping_the_server_ends_its_tasks_promptly() -> None:
    """They notice the closed connection before the lease expires."""
    server = ControlServer()
    server.start(LOOPBACK, LOOPBACK)
    epoch = Epoch(server)
    client = ControlClient(epoch.invitation, SPLIT.index)
    try:
        client.start(lambda: None)
        server.stop()

        eventually(
            lambda: client.silence_seconds > 60,
            PATIENCE_SECONDS,
            "the task knows that the driver is gone",
        )
    finally:
        client.close()


def test_a_task_that_says_nothing_shows_as_silent(
    clock: ManualClock, epoch: Epoch, join: Callable[[ControlEndpoint], ControlClient]
) -> None:
    """A suspended process keeps its connection open and reports nothing."""
    join(epoch.invitation)
    assert epoch.line.silent_splits(5.0) == []
    clock.advance(5.1)

    assert epoch.line.silent_splits(5.0) == [SPLIT.index]


def test_a_split_whose_task_is_gone_waits_for_another_one(
    clock: ManualClock, epoch: Epoch, join: Callable[[ControlEndpoint], ControlClient]
) -> None:
    """A dead executor closes its connections; Spark may have no slot for a second attempt."""
    assert epoch.line.waiting_splits(-1) == [SPLIT.index]
    client = join(epoch.invitation)
    assert epoch.line.waiting_splits(-1) == []

    client.close()

    eventually(lambda: epoch.line.waiting_splits(-1), PATIENCE_SECONDS, "the split waits")
    assert epoch.line.waiting_splits(5.0) == []
    clock.advance(5.1)
    assert epoch.line.waiting_splits(5.0) == [SPLIT.index]
    assert epoch.line.unstarted_splits() == []
    join(epoch.invitation)
    assert epoch.line.waiting_splits(-1) == []


def test_a_split_whose_task_has_finished_does_not_wait(
    epoch: Epoch, join: Callable[[ControlEndpoint], ControlClient]
) -> None:
    """It closes its connection, too."""
    client = join(epoch.invitation)
    client.report_finished()
    client.close()

    eventually(lambda: not epoch.line.last_message_at, PATIENCE_SECONDS, "it is disconnected")
    assert epoch.line.waiting_splits(-1) == []


def test_a_stranger_gets_no_room_before_showing_the_token(epoch: Epoch) -> None:
    """A large first message is rejected by its announced length."""
    with raw_connection(epoch.invitation) as stranger:
        stranger.sendall(struct.pack(">i", 100_000_000) + b"x" * 1_000)

        assert is_hung_up(stranger)
    assert epoch.line.unstarted_splits() == [SPLIT.index]


@pytest.mark.parametrize(
    "hello",
    [
        *(b"not json", b"[]", b"{}", b'{"token": 5}', b'"hello"', b"\xff\xfe", b"[" * 4000),
        *(b'{"token": "\xc3\xa4"}', b'{"token": "\\ud800"}'),
    ],
)
def test_invalid_input_is_rejected_and_the_server_continues(
    epoch: Epoch,
    join: Callable[[ControlEndpoint], ControlClient],
    hello: bytes,
    caplog: pytest.LogCaptureFixture,
) -> None:
    """Tasks are served afterwards, and the log has one line about it."""
    for _ in range(3):
        with raw_connection(epoch.invitation) as stranger:
            stranger.sendall(struct.pack(">i", len(hello)) + hello)
            assert is_hung_up(stranger)

    assert join(epoch.invitation).split == SPLIT
    (record,) = caplog.records
    assert "rejected a connection to the control port" in record.getMessage()
    assert record.exc_info is None


@pytest.mark.parametrize(
    ("said", "why"),
    [
        (b"no JSON", "not JSON"),
        (b'{"type": "progress", "progress": {}}', "invalid report: wrong fields"),
        (b'{"type": "progress"}', "invalid report: wrong fields"),
        (None, "it reports for split 5"),
    ],
)
def test_a_task_whose_report_makes_no_sense_is_named(
    epoch: Epoch, said: bytes | None, why: str, caplog: pytest.LogCaptureFixture
) -> None:
    """One line with flow and split; nothing of the report reaches the flow."""
    if said is None:
        other = progress_to_json(replace(progress(17), split=5))
        said = json.dumps({"type": "progress", "progress": other}).encode()
    with raw_connection(epoch.invitation) as task:
        task.sendall(encode_message({"token": epoch.invitation.token, "split": SPLIT.index}))
        task.sendall(struct.pack(">i", len(said)) + said)
        while not is_hung_up(task):
            pass

    (record,) = caplog.records
    assert record.getMessage().startswith(
        f"{SETTINGS.flow}: disconnecting the task of split {SPLIT.index}: "
    )
    assert why in record.getMessage()
    assert not epoch.line._latest


@pytest.mark.parametrize("split", ["null", "[]", "1e999", '"four"', "{}"])
def test_a_split_that_is_no_number_is_refused(
    epoch: Epoch, split: str, caplog: pytest.LogCaptureFixture
) -> None:
    """Even with a valid token."""
    hello = f'{{"token": "{epoch.invitation.token}", "split": {split}}}'.encode()
    with raw_connection(epoch.invitation) as stranger:
        stranger.sendall(struct.pack(">i", len(hello)) + hello)
        assert is_hung_up(stranger)
    assert [one.levelname for one in caplog.records] == ["WARNING"]
    assert caplog.records[0].exc_info is None


def test_a_plain_connection_without_tls_gets_nothing(
    epoch: Epoch, join: Callable[[ControlEndpoint], ControlClient]
) -> None:
    """The token never crosses unencrypted, and the server continues."""
    where = (epoch.invitation.host, epoch.invitation.port)
    with socket.create_connection(where, PATIENCE_SECONDS) as stranger:
        stranger.sendall(
            encode_message({"type": "hello", "token": epoch.invitation.token, "split": 4})
        )
        answer = b"?"
        try:
            while answer:
                answer = stranger.recv(100)
                assert b"split" not in answer
        except ConnectionResetError:
            pass

    assert join(epoch.invitation).split == SPLIT


@pytest.mark.parametrize("size", [0, -1, MAX_MESSAGE_BYTES + 1])
def test_lengths_that_make_no_sense_are_refused(size: int) -> None:
    """Both ends check before they allocate memory."""
    with pytest.raises(WireError, match=str(size)):
        message_length(struct.pack(">i", size))


def test_a_port_in_use_is_an_error_at_start(server: ControlServer) -> None:
    """The caller can say which port and what to do."""
    epoch = Epoch(server)
    second = ControlServer(epoch.invitation.port)

    with pytest.raises(SetupError, match="in use"):
        second.start(LOOPBACK, LOOPBACK)


def test_the_invitation_does_not_name_clusters(epoch: Epoch) -> None:
    """Brokers and settings are never in the closure."""
    assert "example" not in repr(epoch.invitation)
