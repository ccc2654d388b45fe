# SPDX-License-Identifier: Apache-2.0
"""What faults wait for, in the run's time: they end early when the run does."""

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
    """A fault could not be done, or what it broke did not come back."""


def await_condition(arena: Environment, check: Callable[[], T], what: str) -> T:
    """Call `check` until it answers something true, and return that."""
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
    """Until every partition has all its replicas: the next fault may take another broker."""
    client = admin(arena.target)

    def whole() -> bool:
        found = client.list_topics(timeout=METADATA_SECONDS).topics.values()
        partitions = [part for topic in found for part in topic.partitions.values()]
        return all(len(part.isrs) == len(part.replicas) for part in partitions)

    await_condition(arena, whole, "all replicas are in sync")
