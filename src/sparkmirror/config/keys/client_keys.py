# SPDX-License-Identifier: Apache-2.0
"""The tables of Kafka client keys, and the reasons why some have no effect here."""

from __future__ import annotations

from sparkmirror.config.keys.config_def import (
    NO_JAVA_PLUGIN,
    ConfigKey,
    Importance,
    ParsedValue,
    choice,
    field_of,
    integer,
    long,
    seconds,
    string,
)
from sparkmirror.config.keys.value_types import at_least
from sparkmirror.config.settings import TransactionSettings
from sparkmirror.wire.settings import ConnectionSettings, FetchSettings, ProduceSettings

MAX_IN_FLIGHT = 5
PRODUCER_COMPRESSION = "producer"  # the word of a topic's compression.type


def _seconds_or_never(parsed: ParsedValue) -> float | None:
    return None if parsed.value < 0 else parsed.value / 1000


def _acks(parsed: ParsedValue) -> int:
    return 1 if parsed.value == "1" else -1


def _max_in_flight(parsed: ParsedValue) -> int:
    return min(int(parsed.value), MAX_IN_FLIGHT)


def _codec(parsed: ParsedValue) -> str | None:
    return None if parsed.value == PRODUCER_COMPRESSION else parsed.value


def _is_configured(parsed: ParsedValue) -> bool:
    return parsed.is_configured


_CONNECTION_KEYS = (
    string(
        "client.id",
        "",
        "Prefix of the client ids that the brokers see, as in MM2.",
        importance=Importance.LOW,
    ),
    integer(
        "request.timeout.ms",
        30_000,
        "How long to wait for the answer to one request.",
        at_least(1),
        fills=field_of(ConnectionSettings, "request_timeout_seconds", seconds)
        + field_of(ProduceSettings, "request_timeout_ms"),
    ),
    long(
        "socket.connection.setup.timeout.ms",
        10_000,
        "How long to wait for a connection to be established.",
        at_least(1),
        fills=field_of(ConnectionSettings, "connect_timeout_seconds", seconds),
        importance=Importance.LOW,
    ),
    integer(
        "send.buffer.bytes",
        -1,
        "Size of the socket's send buffer; -1 leaves it to the operating system.",
        at_least(-1),
        fills=field_of(ConnectionSettings, "send_buffer_bytes"),
        importance=Importance.LOW,
        mm2_default="131072",
        mm2_difference_reason="the operating system sizes its buffers to the line",
    ),
    integer(
        "receive.buffer.bytes",
        -1,
        "Size of the socket's receive buffer; -1 leaves it to the operating system.",
        at_least(-1),
        fills=field_of(ConnectionSettings, "receive_buffer_bytes"),
        importance=Importance.LOW,
        mm2_default="65536 (producer: 32768)",
        mm2_difference_reason="the operating system sizes its buffers to the line",
    ),
)


def _idle_key(default: int) -> ConfigKey:
    return long(
        "connections.max.idle.ms",
        default,
        "Idle connections are closed after this time, and opened again when needed; -1 for never.",
        at_least(-1),
        fills=field_of(ConnectionSettings, "max_idle_seconds", _seconds_or_never),
        importance=Importance.LOW,
    )


ADMIN_KEYS = (*_CONNECTION_KEYS, _idle_key(300_000))

