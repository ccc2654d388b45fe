# SPDX-License-Identifier: Apache-2.0
"""The producer under random faults: everything in the log, once, in order."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from sparkmirror.model import TopicPartition
from support.peers.producer_harness import OTHER, TP, ProducerHarness

NOT_ENOUGH, NOT_ENOUGH_AFTER_APPEND = 19, 20
FAULTS = st.sampled_from(
    [
        "serve",
        "serve",
        "refuse",
        "refuse after append",
        "lose",
        "lose after append",
        "offer",
        "wait",
        "move",
    ]
)


def answer(bench: ProducerHarness, node: int, fault: str) -> None:
    """Answer the oldest request of a broker, well or badly."""
    request = bench.broker(node).waiting.popleft()
    if fault == "serve":
        bench.serve(request)
        return
    code = NOT_ENOUGH
    if fault.endswith("append"):
        code = NOT_ENOUGH_AFTER_APPEND
        append(bench, request.batches)
    request.produced(dict.fromkeys(request.batches, (code, -1)))


def append(bench: ProducerHarness, batches: dict[TopicPartition, bytes]) -> None:
    """The batches reach the log, and nobody hears of it."""
    for tp, raw in batches.items():
        bench.logs[tp].append(raw)


def lose(bench: ProducerHarness, node: int, appended: int) -> None:
    """Break a connection after so many of its requests reached the log."""
    for request in [*bench.broker(node).waiting][:appended]:
        append(bench, request.batches)
    bench.broker(node).lose()
    bench.cluster.learn()


@settings(max_examples=100, deadline=None)
@given(steps=st.lists(st.tuples(FAULTS, st.integers(0, 5)), max_size=40), is_known=st.booleans())
def test_whatever_goes_wrong_the_log_holds_everything_once_and_in_order(
    *, steps: list[tuple[str, int]], is_known: bool
) -> None:
    """Random refusals, lost connections, moving leaders and time, up to five batches in flight."""
    bench = ProducerHarness(is_known=is_known)
    bench.offer(1, 2, 1)
    for step, number in steps:
        node = 1 + number % 2
        if step == "offer":
            bench.offer(*[1 + number % 3] * (number + 1), tp=OTHER if number % 2 else TP)
            bench.producer.send_ready()
        elif step == "wait":
            bench.loop.advance(number)
        elif step == "move":
            bench.cluster.learn({TP: node})
        elif step.startswith("lose"):
            lose(bench, node, number if step.endswith("append") else 0)
        elif bench.broker(node).waiting:
            answer(bench, node, step)

    bench.settle()
    bench.check_all_copied_once()
