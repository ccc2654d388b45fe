# SPDX-License-Identifier: Apache-2.0
"""Values that every layer shares: a flow, a topic partition, a producer's state, a secret."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple


class TopicPartition(NamedTuple):
    """One partition of one topic, on whichever cluster the context names."""

    topic: str
    partition: int

    def __str__(self) -> str:
        return f"{self.topic}-{self.partition}"


@dataclass(frozen=True, slots=True)
class ProducerState:
    """The producer of a target partition and its next sequence; -1 means no producer yet."""

    producer_id: int = -1
    producer_epoch: int = -1
    next_sequence: int = 0


NO_PRODUCER = ProducerState()


@dataclass(frozen=True, slots=True, order=True)
class Flow:
    """An ordered pair of cluster aliases: records go from source to target."""

    source: str
    target: str

    def __str__(self) -> str:
        return f"{self.source}->{self.target}"


HIDDEN = "[hidden]"  # shown instead of a secret


class Secret:
    """A value that is never printed or pickled; `reveal()` returns its text."""

    __slots__ = ("_text",)

    def __init__(self, text: str) -> None:
        self._text = text

    def reveal(self) -> str:
        return self._text

    def __repr__(self) -> str:
        return HIDDEN

    __str__ = __repr__

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Secret) and other._text == self._text

    def __hash__(self) -> int:
        return hash(self._text)

    def __reduce__(self) -> tuple[object, ...]:
        raise TypeError("a Secret is never pickled: it would reach a disk or a Spark closure")
