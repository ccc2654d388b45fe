# SPDX-License-Identifier: Apache-2.0
"""Input that nobody should send: valid bytes, texts and JSON with damage done to them.

`attempt` is the rule that all of it is measured by: a parser gives a value or one of the errors it
promises, takes no more memory than its input justifies, and repeats no secret. Short by default;
FUZZ_SECONDS=60 (`make fuzz`) lets every test continue for so long.
"""

from __future__ import annotations

import copy
import json
import os
import struct
import traceback
import tracemalloc
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, TypeVar

from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st

T = TypeVar("T")

SECONDS = float(os.environ.get("FUZZ_SECONDS", "0"))
HUSH = "Kn0ck-kn0ck-wh0-is-there"  # a password: wherever it is shown, somebody was careless
BUDGET_BYTES = 4 << 20  # that a parser may take beside what follows from the input
GROWTH = 200  # Python's objects are larger than the bytes that describe them

_DEADLINE = timedelta(seconds=5)  # of one example: far more than any takes on a busy machine
_MANY, _FEW = 300, 15


def fuzzed(share: float = 1.0) -> settings:
    """How often a test is tried; `share` is for those that take longer than most."""
    return settings(
        max_examples=max(5, int((_MANY if SECONDS else _FEW) * share)),
        deadline=_DEADLINE,
        phases=set(Phase) - {Phase.explain},  # takes longer than to find out
        suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture],
    )


@dataclass(frozen=True)
class Parser:
    """Something that reads what comes from outside."""

    name: str
    parse: Callable[[bytes], object]
    promised: tuple[type[Exception], ...]  # what its documentation lets it raise
    seeds: tuple[bytes, ...]  # what it reads on good days
    found: tuple[bytes, ...] = ()  # what once did harm

    def __str__(self) -> str:
        return self.name


def attempt(
    parse: Callable[[bytes], T], data: bytes, promised: tuple[type[Exception], ...]
) -> T | None:
    """What comes out; None after an error that was promised. Everything else fails the test."""
    tracemalloc.start()
    try:
        return parse(data)
    except promised as error:
        _look_at(error)
        return None
    finally:
        _now, peak = tracemalloc.get_traced_memory()
        tracemalloc.stop()
        assert peak < BUDGET_BYTES + GROWTH * len(data), f"{peak} bytes for {len(data)}"


def _look_at(error: Exception) -> None:
    told = "".join(traceback.format_exception(error))  # with its causes, as a log shows them
    assert str(error), "an error without a sentence"
    assert HUSH not in told, "an error that tells a secret"


# --- bytes

_EDGES = [
    *(struct.pack(">h", n) for n in (-1, 0, 2**15 - 1, -(2**15))),
    *(struct.pack(">i", n) for n in (-1, -2, 0, 1, 2**31 - 1, -(2**31), 2**24)),
    *(struct.pack(">q", n) for n in (-1, 0, 2**63 - 1, -(2**63), 2**62)),
    b"\xff\xff\xff\xff\x0f",  # varints: 2**32 - 1, 2**63, one that does not end
    b"\x80\x80\x80\x80\x80\x80\x80\x80\x80\x01",
    b"\xff" * 12,
    b"\x80" * 30,
    b"\x00" * 16,
]
_PIECES = st.sampled_from(_EDGES) | st.binary(min_size=1, max_size=8)
_PLACES = st.floats(0, 1, exclude_max=True)  # of what is there, however long it is


@st.composite
def mutated(draw: st.DrawFn, seeds: Sequence[bytes]) -> bytes:
    """A seed with up to four injuries; sometimes bytes that never were anything."""
    data = bytearray(draw(st.sampled_from(seeds)))
    for kind in draw(st.lists(st.integers(0, 6), min_size=1, max_size=4)):
        at = int(draw(_PLACES) * (len(data) + 1))
        match kind:
            case 0 if data:
                data[min(at, len(data) - 1)] ^= 1 << draw(st.integers(0, 7))
            case 1:
                piece = draw(_PIECES)
                data[at : at + len(piece)] = piece
            case 2:
                data[at:at] = draw(_PIECES)
            case 3:
                del data[at : at + draw(st.integers(1, 16))]
            case 4:
                del data[at:]
            case 5:
                data[at:at] = data[at : at + draw(st.integers(1, 64))] * draw(st.integers(1, 4))
            case _:
                data[at:] = draw(st.sampled_from(seeds))[at:]
    return bytes(data)


def damaged(seeds: Sequence[bytes]) -> st.SearchStrategy[bytes]:
    """Injured seeds, their JSON with other values in it, and noise."""
    kinds = [mutated(seeds), mutated(seeds), st.binary(max_size=200)]
    documents = [one for one in map(_document, seeds) if isinstance(one, list | dict)]
    if documents:
        kinds += [mutated_json(documents)] * 3
    return st.one_of(kinds)


# --- JSON

_ODD = [
    *(None, True, False, 0, -1, 2**31, 2**63, -(2**63) - 1, 10**400, 0.5, 1e308),
    *("", " ", "x", "\ud800", "\x00", "a/b", "${env:HOME}", "${file:/no:where}", "é" * 40),
    *([], {}, [[]], [None], {"": None}, [0, 0], {"a": {"b": {}}}),
    float("nan"),
    float("-inf"),
]
_TEXTS = st.text(max_size=8) | st.text(st.sampled_from('\ud800\x00\n"\\{}[]:${}'), max_size=4)
_VALUES = st.sampled_from(_ODD) | _TEXTS | st.integers(-(2**70), 2**70)


def _document(seed: bytes) -> Any:
    try:
        return json.loads(seed)
    except ValueError:
        return None


def _places(value: Any) -> list[tuple[Any, Any]]:
    """Every container with every key in it."""
    found: list[tuple[Any, Any]] = []
    rest = [value]
    while rest:
        one = rest.pop()
        keys = list(one) if isinstance(one, dict) else range(len(one))
        for key in keys:
            found.append((one, key))
            if isinstance(one[key], list | dict):
                rest.append(one[key])
    return found


@st.composite
def mutated_json(draw: st.DrawFn, documents: Sequence[Any]) -> bytes:
    """A document with up to three values replaced, removed, doubled or renamed."""
    document = copy.deepcopy(draw(st.sampled_from(documents)))
    for kind in draw(st.lists(st.integers(0, 4), min_size=1, max_size=3)):
        places = _places(document)
        if not places:
            break
        container, key = places[int(draw(_PLACES) * len(places))]
        match kind:
            case 0 | 1:
                container[key] = copy.deepcopy(draw(_VALUES))  # or one could come to hold itself
            case 2:
                del container[key]
            case 3 if isinstance(container, dict):
                container[draw(_TEXTS)] = container.pop(key)
            case _ if isinstance(container, list):
                container.insert(key, copy.deepcopy(container[key]))
            case _:
                container[key] = [container[key]]
    text = json.dumps(document, ensure_ascii=draw(st.booleans()))
    return text.encode(errors=draw(st.sampled_from(["surrogatepass", "replace"])))
