# SPDX-License-Identifier: Apache-2.0
"""The tables of Kafka client keys: those with a meaning here, and why the others have none."""

from __future__ import annotations

from sparkmirror.config.keys.config_def import ConfigKey, ConfigType, Importance, at_least, one_of

_CONNECTION_KEYS = (
    ConfigKey(
        name="client.id",
        type=ConfigType.STRING,
        default="",
        doc="Put in front of the client ids that the brokers see, as MM2 does.",
        importance=Importance.LOW,
    ),
    ConfigKey(
        name="request.timeout.ms",
        type=ConfigType.INT,
        default="30000",
        doc="How long to wait for the answer to one request.",
        validators=(at_least(1),),
    ),
    ConfigKey(
        name="socket.connection.setup.timeout.ms",
        type=ConfigType.LONG,
        default="10000",
        doc="How long to wait for a connection to be established.",
        importance=Importance.LOW,
        validators=(at_least(1),),
    ),
    ConfigKey(
        name="send.buffer.bytes",
        type=ConfigType.INT,
        default="-1",
        doc="Size of the socket's send buffer; -1 leaves it to the operating system.",
        importance=Importance.LOW,
        validators=(at_least(-1),),
        mm2_default="131072",
        mm2_difference_reason="the operating system sizes its buffers to the line",
    ),
    ConfigKey(
        name="receive.buffer.bytes",
        type=ConfigType.INT,
        default="-1",
        doc="Size of the socket's receive buffer; -1 leaves it to the operating system.",
        importance=Importance.LOW,
        validators=(at_least(-1),),
        mm2_default="65536 (producer: 32768)",
        mm2_difference_reason="the operating system sizes its buffers to the line",
    ),
)


def _idle_key(default: str) -> ConfigKey:
    return ConfigKey(
        name="connections.max.idle.ms",
        type=ConfigType.LONG,
        default=default,
        doc="Connections that nobody has used for so long are closed, and opened when they are "
        "needed again; -1 for never.",
        importance=Importance.LOW,
        validators=(at_least(-1),),
    )


ADMIN_KEYS = (*_CONNECTION_KEYS, _idle_key("300000"))

CONSUMER_KEYS = (
    *_CONNECTION_KEYS,
    _idle_key("540000"),
    ConfigKey(
        name="isolation.level",
        type=ConfigType.STRING,
        default="read_committed",
        doc="Whether records of aborted and open transactions are copied (read_uncommitted) or "
        "not (read_committed).",
        importance=Importance.HIGH,
        validators=(one_of("read_committed", "read_uncommitted"),),
        mm2_default="read_uncommitted",
        mm2_difference_reason="otherwise records of aborted transactions become committed ones "
        "on the target",
    ),
    ConfigKey(
        name="auto.offset.reset",
        type=ConfigType.STRING,
        default="earliest",
        doc="Where a partition without a stored position starts: earliest, latest, or none "
        "(refuse to start it).",
        importance=Importance.HIGH,
        validators=(one_of("earliest", "latest", "none"),),
    ),
    ConfigKey(
        name="fetch.max.bytes",
        type=ConfigType.INT,
        default="52428800",
        doc="The most data that one fetch answer should hold.",
        validators=(at_least(0),),
    ),
    ConfigKey(
        name="max.partition.fetch.bytes",
        type=ConfigType.INT,
        default="-1",
        doc="The most data that one fetch answer should hold of one partition; -1 for as much as "
        "task.buffer.bytes has room for, from 1 to 4 MiB.",
        validators=(at_least(-1),),
        mm2_default="1048576",
        mm2_difference_reason="over a long line it bounds a partition to one such answer per "
        "round trip",
    ),
    ConfigKey(
        name="fetch.max.wait.ms",
        type=ConfigType.INT,
        default="500",
        doc="How long the broker waits for fetch.min.bytes.",
        validators=(at_least(0),),
    ),
    ConfigKey(
        name="fetch.min.bytes",
        type=ConfigType.INT,
        default="1",
        doc="How much data a fetch answer should hold at least.",
        validators=(at_least(0),),
    ),
    ConfigKey(
        name="client.rack",
        type=ConfigType.STRING,
        default="",
        doc="Where this process runs, so that a close replica may be read.",
        importance=Importance.LOW,
        no_effect="not in this version yet",
    ),
)

