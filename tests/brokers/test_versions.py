# SPDX-License-Identifier: Apache-2.0
"""Every Kafka version that was tried, as source and as target, seen by librdkafka on both sides.

`make test` runs the oldest version with the default one; `make brokers` runs all of them, and
each also with itself.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest
from confluent_kafka.admin import ResourceType

from sparkmirror.devcluster.jars import DEFAULT_KAFKA, TESTED_KAFKA
from sparkmirror.formats.mm2_records import Heartbeat
from support.clients.consumer_groups import commit, committed
from support.clients.librdkafka import (
    Record,
    await_copy,
    compare_topics,
    numbered,
    produce,
    read_topic,
)
from support.clients.offset_translations import partition_records
from support.clusters.topic_histories import alter_configs, set_configs
from support.mirrors.version_matrix import (
    BACK,
    DEFAULT,
    ONCE,
    PARTITIONS,
    SAME,
    THERE,
    Case,
    Direction,
    MirroredVersions,
    mirrored_versions,
)
from support.waiting import PATIENCE_SECONDS, eventually

OTHERS = [version for version in TESTED_KAFKA if version != DEFAULT_KAFKA]
SHORT = Case(OTHERS[-1], (THERE, BACK))
CODECS = ("none", "gzip", "snappy", "lz4", "zstd")
COUNT = 200
CHANGED = {"retention.ms": "123456789", "max.message.bytes": "2000000"}
ALL = [
    pytest.param(case, direction, id=case.title(direction).replace(" ", ""), marks=marks)
    for case, marks in [
        (SHORT, ()),
        *((Case(version, (THERE, BACK, SAME)), pytest.mark.thorough) for version in OTHERS),
    ]
    for direction in case.directions
]
every_direction = pytest.mark.parametrize(
    ("mirrored", "direction"), ALL, indirect=["mirrored"], scope="module"
)
Tried = Callable[[Direction, str], None]


@pytest.fixture(scope="module")
def mirrored(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[MirroredVersions]:
    """The clusters of a case and the mirror between them."""
    case: Case = request.param
    with mirrored_versions(case, tmp_path_factory.mktemp(f"kafka-{case.version}")) as found:
        yield found


@pytest.fixture(scope="module")
def killed(mirrored: MirroredVersions) -> MirroredVersions:
    """SIGKILL under load: first to the workers of all tasks, then to everything."""
    with mirrored.load():
        mirrored.await_more(seconds=2)
        workers = mirrored.mirror.python_workers()
        assert workers
        for worker in workers:
            worker.kill()
        mirrored.await_more(seconds=1)
        mirrored.mirror.kill_everything()
        mirrored.start()
        mirrored.await_more(seconds=1)
    return mirrored


@pytest.fixture
def tried(mirrored: MirroredVersions, record_property: Callable[[str, object], None]) -> Tried:
    """Say which cell of the table at the end a test is."""

    def say(direction: Direction, check: str) -> None:
        record_property("cell", [mirrored.case.title(direction), check])

    return say


@every_direction
def test_records_of_every_codec_are_copied(
    mirrored: MirroredVersions, direction: Direction, tried: Tried
) -> None:
    """Keys, values, headers, timestamps and order; also what has no key or no value."""
    tried(direction, "flow")
    source, target = mirrored.sides(direction)
    topic, remote = direction.topic(DEFAULT, "flow"), direction.remote(DEFAULT, "flow")
    for turn, codec in enumerate(CODECS):
        records = numbered(COUNT, PARTITIONS, first=turn * COUNT)
        produce(source, topic, records, compression_type=codec)
    timestamp = numbered(1)[0][1].timestamp_ms
    produce(
        source,
        topic,
        [(0, Record(None, b"", (), timestamp)), (1, Record(b"", None, (), timestamp))],
    )
    await_copy(source, topic, target, remote, PATIENCE_SECONDS)
    assert compare_topics(source, topic, target, remote) == len(CODECS) * COUNT + 2


@every_direction
def test_group_offsets_are_translated_exactly(
    mirrored: MirroredVersions, direction: Direction, tried: Tried
) -> None:
    """What a group has committed on the source means the same record on the target."""
    tried(direction, "groups")
    source, target = mirrored.sides(direction)
    topic, remote = direction.topic(DEFAULT, "groups"), direction.remote(DEFAULT, "groups")
    group = direction.topic(DEFAULT, "group")
    produce(source, topic, numbered(COUNT, PARTITIONS))
    await_copy(source, topic, target, remote, PATIENCE_SECONDS)
    here = {0: 17, 1: 42}
    commit(source, group, topic, here)
    originals = partition_records(source, *((topic, index) for index in here))
    copies = partition_records(target, *((remote, index) for index in here))

    def synced() -> bool:
        there = committed(target, group, remote, PARTITIONS)
        assert all(
            copies[remote, index].at(there[index]) == originals[topic, index].at(offset)
            for index, offset in here.items()
        ), there
        return True

    eventually(synced, PATIENCE_SECONDS, f"{group} is synced")


@every_direction
def test_topic_configs_are_synced(
    mirrored: MirroredVersions, direction: Direction, tried: Tried
) -> None:
    """A config that is changed on the source appears on the target, beside one that cannot."""
    tried(direction, "configs")
    source, target = mirrored.sides(direction)
    remote = direction.remote(DEFAULT, "configs")
    alter_configs(source, ResourceType.TOPIC, direction.topic(DEFAULT, "configs"), CHANGED)
    eventually(
        lambda: CHANGED.items() <= set_configs(target, remote).items(),
        PATIENCE_SECONDS,
        f"{remote} has {CHANGED}",
    )


@every_direction
def test_heartbeats_arrive(mirrored: MirroredVersions, direction: Direction, tried: Tried) -> None:
    """They are written to the target, and those of the source are copied like any records."""
    tried(direction, "heartbeats")
    source, target = mirrored.sides(direction)

    def flows_of(topic: str) -> set[str]:
        found = read_topic(target, topic).get(0, [])
        beats = [Heartbeat.from_record(one.key or b"", one.value or b"") for one in found]
        return {str(beat.flow) for beat in beats}

    expected = direction.flow(DEFAULT)
    eventually(
        lambda: expected in flows_of("heartbeats"), PATIENCE_SECONDS, f"a heartbeat of {expected}"
    )
    copied = f"{direction.source}.heartbeats"

    def begins_alike() -> bool:
        originals, copies = read_topic(source, "heartbeats")[0], read_topic(target, copied)[0]
        assert copies == originals[: len(copies)]
        return len(copies) > 1

    eventually(
        begins_alike, PATIENCE_SECONDS, f"{copied} flows", not_yet=(AssertionError, KeyError)
    )


@every_direction
def test_kills_under_load_lose_and_repeat_nothing(
    killed: MirroredVersions, direction: Direction, tried: Tried
) -> None:
    """Neither the death of a task nor that of everything shows on the target."""
    tried(direction, "kills")
    assert killed.repeated(direction, DEFAULT, "kills") == 0


@every_direction
def test_kills_under_load_lose_and_repeat_nothing_with_exactly_once(
    killed: MirroredVersions, direction: Direction, tried: Tried
) -> None:
    """The same for a flow that writes in transactions."""
    tried(direction, "exactly-once")
    assert killed.repeated(direction, ONCE, "kills") == 0


@every_direction
def test_a_restart_has_nothing_to_warn_of(
    killed: MirroredVersions, direction: Direction, tried: Tried
) -> None:
    """Configs that the target does not know are left out without a warning."""
    tried(direction, "no warnings")
    flow = direction.flow(DEFAULT)
    lines = [line for line in killed.mirror.log.splitlines() if f" {flow}" in line]
    lines = [line for line in lines if "no Spark task for" not in line]  # a busy machine
    assert lines
    assert [line for line in lines if " WARNING " in line or " ERROR " in line] == []
