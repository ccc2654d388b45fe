# SPDX-License-Identifier: Apache-2.0
"""Waits for conditions in the threads of faults; they end when the run ends."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from typing import TypeVar

import psutil
from confluent_kafka import KafkaException

from chaos.arena import Environment
from support.clients.librdkafka import admin

METADATA_SECONDS = 5.0
_PATIENCE_SECONDS = 120.0
_LOOK_SECONDS = 0.2
T = TypeVar("T")


class FaultError(Exception):
    """A fault could not be injected, or the system did not recover from it."""


def await_condition(arena: Environment, check: Callable[[], T], what: str) -> T:
    """Call `check` until it returns a true value, and return that."""
    waited = 0.0
    while waited < _PATIENCE_SECONDS:
        with contextlib.suppress(psutil.NoSuchProcess, KafkaException):
            found = check()
            if found:
                return found
        arena.wait(_LOOK_SECONDS)
        waited += _LOOK_SECONDS
    raise FaultError(f"not within {_PATIENCE_SECONDS:g} s: {what}")


def await_full_membership(arena: Environment) -> None:
    """Wait until all replicas are in sync, so that the next fault may stop another broker."""
    client = admin(arena.target)

    def whole() -> bool:
        found = client.list_topics(timeout=METADATA_SECONDS).topics.values()
        partitions = [part for topic in found for part in topic.partitions.values()]
        return all(len(part.isrs) == len(part.replicas) for part in partitions)

    await_condition(arena, whole, "all replicas are in sync")