MAX_IN_FLIGHT = 5
PRODUCER_COMPRESSION = "producer"  # the word of a topic's compression.type

PRODUCER_KEYS = (
    *_CONNECTION_KEYS,
    _idle_key("540000"),
    ConfigKey(
        name="acks",
        type=ConfigType.STRING,
        default="all",
        doc="Which replicas must have a record before it counts as copied: all (-1) or 1; 0 is "
        "refused, because positions would be stored for records that may be lost.",
        importance=Importance.HIGH,
        validators=(one_of("all", "-1", "1", "0"),),
    ),
    ConfigKey(
        name="max.request.size",
        type=ConfigType.INT,
        default="8388608",
        doc="The most data that one produce request holds. Where a line or a profile sets it, "
        "larger record batches are cut into pieces, and a record that does not fit goes the way of "
        "refused.record.policy; otherwise one that is larger travels alone.",
        validators=(at_least(1),),
        mm2_default="1048576",
        mm2_difference_reason="record batches of several partitions travel in one request",
    ),
    ConfigKey(
        name="max.in.flight.requests.per.connection",
        type=ConfigType.INT,
        default=str(MAX_IN_FLIGHT),
        doc="How many produce requests may be unanswered; more than 5 counts as 5.",
        validators=(at_least(1),),
        mm2_default="1",
        mm2_difference_reason="a round trip per request would bound the throughput, and sequence "
        "numbers keep "
        "five in order",
    ),
    ConfigKey(
        name="transaction.timeout.ms",
        type=ConfigType.INT,
        default="60000",
        doc="With exactly-once: how long the target keeps a transaction open whose task is gone; "
        "read_committed consumers wait as long.",
        validators=(at_least(1000),),
        importance=Importance.LOW,
    ),
    ConfigKey(
        name="compression.type",
        type=ConfigType.STRING,
        default=PRODUCER_COMPRESSION,
        doc="How record batches are compressed on their way to the target: none, gzip, snappy, "
        "lz4 or zstd; those of another codec are compressed anew. producer keeps what the "
        "source's producers chose.",
        validators=(one_of(PRODUCER_COMPRESSION, "none", "gzip", "snappy", "lz4", "zstd"),),
        mm2_default="none",
        mm2_difference_reason="record batches are copied as they are, their compression included",
    ),
)

_GROUPS = "partitions are assigned without a consumer group"
_RAW = "record batches are copied as they are, not built from records"
_LEVEL = "each codec has its default level, where anything is compressed at all"
_OWN_RETRIES = "retries go on until the target answers, with a pause of their own"
_OWN_METADATA = "metadata is refreshed when a leader changes and with the topics"
_NO_JAVA = "there is no Java plugin here"
_NO_METRICS = "Java client metrics do not exist here"

_IGNORED_EVERYWHERE = {
    "client.dns.lookup": "every address a name resolves to is tried",
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
    "security.providers": _NO_JAVA,
    "metric.reporters": _NO_METRICS,
    "metrics.num.samples": _NO_METRICS,
    "metrics.recording.level": _NO_METRICS,
    "metrics.sample.window.ms": _NO_METRICS,
    "enable.metrics.push": _NO_METRICS,
    "auto.include.jmx.reporter": _NO_METRICS,
    "bootstrap.controllers": "brokers are asked, not controllers",
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
    "interceptor.classes": _NO_JAVA,
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
    "transaction.two.phase.commit.enable": "nobody else takes part in our transactions",
    "metadata.max.idle.ms": _OWN_METADATA,
    "partitioner.class": "records keep their partition",
    "partitioner.ignore.keys": "records keep their partition",
    "partitioner.adaptive.partitioning.enable": "records keep their partition",
    "partitioner.availability.timeout.ms": "records keep their partition",
    "key.serializer": _RAW,
    "value.serializer": _RAW,
    "interceptor.classes": _NO_JAVA,
}

# Role -> keys of Kafka's client that are accepted without effect -> why.
IGNORED_CLIENT_KEYS = {
    "consumer": _IGNORED_EVERYWHERE | _IGNORED_CONSUMER,
    "producer": _IGNORED_EVERYWHERE | _IGNORED_PRODUCER,
    "admin": _IGNORED_EVERYWHERE,
}
