# SPDX-License-Identifier: Apache-2.0
"""Names are resolved beside the loop, and a resolver that fails takes no broker away."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from queue import SimpleQueue

import pytest

from sparkmirror.wire.connection import BrokerConnection
from sparkmirror.wire.dialing import Address
from sparkmirror.wire.dns_resolver import CACHED_AFTER_SECONDS as RESOLVER_PATIENCE
from sparkmirror.wire.dns_resolver import DnsResolver, Resolution
from sparkmirror.wire.event_loop import EventLoop
from sparkmirror.wire.settings import ConnectionSettings
from support.clients.wire_requests import Outcome, run_until
from support.manual_clock import WIRE, ManualClock
from support.peers.scripted_resolver import ScriptedResolver
from support.peers.secure_broker import SecureBroker
from support.waiting import PATIENCE_SECONDS, eventually

NAME = "broker.example"
SETTINGS = ConnectionSettings("b", (), "test", PATIENCE_SECONDS, PATIENCE_SECONDS)
_opened: list[BrokerConnection] = []


@pytest.fixture
def scripted(monkeypatch: pytest.MonkeyPatch) -> Iterator[ScriptedResolver]:
    """A resolver that fails, until the test says otherwise."""
    made = ScriptedResolver(monkeypatch)
    yield made
    made.may_answer.set()


@pytest.fixture
def loop() -> Iterator[EventLoop]:
    """A loop that the test turns."""
    made = EventLoop()
    yield made
    while _opened:
        _opened.pop().close("the test is over")
    made.close()


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> ManualClock:
    """The clock of the loop and its connections."""
    return ManualClock(monkeypatch, *WIRE)


@pytest.fixture
def peer() -> Iterator[SecureBroker]:
    """A broker that lets everybody in."""
    with SecureBroker() as made:
        yield made


@pytest.fixture
def resolver() -> DnsResolver:
    """A resolver of its own, so that no test knows what another one found."""
    return DnsResolver()


def ask(resolver: DnsResolver) -> Resolution:
    """Look the name up and wait for the answer."""
    answers: SimpleQueue[Resolution] = SimpleQueue()
    resolver.resolve(NAME, 9092, answers.put)
    return answers.get(timeout=PATIENCE_SECONDS)


def send(
    loop: EventLoop,
    resolver: DnsResolver,
    address: Address,
    settings: ConnectionSettings = SETTINGS,
) -> Outcome:
    """Begin a request on a new connection."""
    outcome = Outcome()
    connection = BrokerConnection(loop, settings, address, resolver=resolver)
    _opened.append(connection)
    outcome.send(connection, [b"echo"])
    return outcome


def test_the_loop_continues_while_the_resolver_hangs(
    loop: EventLoop, resolver: DnsResolver, scripted: ScriptedResolver, peer: SecureBroker
) -> None:
    """Another connection is served meanwhile; the one by name is, when the name is known."""
    scripted.may_answer.clear()
    waiting = send(loop, resolver, Address(NAME, 9092))
    other = send(loop, resolver, Address("127.0.0.1", peer.address.port))
    run_until(loop, lambda: other.is_over)
    assert other.replies
    assert not waiting.is_over

    scripted.leads_to(peer.address.port)
    scripted.may_answer.set()
    run_until(loop, lambda: waiting.is_over)
    assert waiting.replies


def test_a_numeric_address_needs_no_resolver(
    loop: EventLoop, resolver: DnsResolver, peer: SecureBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And no thread."""

    def look_up(*_args: object) -> None:
        raise AssertionError("the resolver was asked")

    monkeypatch.setattr(resolver, "resolve", look_up)
    outcome = send(loop, resolver, Address("127.0.0.1", peer.address.port))
    run_until(loop, lambda: outcome.is_over)
    assert outcome.replies


@pytest.mark.parametrize("trouble", [OSError("no server"), UnicodeError("label too long")])
def test_a_name_that_does_not_resolve_is_a_failure_with_the_reason(
    loop: EventLoop, resolver: DnsResolver, scripted: ScriptedResolver, trouble: Exception
) -> None:
    """As long as it never did."""
    scripted.places = trouble
    outcome = send(loop, resolver, Address(NAME, 9092))
    run_until(loop, lambda: outcome.is_over)
    (failure,) = outcome.failures
    assert "cluster 'b': broker broker.example:9092: the host name does not resolve" in str(failure)
    assert str(trouble) in str(failure)


def test_the_last_addresses_are_used_when_the_resolver_fails(
    loop: EventLoop, resolver: DnsResolver, scripted: ScriptedResolver, peer: SecureBroker
) -> None:
    """A resolver that is down takes no broker away."""
    scripted.leads_to(peer.address.port)
    ask(resolver)
    scripted.places = OSError("the resolver is down")

    outcome = send(loop, resolver, Address(NAME, 9092))
    run_until(loop, lambda: outcome.is_over)
    assert outcome.replies


def test_the_last_addresses_are_used_when_the_resolver_hangs(
    clock: ManualClock,
    loop: EventLoop,
    resolver: DnsResolver,
    scripted: ScriptedResolver,
    peer: SecureBroker,
) -> None:
    """After some patience."""
    scripted.leads_to(peer.address.port)
    ask(resolver)
    scripted.may_answer.clear()

    outcome = send(loop, resolver, Address(NAME, 9092))
    loop.run_once(0.0)
    assert not outcome.is_over
    clock.advance(RESOLVER_PATIENCE)
    run_until(loop, lambda: outcome.is_over)
    assert outcome.replies


def test_a_name_that_is_never_resolved_is_given_up(
    clock: ManualClock, loop: EventLoop, resolver: DnsResolver, scripted: ScriptedResolver
) -> None:
    """After the time that opening a connection may take."""
    scripted.may_answer.clear()
    outcome = send(
        loop, resolver, Address(NAME, 9092), replace(SETTINGS, connect_timeout_seconds=5.0)
    )
    clock.advance(4.9)
    loop.run_once(0.0)
    assert not outcome.is_over
    clock.advance(0.2)
    loop.run_once(0.0)
    (failure,) = outcome.failures
    assert "the host name was not resolved within 5 s" in str(failure)


def test_new_addresses_are_taken_when_the_resolver_answers_again(
    resolver: DnsResolver, scripted: ScriptedResolver
) -> None:
    """A broker may have moved during the outage."""
    scripted.leads_to(1)
    ask(resolver)
    scripted.places = OSError("the resolver is down")
    during = ask(resolver)
    assert [one[4][1] for one in during.addresses] == [1]
    assert "the resolver is down" in during.error
    scripted.leads_to(2)
    after = ask(resolver)
    assert [one[4][1] for one in after.addresses] == [2]
    assert not after.error
    assert resolver.cached(NAME, 9092) == after.addresses


def test_names_wait_for_a_bounded_number_of_threads(scripted: ScriptedResolver) -> None:
    """One question for a name, however many ask; all are answered in the end."""
    resolver, answers = DnsResolver(), SimpleQueue[Resolution]()
    scripted.may_answer.clear()
    scripted.leads_to(1)
    for number in range(20):
        for _ in range(3):
            resolver.resolve(f"b{number}.example", 9092, answers.put)
    eventually(lambda: len(scripted.asked) == 4, PATIENCE_SECONDS, "four names are asked for")
    resolver.resolve("last.example", 9092, answers.put)
    assert len(scripted.asked) == 4
    scripted.may_answer.set()
    for _ in range(61):
        assert answers.get(timeout=PATIENCE_SECONDS).addresses
    assert len(scripted.asked) == 21
