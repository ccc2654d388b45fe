# SPDX-License-Identifier: Apache-2.0
"""Lines that do nothing are told so, with the line that would."""

from __future__ import annotations

import pytest

from sparkmirror.config.files.notices import NoticeLevel
from sparkmirror.config.mirror_config import MirrorConfig

BASE = (
    "clusters=primary, backup",
    "primary.bootstrap.servers=x:1",
    "backup.bootstrap.servers=y:1",
    "primary->backup.enabled=true",
)


def remarks(*lines: str) -> list[tuple[str, str]]:
    """Level and sentence of everything said about these lines of an ordinary file."""
    found = MirrorConfig.parse("\n".join((*BASE, *lines))).all_notices()
    return [(notice.level.value, str(notice)) for notice in found]


def test_an_ordinary_file_is_not_remarked_upon() -> None:
    """Silence means that all is well."""
    assert remarks() == []


@pytest.mark.parametrize(
    ("line", "level", "part"),
    [
        # unknown names, with what was probably meant
        ("topcs=x", "warning", "did you mean topics?"),
        ("replication.policy.seperator=_", "warning", "did you mean replication.policy.separator?"),
        ("primary->backup.topic=x", "warning", "did you mean primary->backup.topics?"),
        ("primary.bootstrap.server=x", "warning", "did you mean primary.bootstrap.servers?"),
        ("primary.consumer.isolation.lvl=x", "warning", "primary.consumer.isolation.level?"),
        ("primry.bootstrap.servers=x:1", "warning", "did you mean primary.bootstrap.servers?"),
        ("other.bootstrap.servers=x:1", "warning", "clusters does not name other"),
        ("something.else=x", "warning", "something.else is unknown"),
        ("primary->backup.something.else=x", "warning", "only a custom class"),
        # known names in the wrong place
        ("consumer.fetch.min.bytes=1", "warning", "write primary.consumer.fetch.min.bytes and"),
        ("offset.flush.interval.ms=5", "warning", "write primary.offset.flush.interval.ms and"),
        ("exactly.once.source.support=enabled", "warning", "is a worker key"),
        ("use.defaults.from=source", "warning", "write A->B.use.defaults.from"),
        (
            "primary->backup.offset.flush.interval.ms=5",
            "warning",
            "write backup.offset.flush.interval.ms",
        ),
        ("primary->backup.producer.acks=1", "warning", "primary->backup.producer.override.acks"),
        ("backup.replication.policy.separator=_", "warning", "does nothing for a cluster"),
        ("backup.forwarding.admin.class=x.Y", "warning", "does nothing for a cluster"),
        ("primary.topics=x", "warning", "write topics for all flows or primary->B.topics"),
        # old names
        ("topics.blacklist=x", "warning", "write topics.exclude"),
        ("primary->backup.groups.blacklist=x", "warning", "write primary->backup.groups.exclude"),
        ("config.properties.blacklist=x", "warning", "write config.properties.exclude"),
        ("use.incremental.alter.configs=always", "info", "the only way since Kafka 4.0"),
        # known names without effect
        ("primary->backup.target.consumer.fetch.min.bytes=1", "info", "nothing consumes"),
        ("backup.consumer.fetch.min.bytes=1", "info", "no enabled flow reads from backup"),
        ("backup.connect.protocol=eager", "info", "uses a different protocol"),
        ("dedicated.mode.enable.internal.rest=true", "info", "coordinate through Kafka"),
        ("task.shutdown.graceful.timeout.ms=5", "info", "tasks stop within seconds"),
        ("primary->backup.transforms.x.type=y", "info", "no Java plugin"),
        ("key.converter.schemas.enable=true", "info", "no Java plugin"),
        ("admin.timeout.ms=1000", "info", "not in this version yet"),
        ("config.providers.vault.class=x.Y", "warning", "does not name vault"),
        # mistakes that would lose a flow
        ("primary->bakup.enabled=true", "error", "did you mean 'backup'?"),
        ("primary->elsewhere.topics=x", "error", "clusters does not name 'elsewhere'"),
        ("primary->primary.enabled=true", "error", "copy primary to itself"),
        ("primary->primary.topics=x", "warning", "a flow cannot copy a cluster to itself"),
        ("primary -> backup.topics=x", "error", "a space ends a key"),
        ("primary->backup=x", "error", "there is no key after the flow"),
        ("dedicated.mode.enable.internal.rest=maybe", "error", "must be true or false"),
        ("listeners=nowhere", "error", "must list addresses"),
        ("listeners=ftp://:8443,http://:8083", "error", "http and https only"),
        ("listeners=https://:8443,http://:8083", "error", "there is no certificate"),
        ("listeners.https.ssl.keystor.type=PEM", "warning", "listeners.https.ssl.keystore.type?"),
        ("rest.extension.classes=acme.Extension", "warning", "acme.Extension does not run"),
    ],
)
def test_a_line_gets_one_remark(line: str, level: str, part: str) -> None:
    """Key, line and remedy in one sentence."""
    found = remarks(line)
    matching = [sentence for found_level, sentence in found if found_level == level]
    (sentence,) = [sentence for sentence in matching if part in sentence]
    assert sentence.startswith("line 5: ")