CONSUMER_KEYS = (
    *_CONNECTION_KEYS,
    _idle_key(540_000),
    choice(
        "isolation.level",
        (
            "read_committed",
            "read_uncommitted",
        ),
        "Whether records of aborted and open transactions are copied (read_uncommitted) or "
        "not (read_committed).",
        fills=field_of(FetchSettings, "isolation_level"),
        importance=Importance.HIGH,
        mm2_default="read_uncommitted",
        mm2_difference_reason="otherwise records of aborted transactions become committed ones "
        "on the target",
    ),
    choice(
        "auto.offset.reset",
        (
            "earliest",
            "latest",
            "none",
        ),
        "Where a partition without a stored position starts: earliest, latest, or none "
        "(refuse to start it).",
        fills=field_of(FetchSettings, "auto_offset_reset"),
        importance=Importance.HIGH,
    ),
    integer(
        "fetch.max.bytes",
        52_428_800,
        "Maximum size of a fetch response.",
        at_least(0),
        fills=field_of(FetchSettings, "fetch_max_bytes"),
    ),
    integer(
        "max.partition.fetch.bytes",
        -1,
        "Maximum data of one partition in a fetch response; -1 for as much as "
        "task.buffer.bytes allows, from 1 to 4 MiB.",
        at_least(-1),
        fills=field_of(FetchSettings, "max_partition_fetch_bytes"),
        mm2_default="1048576",
        mm2_difference_reason="with a high latency it limits a partition to one such response per "
        "round trip",
    ),
    integer(
        "fetch.max.wait.ms",
        500,
        "How long the broker waits for fetch.min.bytes.",
        at_least(0),
        fills=field_of(FetchSettings, "fetch_max_wait_ms"),
    ),
    integer(
        "fetch.min.bytes",
        1,
        "Minimum size of a fetch response; the broker waits for it.",
        at_least(0),
        fills=field_of(FetchSettings, "fetch_min_bytes"),
    ),
    string(
        "client.rack",
        "",
        "Where this process runs, so that a close replica may be read.",
        importance=Importance.LOW,
        no_effect="not in this version yet",
    ),
)

PRODUCER_KEYS = (
    *_CONNECTION_KEYS,
    _idle_key(540_000),
    choice(
        "acks",
        (
            "all",
            "-1",
            "1",
            "0",
        ),
        "Which replicas must have a record before it counts as copied: all (-1) or 1; 0 is "
        "refused, because positions would be stored for records that may be lost.",
        fills=field_of(ProduceSettings, "acks", _acks),
        importance=Importance.HIGH,
    ),
    integer(
        "max.request.size",
        8_388_608,
        "Maximum size of a produce request. If a line or a profile sets it, larger record "
        "batches are split, and refused.record.policy applies to a larger record; otherwise a "
        "larger record batch is sent alone.",
        at_least(1),
        fills=field_of(ProduceSettings, "max_request_bytes")
        + field_of(ProduceSettings, "enforces_max_request_bytes", _is_configured),
        mm2_default="1048576",
        mm2_difference_reason="a request contains record batches of several partitions",
    ),
    integer(
        "max.in.flight.requests.per.connection",
        MAX_IN_FLIGHT,
        "Maximum number of unanswered produce requests; larger values are limited to 5.",
        at_least(1),
        fills=field_of(ProduceSettings, "max_in_flight", _max_in_flight),
        mm2_default="1",
        mm2_difference_reason="a round trip per request would limit the throughput, and sequence "
        "numbers keep five in order",
    ),
    integer(
        "transaction.timeout.ms",
        60_000,
        "With exactly-once: how long the target keeps a transaction open whose task is gone; "
        "read_committed consumers wait as long.",
        at_least(1000),
        fills=field_of(TransactionSettings, "timeout_ms"),
        importance=Importance.LOW,
    ),
    choice(
        "compression.type",
        (
            PRODUCER_COMPRESSION,
            "none",
            "gzip",
            "snappy",
            "lz4",
            "zstd",
        ),
        "Compression of record batches on the target: none, gzip, snappy, lz4 or zstd; record "
        "batches with another codec are recompressed. producer keeps the codec of the source.",
        fills=field_of(ProduceSettings, "compression", _codec),
        mm2_default="none",
        mm2_difference_reason="record batches are copied as they are, their compression included",
    ),
)

_GROUPS = "partitions are assigned without a consumer group"
_RAW = "record batches are copied as they are, not built from records"
_LEVEL = "codecs are used with their default level"
_OWN_RETRIES = "requests are retried until the target answers, with a fixed backoff"
_OWN_METADATA = "metadata is refreshed when a leader changes and with the topics"
_NO_METRICS = "Java client metrics do not exist here"

