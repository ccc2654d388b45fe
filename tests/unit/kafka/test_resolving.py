# SPDX-License-Identifier: Apache-2.0
"""kafka-python's clients and a resolver that fails or hangs."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator

import pytest
from kafka.errors import KafkaConnectionError
from kafka.net.selector import NetworkSelector

from sparkmirror.kafka.async_resolver import resolve, resolve_blocking
from sparkmirror.wire.dns_resolver import DnsResolver
from support.peers.scripted_resolver import ScriptedResolver

NAME = "broker.example"
HERE = ["127.0.0.1"]
Ask = Callable[[], list[str]]


@pytest.fixture
def scripted(monkeypatch: pytest.MonkeyPatch) -> Iterator[ScriptedResolver]:
    """A resolver that fails, until the test says otherwise."""
    made = ScriptedResolver(monkeypatch)
    yield made
    made.may_answer.set()


@pytest.fixture(params=["beside a loop", "blocking"])
def ask(request: pytest.FixtureRequest) -> Iterator[Ask]:
    """Both ways to look a name up within a second."""
    resolver, net = DnsResolver(), NetworkSelector()

    def beside() -> list[str]:
        until = time.monotonic() + 1.0
        found: list[str] = net.run(resolve, net, NAME, 9092, until, resolver)
        return found

    def blocking() -> list[str]:
        return resolve_blocking(NAME, 9092, 1.0, resolver)

    yield beside if request.param == "beside a loop" else blocking
    net.close()


def test_the_last_addresses_are_used_while_the_resolver_fails(
    scripted: ScriptedResolver, ask: Ask
) -> None:
    """And new ones when it answers again."""
    scripted.leads_to(1)
    assert ask() == HERE
    scripted.places = OSError("the resolver is down")
    assert ask() == HERE


def test_the_last_addresses_are_used_while_the_resolver_hangs(
    scripted: ScriptedResolver, ask: Ask
) -> None:
    """The question that hangs is not asked again."""
    scripted.leads_to(1)
    ask()
    scripted.may_answer.clear()
    assert ask() == ask() == HERE
    assert len(scripted.asked) == 2


def test_a_name_without_an_address_is_a_failure(scripted: ScriptedResolver, ask: Ask) -> None:
    """With the resolver's reason, or after the time that there is."""
    with pytest.raises((KafkaConnectionError, OSError), match="the resolver is down"):
        ask()
    scripted.may_answer.clear()
    with pytest.raises((KafkaConnectionError, OSError), match="not resolved"):
        ask()


def test_a_numeric_address_needs_no_resolver(scripted: ScriptedResolver) -> None:
    """Also one of IPv6."""
    assert resolve_blocking("127.0.0.1", 1, 1.0) == HERE
    assert resolve_blocking("::1", 1, 1.0) == ["::1"]
    assert not scripted.asked
