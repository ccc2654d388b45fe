# SPDX-License-Identifier: Apache-2.0
"""Clients that nobody uses are closed by a thread that does not keep them alive."""

from __future__ import annotations

import gc
import threading
import time
import weakref

from sparkmirror.kafka.idle_clients import IdleClients
from support.waiting import PATIENCE_SECONDS, eventually


class Client:
    """Is idle from the second call on."""

    def __init__(self) -> None:
        self.calls = 0

    def close_if_idle(self, now: float) -> float | None:
        self.calls += 1
        return now + 0.01 if self.calls == 1 else None


def test_a_client_is_looked_at_until_it_is_closed() -> None:
    clients, one = IdleClients(), Client()
    clients.add(one, time.monotonic())
    eventually(lambda: one.calls == 2, PATIENCE_SECONDS, "it is closed")
    eventually(lambda: not is_running(), PATIENCE_SECONDS, "the thread ends")
    clients.add(one, time.monotonic())
    eventually(lambda: one.calls == 3, PATIENCE_SECONDS, "another thread looks at it")


def test_a_client_that_is_due_sooner_does_not_wait_for_others() -> None:
    clients, late, soon = IdleClients(), Client(), Client()
    clients.add(late, time.monotonic() + 3600)
    clients.add(soon, time.monotonic())
    eventually(lambda: soon.calls == 2, PATIENCE_SECONDS, "it is looked at")
    clients.remove(late)
    assert late.calls == 0


def test_a_client_that_is_gone_is_forgotten() -> None:
    clients, one = IdleClients(), Client()
    found = weakref.ref(one)
    clients.add(one, time.monotonic() + 3600)
    del one
    gc.collect()
    assert found() is None


def is_running() -> bool:
    return any(one.name == "idle-clients" for one in threading.enumerate())