_IGNORED_EVERYWHERE = {
    "client.dns.lookup": "every address of a name is tried",
    "reconnect.backoff.ms": _OWN_RETRIES,
    "reconnect.backoff.max.ms": _OWN_RETRIES,
    "retry.backoff.ms": _OWN_RETRIES,
    "retry.backoff.max.ms": _OWN_RETRIES,
    "retries": _OWN_RETRIES,
    "default.api.timeout.ms": "request.timeout.ms bounds every step",
    "socket.connection.setup.timeout.max.ms": "each attempt has the same limit",
    "metadata.max.age.ms": _OWN_METADATA,
    "metadata.recovery.strategy": _OWN_METADATA,
    "metadata.recovery.rebootstrap.trigger.ms": _OWN_METADATA,
    "security.providers": NO_JAVA_PLUGIN,
    "metric.reporters": _NO_METRICS,
    "metrics.num.samples": _NO_METRICS,
    "metrics.recording.level": _NO_METRICS,
    "metrics.sample.window.ms": _NO_METRICS,
    "enable.metrics.push": _NO_METRICS,
    "auto.include.jmx.reporter": _NO_METRICS,
    "bootstrap.controllers": "clients connect to brokers, not controllers",
}
_IGNORED_CONSUMER = {
    "group.id": _GROUPS,
    "group.instance.id": _GROUPS,
    "group.protocol": _GROUPS,
    "group.remote.assignor": _GROUPS,
    "partition.assignment.strategy": _GROUPS,
    "session.timeout.ms": _GROUPS,
    "heartbeat.interval.ms": _GROUPS,
    "max.poll.interval.ms": _GROUPS,
    "enable.auto.commit": _GROUPS,
    "auto.commit.interval.ms": _GROUPS,
    "share.acknowledgement.mode": _GROUPS,
    "share.acquire.mode": _GROUPS,
    "max.poll.records": "whole record batches are read; task.buffer.bytes bounds the memory",
    "check.crcs": "checksums are always verified",
    "allow.auto.create.topics": "source topics are never created",
    "exclude.internal.topics": "the topic filter decides",
    "key.deserializer": _RAW,
    "value.deserializer": _RAW,
    "interceptor.classes": NO_JAVA_PLUGIN,
}
_IGNORED_PRODUCER = {
    "batch.size": _RAW,
    "linger.ms": _RAW,
    "compression.gzip.level": _LEVEL,
    "compression.lz4.level": _LEVEL,
    "compression.zstd.level": _LEVEL,
    "buffer.memory": "task.buffer.bytes bounds the memory",
    "max.block.ms": "a slow target makes the flow wait, without limit",
    "delivery.timeout.ms": _OWN_RETRIES,
    "enable.idempotence": "sequence numbers are always written",
    "transactional.id": "exactly-once flows have an id per task: <group.id>-<connector>-<number>",
    "transaction.two.phase.commit.enable": "transactions have no other participants",
    "metadata.max.idle.ms": _OWN_METADATA,
    "partitioner.class": "records keep their partition",
    "partitioner.ignore.keys": "records keep their partition",
    "partitioner.adaptive.partitioning.enable": "records keep their partition",
    "partitioner.availability.timeout.ms": "records keep their partition",
    "key.serializer": _RAW,
    "value.serializer": _RAW,
    "interceptor.classes": NO_JAVA_PLUGIN,
}

# Role -> keys of Kafka's client that are accepted without effect -> why.
IGNORED_CLIENT_KEYS = {
    "consumer": _IGNORED_EVERYWHERE | _IGNORED_CONSUMER,
    "producer": _IGNORED_EVERYWHERE | _IGNORED_PRODUCER,
    "admin": _IGNORED_EVERYWHERE,
}
