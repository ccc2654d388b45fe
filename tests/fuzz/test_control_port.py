# SPDX-License-Identifier: Apache-2.0
"""A stranger at the control port gets nothing and disturbs nothing."""

from __future__ import annotations

import json
import logging
import resource
import socket
import ssl
import struct
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import asdict

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sparkmirror.errors import WireError
from sparkmirror.model import TopicPartition
from sparkmirror.spark import control_acceptor, control_server
from sparkmirror.spark.control_server import ControlServer, EpochTasks
from sparkmirror.spark.flow_status import FlowStatus
from sparkmirror.state.incidents import Incident, IncidentKind
from sparkmirror.task import control_client
from sparkmirror.task.control_client import ControlClient
from sparkmirror.task.control_protocol import SERVER_NAME, client_context
from sparkmirror.task.messages import (
    OtherWriter,
    PartitionProgress,
    PartitionStart,
    Progress,
    Split,
    TaskSettings,
    split_to_json,
)
from sparkmirror.task.progress_json import progress_from_json, progress_to_json
from sparkmirror.wire.settings import ConnectionSettings, FetchSettings, ProduceSettings
from support.fuzzing import HUSH, attempt, damaged, fuzzed
from support.waiting import PATIENCE_SECONDS, eventually

LOOPBACK = "127.0.0.1"
SETTINGS = TaskSettings(
    flow="a->b",
    connector="MirrorSourceConnector",
    source_alias="a",
    consumer=ConnectionSettings("a", ("source.example:9092",), HUSH),
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
SPLIT = Split(4, (PartitionStart("t", 0, "a.t", 10),))
ROW = PartitionProgress("t", 0, 17, 117, 50, 1, 10, 0, "")
PROGRESS = Progress(4, 1, (ROW,), ((3, 1),), 0, 0.0, 0.1, ())
HELLO = b'{"type":"hello","token":"0123456789abcdef0123456789abcdef","split":4}'


class Port:
    """A control server with one epoch, and the task that is at work in it."""

    def __init__(self) -> None:
        self.server = ControlServer()
        self.server.start(LOOPBACK, LOOPBACK)
        self.reports: list[Progress] = []
        self.line = EpochTasks({4: SPLIT, 5: SPLIT}, SETTINGS, self.reports.append)
        self.invitation = self.server.open_epoch(self.line)
        self.task = ControlClient(self.invitation, 4)
        self.task.start(lambda: None)

    def stop(self) -> None:
        """Task and server."""
        self.task.close()
        self.server.stop()

    def connect(self) -> socket.socket:
        """A stranger who says nothing."""
        return socket.create_connection((LOOPBACK, self.invitation.port), PATIENCE_SECONDS)

    def encrypted(self) -> ssl.SSLSocket:
        """A stranger who got hold of the certificate."""
        context = client_context(self.invitation.certificate)
        return context.wrap_socket(self.connect(), server_hostname=SERVER_NAME)

    def check_undisturbed(self) -> None:
        """The task reports and is heard."""
        before = len(self.reports)
        self.task.report(PROGRESS)
        eventually(lambda: len(self.reports) == before + 1, PATIENCE_SECONDS, "the task's report")
        eventually(lambda: self.task.silence_seconds < 3, PATIENCE_SECONDS, "the driver speaks")


@pytest.fixture(scope="module")
def port() -> Iterator[Port]:
    """One for all tests here: nothing they do may hurt it."""
    made = Port()
    yield made
    made.stop()


@pytest.fixture
def descriptors() -> Iterator[None]:
    """Enough for both ends of a thousand connections."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(hard, max(soft, 4_096)), hard))
    yield
    resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def answer_to(stranger: socket.socket, said: bytes) -> bytes:
    """All that comes back; the stranger hangs up its end and waits for the other one."""
    heard = b""
    try:
        stranger.sendall(said)
        if not isinstance(stranger, ssl.SSLSocket):
            stranger.shutdown(socket.SHUT_WR)
        while piece := stranger.recv(65_536):
            heard += piece
    except TimeoutError:
        raise AssertionError("the stranger was not sent away") from None
    except OSError:
        pass  # gone: as it should be
    return heard


@given(data=st.data())
@fuzzed()
def test_noise_without_tls_gets_nothing(port: Port, data: st.DataObject) -> None:
    """Nor does the beginning of a handshake, damaged."""
    hello = b"\x16\x03\x01\x00\xc4\x01\x00\x00\xc0\x03\x03" + bytes(range(180))
    with port.connect() as stranger:
        heard = answer_to(stranger, data.draw(damaged([hello, struct.pack(">i", 70) + HELLO])))
    assert len(heard) < 20  # a TLS alert
    port.check_undisturbed()


@given(data=st.data())
@fuzzed()
def test_a_stranger_without_token_gets_nothing(port: Port, data: st.DataObject) -> None:
    """Whatever the first message says, and whatever length it announces."""
    said = data.draw(damaged([HELLO]))
    length = data.draw(st.sampled_from([len(said), len(said), -1, 0, 2**31 - 1, 4097, 2**20]))
    framed = struct.pack(">i", length) + said
    with port.encrypted() as stranger:
        # What is cut off has to end somehow, or the server waits for the rest.
        heard = answer_to(stranger, framed + b"x" * 4097)
    assert heard == b""
    port.check_undisturbed()


@pytest.mark.parametrize(
    "said", [b"[" * 4000, b'{"token":[]}', b'{"token":"\\ud800"}', b'{"split":{}}', b"9" * 4000]
)
def test_what_did_harm_does_no_more(
    port: Port, said: bytes, caplog: pytest.LogCaptureFixture
) -> None:
    """Brackets four thousand deep ended in a stack trace."""
    with caplog.at_level(logging.ERROR), port.encrypted() as stranger:
        assert answer_to(stranger, struct.pack(">i", len(said)) + said) == b""
    assert not caplog.records


@given(data=st.data())
@fuzzed(0.5)
def test_a_task_that_talks_nonsense_hurts_only_itself(port: Port, data: st.DataObject) -> None:
    """With the right token: its connection ends, or what it said makes sense."""
    report = {"type": "progress", "progress": progress_to_json(PROGRESS)}
    said = data.draw(damaged([json.dumps(report).encode()]))
    with port.encrypted() as task:
        token = json.dumps({"token": port.invitation.token, "split": 5}).encode()
        task.sendall(struct.pack(">i", len(token)) + token)
        assert task.recv(4)
        task.sendall(struct.pack(">i", max(1, len(said))) + said)
    eventually(
        lambda: 5 not in port.line.last_message_at, PATIENCE_SECONDS, "the connection has ended"
    )


REPORT = Progress(
    4,
    1,
    (ROW, ROW._replace(partition=1, error_code=29, error="may not")),
    ((3, 1), (7, 2)),
    512,
    1.5,
    0.1,
    ("a gap",),
    "out of reach",
    (OtherWriter("a.t", 0, 77),),
    (Incident(IncidentKind.GAP, "t", 0, 5, 9, 5, "why", 1, "continue"),),
    ("mm2-ledger.a.internal",),
)


@given(data=st.data())
@fuzzed(4)
def test_what_a_task_reports_can_be_calculated_with_and_shown(data: st.DataObject) -> None:
    """Or it is refused before: nothing of it fails in the driver, or in an answer over REST."""
    status = FlowStatus("a->b")
    status.begin_epoch(1, [(TopicPartition("t", n), 0, 100) for n in (0, 1)])
    line = EpochTasks({4: SPLIT}, SETTINGS, status.on_progress)

    def heard(said: bytes) -> None:
        try:
            report = json.loads(said)
        except (ValueError, RecursionError):
            return  # as the server does, before it looks for a report
        line.on_progress(4, progress_from_json(report))
        found = status.snapshot()
        latencies = [asdict(one) for one in (found.replication_latency, found.copy_latency) if one]
        numbers = [found.lag, found.remaining, latencies, found.bytes, found.held_bytes]
        json.dumps([numbers, found.task_cpu_seconds], allow_nan=False)
        "".join((*found.problems, *found.recent_incidents)).encode()
        json.dumps(split_to_json(line.resumed_split(4)), allow_nan=False).encode()

    attempt(
        heard, data.draw(damaged([json.dumps(progress_to_json(REPORT)).encode()])), (WireError,)
    )


@pytest.mark.parametrize("is_encrypted", [False, True])
def test_a_slow_client_is_not_waited_for(
    port: Port, monkeypatch: pytest.MonkeyPatch, *, is_encrypted: bool
) -> None:
    """A byte now and then keeps no door open."""
    if is_encrypted:
        monkeypatch.setattr(control_server, "_HELLO_SECONDS", 0.3)
    else:
        monkeypatch.setattr(control_acceptor, "HANDSHAKE_SECONDS", 0.3)
    with port.encrypted() if is_encrypted else port.connect() as stranger:
        stranger.settimeout(0.1)
        for byte in b"\x00\x00\x04\x00" + b"{" * 600:  # a minute
            try:
                stranger.sendall(bytes((byte,)))
                if not stranger.recv(100):
                    break
            except TimeoutError:
                continue
            except OSError:
                break
        else:
            pytest.fail("still connected")
    port.check_undisturbed()


@pytest.mark.usefixtures("descriptors")
def test_a_thousand_silent_strangers_keep_no_task_waiting(
    port: Port, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Those who idle go first, and the log does not fill with them."""
    rounds = 1_000 / control_acceptor.MAX_UNAUTHENTICATED
    assert rounds * control_acceptor._IDLE_SECONDS < control_client._CONNECT_SECONDS
    monkeypatch.setattr(control_acceptor, "_IDLE_SECONDS", 0.2)
    monkeypatch.setattr(control_client, "_CONNECT_SECONDS", PATIENCE_SECONDS)
    with ExitStack() as stack:
        for _ in range(1_000):
            stack.enter_context(port.connect())
        client = ControlClient(port.invitation, 5)
        client.close()
        port.check_undisturbed()
    assert client.split.index == SPLIT.index
    assert len([one for one in caplog.records if one.levelno >= logging.WARNING]) < 5
