# SPDX-License-Identifier: Apache-2.0
"""`make bench-micro`: the parts of the hot path one by one, with pyperf.

Each time is for the unit in its name: one record batch, one response, a number of records.
"""

from __future__ import annotations

import json
import os

import pyperf
from crc32c import crc32c
from kafka.protocol.consumer import FetchResponse

from sparkmirror.model import ProducerState, TopicPartition
from sparkmirror.spark.split_planner import plan_splits
from sparkmirror.task.messages import PartitionStart, split_from_json, split_to_json
from sparkmirror.wire.fetch_protocol import NAMES_VERSION, parse_response
from sparkmirror.wire.outgoing import prepare_batches
from sparkmirror.wire.produce_protocol import produce_request
from sparkmirror.wire.record_batch import RecordBatch, stamp
from sparkmirror.wire.reframe import reframe
from support.data.record_batches import LZ4, NONE, ZSTD, Record, encode
from support.peers.fake_cluster import partition_data

_CODECS = {"none": NONE, "lz4": LZ4, "zstd": ZSTD}
_TIME = 1_700_000_000_000
_LARGE = 128  # records of 1 KB in a record batch
_MANY, _TINY = 6_000, 1_000


def small_records(count: int) -> list[Record]:
    """Records of about 100 B, a few per millisecond."""
    return [
        Record(
            offset,
            _TIME + offset // 3,
            b"%08d" % offset,
            (b"%016x" % (offset * 0x9E3779B97F4A7C15 % 2**64)) * 5,
        )
        for offset in range(count)
    ]


def large_batch(first: int) -> bytes:
    """A record batch of 128 KB that does not compress."""
    records = [Record(first + n, _TIME, b"%d" % n, os.urandom(1_000)) for n in range(_LARGE)]
    return bytes(encode(records))


def response(batches: list[bytes]) -> memoryview:
    """A fetch response with these in each of four partitions, as it comes from the socket."""
    topic = FetchResponse.FetchableTopicResponse
    message = FetchResponse(
        throttle_time_ms=0,
        error_code=0,
        session_id=1,
        responses=[
            topic(topic="t", partitions=[partition_data(n, b"".join(batches)) for n in range(4)])
        ],
    )
    raw = b"\0\0\0\0\0" + bytes(message.encode(version=NAMES_VERSION))
    return memoryview(bytearray(raw))


def copying(runner: pyperf.Runner) -> None:
    """Benchmark a record batch that is copied unchanged."""
    batches = [large_batch(n * _LARGE) for n in range(8)]
    one = memoryview(bytearray(batches[0]))
    records = memoryview(bytearray(b"".join(batches)))
    frame = response(batches)
    places = [(TopicPartition("a.t", n), one) for n in range(4)]
    runner.bench_func(
        "parse a response of 4 MB, 4 partitions", parse_response, frame, NAMES_VERSION
    )
    runner.bench_func("parse the header of a record batch", RecordBatch, one)
    runner.bench_func("CRC of a record batch of 128 KB", crc32c, one)
    runner.bench_func("admit 8 record batches of 128 KB", prepare_batches, records, 0)
    runner.bench_func("stamp a record batch of 128 KB", stamp, one, 4001, 0, 17)
    runner.bench_func("produce request of 4 record batches", request, places)


def request(places: list[tuple[TopicPartition, memoryview]]) -> object:
    """Benchmark the encoding of requests."""
    header, body = produce_request(places, client_id=b"me", acks=-1, timeout_ms=30_000)
    return header(7), body


def cutting(runner: pyperf.Runner) -> None:
    """Benchmark records that must be reframed."""
    with_holes = [one for one in small_records(_MANY * 4 // 3) if one.offset % 4]
    for name, codec in _CODECS.items():
        batch = RecordBatch(memoryview(encode(with_holes, codec=codec)))
        runner.bench_func(f"reframe {_MANY} records of 100 B, {name}", reframe, batch, 0)
    for name, codec in _CODECS.items():
        raw = b"".join(bytes(encode([one], codec=codec)) for one in small_records(_TINY))
        log = memoryview(bytearray(raw))
        runner.bench_func(f"join {_TINY} one-record batches, {name}", prepare_batches, log, 0)


def planning(runner: pyperf.Runner) -> None:
    """Benchmark planning before an epoch."""
    for count in (100, 1_000, 5_000):
        starts = [
            PartitionStart(
                f"t{n // 100}", n % 100, f"a.t{n // 100}", 0, producer=ProducerState(1, 0, 0)
            )
            for n in range(count)
        ]
        runner.bench_func(f"plan {count} partitions", plan_splits, starts, 4)
        [split] = plan_splits(starts, 1)
        runner.bench_func(f"hand over a split of {count}", hand_over, split)


def hand_over(split: object) -> object:
    """Serialize to JSON and parse again, as for a task."""
    return split_from_json(json.loads(json.dumps(split_to_json(split))))


def main() -> None:
    """Run all of them; pyperf has its own options."""
    runner = pyperf.Runner(processes=5)
    copying(runner)
    cutting(runner)
    planning(runner)


if __name__ == "__main__":
    main()
