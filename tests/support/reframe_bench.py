# SPDX-License-Identifier: Apache-2.0
"""What cutting and joining record batches costs, in CPU time: `python -m support.reframe_bench`.

Run it from `tests/`. The best of several rounds is printed: other work on the machine only adds.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable

from sparkmirror.wire.budget import Budget, Buffer
from sparkmirror.wire.outgoing import Outgoing, admit, join
from sparkmirror.wire.record_batch import RecordBatch
from sparkmirror.wire.records import frames
from sparkmirror.wire.reframe import reframe
from support.record_batches import LZ4, NONE, ZSTD, Record, encode

ROUNDS = 15
RECORDS = 6_000
BATCHES = 5_000
CODECS = {"none": NONE, "lz4": LZ4, "zstd": ZSTD}


def records(first: int, count: int) -> list[Record]:
    """Records of about 100 B, a few per millisecond."""
    return [
        Record(
            offset,
            1_700_000_000_000 + offset // 3,
            b"%08d" % offset,
            (b"%016x" % (offset * 0x9E3779B97F4A7C15 % 2**64)) * 5,
        )
        for offset in range(first, first + count)
    ]


def thinned(count: int) -> list[Record]:
    """Every fourth offset is gone."""
    return [one for one in records(0, count * 4 // 3) if one.offset % 4]


def best(work: Callable[[], object], rounds: int = ROUNDS) -> float:
    """CPU seconds of the quickest round."""
    times = []
    for _ in range(rounds):
        began = time.process_time()
        work()
        times.append(time.process_time() - began)
    return min(times)


def admitted(response: bytes) -> list[Outgoing]:
    """One response through `admit`, its buffer pinned as a task does."""
    budget = Budget(1 << 30)
    buffer = Buffer(budget, len(response))
    outs = admit(memoryview(bytearray(response)), 0).outgoing
    for out in outs:
        out.lie_in(buffer, budget)
    return outs


def queue(raw: list[bytearray]) -> deque[Outgoing]:
    """Record batches that wait to be sent, as many responses left them."""
    return deque(out for one in raw for out in admit(memoryview(bytearray(one)), 0).outgoing)


def main() -> None:
    """Print the figures."""
    for name, codec in CODECS.items():
        with_holes = RecordBatch(memoryview(encode(thinned(RECORDS), codec=codec)))
        took = best(lambda batch=with_holes: reframe(batch, 0))  # type: ignore[misc]
        print(f"reframe holes, {name}: {RECORDS / took:,.0f} records/s")
        took = best(lambda batch=with_holes: list(frames(batch.view)))  # type: ignore[misc]
        print(f"frames, {name}: {RECORDS / took:,.0f} records/s")
        ones = [encode(records(n, 1), codec=codec) for n in range(BATCHES)]
        response = b"".join(ones)
        took = best(lambda response=response: admitted(response), 7)  # type: ignore[misc]
        print(f"admit one-record batches, {name}: {took / BATCHES * 1e6:.2f} us each")
        queues = [queue(ones) for _ in range(7)]
        took = best(lambda queues=queues: join(queues.pop(), 1 << 30, Budget(1 << 30)), 7)  # type: ignore[misc]
        print(f"join one-record batches, {name}: {took / BATCHES * 1e6:.2f} us each")
    large = b"".join(encode(records(n * 140, 140)) for n in range(60))
    print(f"admit 16 KiB batches: {best(lambda: admitted(large), 60) / 60 * 1e6:.2f} us each")


if __name__ == "__main__":
    main()