@pytest.mark.parametrize(
    "line",
    [
        "primary->backup.use.defaults.from=source",
        "primary->backup.consumer.fetch.min.bytes=5",
        "primary->backup.source.consumer.fetch.min.bytes=5",
        "primary->backup.producer.override.acks=1",
        "backup.offset.storage.segment.bytes=5",
        "status.storage.partitions=5",
        "backup.offset.flush.interval.ms=1000",
        "config.providers.env.param.allowlist.pattern=x",
        "primary->backup.source.cluster.bootstrap.servers=z:1",
        "tasks.max=3",
        "security.protocol=PLAINTEXT",
        "epoch.seconds=60",
        "primary->backup.gap.policy=stop",
    ],
)
def test_a_line_in_its_place_is_not_remarked_upon(line: str) -> None:
    """No false alarms."""
    assert remarks(line) == []


def test_repeated_keys_name_both_lines() -> None:
    """The earlier line is the one that does nothing."""
    assert remarks("tasks.max=1", "tasks.max=2") == [
        ("warning", "line 5: tasks.max is repeated; the last one, line 6, is used.")
    ]


def test_a_line_overridden_by_a_cluster_is_reported() -> None:
    """`A->B.consumer.x` looks stronger than `A.consumer.x`, but is not."""
    (found,) = remarks(
        "primary->backup.consumer.fetch.min.bytes=1", "primary.consumer.fetch.min.bytes=2"
    )
    assert found == (
        "warning",
        (
            "line 5: primary->backup.consumer.fetch.min.bytes is overridden by "
            "primary.consumer.fetch.min.bytes on line 6; write "
            "primary->backup.source.consumer.fetch.min.bytes instead."
        ),
    )


def test_an_overridden_storage_line_of_a_cluster_is_reported() -> None:
    """For the storage keys the whole file's line is the stronger one."""
    (found,) = remarks("backup.offset.storage.partitions=1", "offset.storage.partitions=2")
    assert found[0] == "warning"
    assert "is overridden by offset.storage.partitions on line 6" in found[1]


def test_aliases_may_look_like_keys() -> None:
    """A cluster called `topics` does not make `topics.exclude` its property."""
    file = MirrorConfig.parse(
        "clusters=topics, us.east\n"
        "topics.bootstrap.servers=x:1\n"
        "us.east.bootstrap.servers=y:1\n"
        "topics->us.east.enabled=true\n"
        "topics.exclude=a\n"
    )
    assert [str(n) for n in file.all_notices()] == []


def test_errors_come_first_then_the_files_order() -> None:
    """The reader starts with what must be fixed."""
    found = remarks("topcs=x", "sync.topic.acls.enabled=no", "groops=x")
    assert [level for level, _ in found] == ["error", "warning", "warning"]
    assert [sentence.partition(":")[0] for _, sentence in found] == ["line 6", "line 5", "line 7"]
    assert NoticeLevel.ERROR.value == found[0][0]
