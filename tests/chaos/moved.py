# SPDX-License-Identifier: Apache-2.0
"""Faults that change logs: one function per kind, as in `inflict.py`.

The mirror is killed, records are written for some more seconds, then writing pauses while a log
changes. The history records both sides before and after.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

from confluent_kafka.admin import NewTopic, ResourceType

from chaos.arena import Environment
from chaos.conditions import await_condition, await_full_membership
from chaos.evidence import batch_lines
from chaos.plan import RESTORED, Fault
from chaos.reading import Streams, read_streams
from chaos.scenario import KEYS, TOPIC, Mode
from chaos.verdict import Seen, Stream
from sparkmirror.devcluster.cluster import LocalCluster
from support.clients.librdkafka import admin, delete_topic, topic_partitions
from support.clusters.log_damage import truncate
from support.clusters.log_restore import (
    copy_data,
    delete_before,
    replace_data,
    restore_data,
    stored_positions,
)
from support.clusters.topic_histories import COMPACTED, alter_configs
from support.waiting import PATIENCE_SECONDS

_BEFORE_THE_PAIR = 300  # a cut may lie so many offsets before a stored position
_TAIL = 1500  # offsets at the end of a target's log that a cut may take
_CONTROL = 0x20
_EXPIRY = "producer.id.expiration.ms"
_EXPIRY_MS = "1000"


@contextmanager
def _standstill(fault: Fault, arena: Environment) -> Iterator[None]:
    """Kill the mirror and pause the load until the end of the block."""
    with arena.keeper.down():
        arena.wait(fault.seconds)
        with _no_load(arena):
            yield


@contextmanager
def _no_load(arena: Environment) -> Iterator[None]:
    with ExitStack() as stack:
        for load in arena.loads:
            stack.enter_context(load.paused())
        yield


def _held(arena: Environment, source: LocalCluster) -> Streams:
    return read_streams(source, TOPIC, _streams(arena, source))


def _streams(arena: Environment, source: LocalCluster) -> list[Stream]:
    return [(source.name, index) for index in range(arena.scenario.partitions)]


def _copies(arena: Environment) -> Streams:
    streams = [stream for source in arena.sources for stream in _streams(arena, source)]
    return read_streams(arena.target, arena.scenario.remote_topic, streams)


# --- the source


def truncate_source(fault: Fault, arena: Environment) -> None:
    """Truncate the log under newer leader epochs."""
    source = arena.sources[fault.choose(arena.sources)]
    older = arena.directory / "older"
    if fault.way == RESTORED:
        with _no_load(arena):
            copy_data(source, older)
        arena.wait(fault.seconds)
    with _standstill(fault, arena):
        before, copies = _held(arena, source), _copies(arena)
        if fault.way == RESTORED:
            restore_data(source, older, [(TOPIC, index) for _, index in before])
            shutil.rmtree(older)
        else:
            stored = stored_positions(arena.target, source.name)
            source.stop()
            for (_, index), log in before.items():
                keep = _cut(fault, log, stored.get((TOPIC, index), 0))
                truncate(source.brokers[0].data, TOPIC, index, keep)
            source.start()
        after = _held(arena, source)
        for stream, log in before.items():
            arena.history.source_truncated(stream, log, after[stream], copies[stream])


def _cut(fault: Fault, log: list[Seen], stored: int) -> int:
    end = log[-1].offset + 1
    lowest = max(log[0].offset + 1, min(stored, end) - _BEFORE_THE_PAIR)
    return lowest + int(fault.pick * (end - lowest))


def delete_from_source(fault: Fault, arena: Environment) -> None:
    """DeleteRecords past the stored position, up to the copied end or past it."""
    source = arena.sources[fault.choose(arena.sources)]
    with _standstill(fault, arena):
        before, copies = _held(arena, source), _copies(arena)
        stored = stored_positions(arena.target, source.name)
        firsts = {}
        for stream, log in before.items():
            copied = {one.number for one in copies[stream]}
            place, end = (TOPIC, stream[1]), log[-1].offset + 1
            copied_end = max((one.offset + 1 for one in log if one.number in copied), default=0)
            lowest = min(stored.get(place, 0) + 1, copied_end)
            if fault.way == "not copied":
                lowest, copied_end = copied_end, end
            firsts[place] = lowest + int(fault.pick * (copied_end - lowest))
        delete_before(source, firsts)
        after = _held(arena, source)
        for stream, log in before.items():
            arena.history.source_deleted(stream, log, after[stream], copies[stream])


def compact_source(fault: Fault, arena: Environment) -> None:
    """Compact the topic, which normally is not compacted."""
    source = arena.sources[fault.choose(arena.sources)]
    load = arena.loads[arena.sources.index(source)]
    with _standstill(fault, arena):
        before = _held(arena, source)
        alter_configs(source, ResourceType.TOPIC, TOPIC, COMPACTED)
        try:
            arena.wait(2 * int(COMPACTED["segment.ms"]) / 1000)
            load.write_now(arena.scenario.partitions)  # begins a segment: the last is not cleaned
            after = await_condition(
                arena, lambda: _cleaned(_held(arena, source)), "the source is compacted"
            )
        finally:
            alter_configs(source, ResourceType.TOPIC, TOPIC, dict.fromkeys(COMPACTED))
        for stream, log in before.items():
            arena.history.source_compacted(stream, log, after[stream])


def _cleaned(held: Streams) -> Streams | None:
    """Return the records of a source once the cleaner has finished; else nothing."""
    return held if all(len(log) <= KEYS + 1 for log in held.values()) else None


# --- the target


def truncate_target(fault: Fault, arena: Environment) -> None:
    """Truncate all replicas, or restore the whole target from an older copy."""
    target, older = arena.target, arena.directory / "older"
    if fault.way == RESTORED:
        with _no_load(arena):
            copy_data(target, older)
            await_full_membership(arena)
        arena.wait(fault.seconds)
    with _standstill(fault, arena):
        before = _copies(arena)
        target.stop()
        if fault.way == RESTORED:
            replace_data(target, older)
            shutil.rmtree(older)
            arena.history.target_restored()
        else:
            for index in range(arena.scenario.partitions):
                _chop_replicas(fault, arena, index)
        target.start()
        await_full_membership(arena)
        after = _copies(arena)
        for source in arena.sources:
            for stream, log in _held(arena, source).items():
                arena.history.target_truncated(stream, log, before[stream], after[stream])


def _chop_replicas(fault: Fault, arena: Environment, partition: int) -> None:
    """Truncate after a record batch; with transactions after a marker, so that none stays open."""
    topic = arena.scenario.remote_topic
    replicas = [list(batch_lines(b.data / f"{topic}-{partition}")) for b in arena.target.brokers]
    lines = min(replicas, key=len)
    if arena.scenario.mode is Mode.EXACTLY_ONCE:
        lines = [line for line in lines if line.attributes & _CONTROL]
    ends = [line.base_offset + line.records for line in lines]
    tail = [end for end in ends if end > ends[-1] - _TAIL]
    keep = tail[fault.choose(tail)]
    for broker in arena.target.brokers:
        truncate(broker.data, topic, partition, keep)


def recreate_target(fault: Fault, arena: Environment) -> None:
    """Delete the remote topic; a running mirror recreates it."""
    topic, partitions = arena.scenario.remote_topic, arena.scenario.partitions
    if fault.way == "while running":
        arena.wait(fault.seconds)
        delete_topic(arena.target, topic)
    else:
        with _standstill(fault, arena):
            delete_topic(arena.target, topic)
            await_condition(
                arena, lambda: not topic_partitions(arena.target, topic), f"{topic} is gone"
            )
            client = admin(arena.target)
            made = client.create_topics([NewTopic(topic, partitions, replication_factor=3)])
            made[topic].result(PATIENCE_SECONDS)
    await_condition(
        arena, lambda: topic_partitions(arena.target, topic) == partitions, f"{topic} is there"
    )
    for source in arena.sources:
        for stream in _streams(arena, source):
            arena.history.target_recreated(stream)


def expire_producers(fault: Fault, arena: Environment) -> None:
    """Expire every producer on the target, while the mirror is down or idle."""
    _set_expiry(arena, _EXPIRY_MS)
    try:
        if fault.way == "while down":
            with _standstill(fault, arena):
                pass
        else:
            with _no_load(arena):
                arena.wait(fault.seconds)
    finally:
        _set_expiry(arena, None)


def _set_expiry(arena: Environment, milliseconds: str | None) -> None:
    for broker in arena.target.brokers:
        alter_configs(
            arena.target, ResourceType.BROKER, str(broker.node_id), {_EXPIRY: milliseconds}
        )
