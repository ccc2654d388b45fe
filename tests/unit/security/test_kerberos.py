# SPDX-License-Identifier: Apache-2.0
"""Who hears of which failure of the KDC; a stand-in for the library, tests/kerberos has it all."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any, NoReturn

import pytest

from sparkmirror.errors import AuthenticationError
from sparkmirror.model import Secret
from sparkmirror.security import kerberos as module
from sparkmirror.security.kerberos import TicketSource
from sparkmirror.security.settings import KerberosSettings
from support.waiting import PATIENCE_SECONDS, eventually

SETTINGS = KerberosSettings(principal="me@HERE", keytab=Secret("AAAA"), uses_ticket_cache=False)
ONE, TWO = "kafka/one", "kafka/two"
FAILURE = 13 << 16
WRONG_KEY, UNKNOWN_SERVICE, NO_KDC = 2529638936, 2529638919, 2529639068


class GSSError(Exception):
    """As the library's."""

    maj_code = FAILURE

    def __init__(self, code: int) -> None:
        super().__init__()
        self.min_code = code

    def get_all_statuses(self, _code: int, _is_major: bool) -> list[str]:
        """What the library says."""
        return ["its words"]


class Kdc:
    """Counts who asks for a first ticket, and refuses it with a code while there is one."""

    def __init__(self) -> None:
        self.asked = 0
        self.code = 0

    def credentials(self, **_options: object) -> Any:
        """What the library asks for."""
        self.asked += 1
        if self.code:
            raise GSSError(self.code)
        return SimpleNamespace(lifetime=100)


@pytest.fixture
def kdc(monkeypatch: pytest.MonkeyPatch) -> Kdc:
    """One that lets us in."""
    made = Kdc()
    kinds = SimpleNamespace(kerberos_principal=1, kerberos=1)
    library = SimpleNamespace(
        Credentials=made.credentials,
        Name=lambda *_args, **_options: None,
        NameType=kinds,
        MechType=kinds,
        exceptions=SimpleNamespace(GSSError=GSSError),
    )
    monkeypatch.setattr(module, "import_gssapi", lambda: library)
    return made


def refuse(code: int) -> Callable[[object], NoReturn]:
    """The KDC gives no ticket for a service."""

    def work(_credentials: object) -> NoReturn:
        raise GSSError(code)

    return work


def fail(tickets: TicketSource, service: str = ONE) -> str:
    """Why there is no ticket."""
    with pytest.raises(AuthenticationError) as caught:
        tickets.with_credentials(service, lambda _credentials: None)
    return str(caught.value)


def test_a_wrong_key_is_not_shown_to_the_kdc_again_and_again(
    kdc: Kdc, monkeypatch: pytest.MonkeyPatch
) -> None:
    """KDCs lock accounts; later callers get the same error during the pause."""
    now = [100.0]
    monkeypatch.setattr(module.time, "monotonic", lambda: now[0])
    kdc.code = WRONG_KEY
    tickets, attempts = TicketSource(SETTINGS), []
    for second in range(60):
        now[0] = 100.0 + second
        assert "export the keytab again" in fail(tickets, ONE)
        assert "export the keytab again" in fail(tickets, TWO)
        attempts.append(kdc.asked)

    assert attempts[0] == 1
    assert attempts[-1] == 6  # after 1, 3, 7, 15 and 31 s


def test_another_keytab_is_tried_at_once(kdc: Kdc) -> None:
    """It is another key of the whole."""
    kdc.code = WRONG_KEY
    fail(module.ticket_source(SETTINGS))
    kdc.code = 0
    assert "export the keytab again" in fail(module.ticket_source(SETTINGS))
    other = KerberosSettings(principal="me@HERE", keytab=Secret("BBBB"), uses_ticket_cache=False)
    assert module.ticket_source(other).with_credentials(ONE, lambda _credentials: 7) == 7


@pytest.mark.usefixtures("kdc")
def test_a_broker_unknown_to_the_kdc_affects_no_other_broker() -> None:
    """Neither for who waits meanwhile nor for who comes later."""
    tickets, began, goes_on = TicketSource(SETTINGS), threading.Event(), threading.Event()
    outcomes: dict[str, object] = {}

    def unknown(_credentials: object) -> NoReturn:
        began.set()
        assert goes_on.wait(PATIENCE_SECONDS)
        raise GSSError(UNKNOWN_SERVICE)

    def ask(name: str, service: str, work: Callable[[object], object]) -> None:
        try:
            outcomes[name] = tickets.with_credentials(service, work)
        except AuthenticationError as error:
            outcomes[name] = str(error)

    def start(name: str, service: str, work: Callable[[object], object]) -> threading.Thread:
        thread = threading.Thread(target=ask, args=(name, service, work), name=name)
        thread.start()
        return thread

    threads = [start("first", ONE, unknown)]
    assert began.wait(PATIENCE_SECONDS)
    threads.append(start("same", ONE, lambda _credentials: "asked"))
    threads.append(start("other", TWO, lambda _credentials: "ticket"))
    time.sleep(0.1)  # so that both wait already; if they do not, nothing is tested, nothing fails
    goes_on.set()
    for thread in threads:
        thread.join(PATIENCE_SECONDS)

    eventually(lambda: len(outcomes) == 3, PATIENCE_SECONDS, "all have an answer")
    assert outcomes["other"] == "ticket"
    for one in (outcomes["first"], outcomes["same"], fail(tickets, ONE)):
        assert ONE in str(one)
    assert tickets.with_credentials(TWO, lambda _credentials: "ticket") == "ticket"


def test_what_time_heals_is_tried_by_the_next_one(kdc: Kdc) -> None:
    """The KDC is up again."""
    tickets = TicketSource(SETTINGS)
    kdc.code = NO_KDC
    assert "no KDC responds" in fail(tickets)
    kdc.code = 0
    assert tickets.with_credentials(ONE, lambda _credentials: 7) == 7
    with pytest.raises(AuthenticationError, match="no KDC"):
        tickets.with_credentials(ONE, refuse(NO_KDC))
    assert tickets.with_credentials(ONE, lambda _credentials: 7) == 7
