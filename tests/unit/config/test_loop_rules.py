# SPDX-License-Identifier: Apache-2.0
"""What `check` says about flows that copy a topic in a cycle under one name."""

from __future__ import annotations

import pytest

from sparkmirror.config.files.notices import NoticeLevel
from sparkmirror.config.mirror_config import MirrorConfig

IDENTITY = "replication.policy.class = org.apache.kafka.connect.mirror.IdentityReplicationPolicy"


def notices(flows: str, *lines: str) -> list[tuple[NoticeLevel, str]]:
    """The notices about cycles for these flows."""
    clusters = sorted({name for flow in flows.split() for name in flow.split("->")})
    text = [
        f"clusters = {', '.join(clusters)}",
        *(f"{one}.bootstrap.servers = 127.0.0.1:1" for one in clusters),
        *(f"{flow}.enabled = true" for flow in flows.split()),
        *(lines or ("topics = orders, logs-.*", IDENTITY)),
    ]
    found = MirrorConfig.parse("\n".join(text)).all_notices(["B"])  # whatever runs here
    return [(one.level, one.message) for one in found if "under one name" in one.message]


def test_two_flows_that_copy_to_each_other_are_named() -> None:
    [(level, message)] = notices("A->B B->A")
    assert level is NoticeLevel.INFO
    assert message.startswith(
        "A->B, B->A copy topics 'orders' and 1 more in a cycle under one name. Records that a flow "
        "has copied are not copied back"
    )


def test_a_ring_is_one_error_with_the_missing_flow() -> None:
    [(level, message)] = notices("A->B B->C C->A")
    assert level is NoticeLevel.ERROR
    assert "Enable C->B, or let DefaultReplicationPolicy rename the topics" in message
    assert "A->B.loop.policy=ignore" in message


@pytest.mark.parametrize(
    ("flows", "lines"),
    [
        ("A->B B->A", ("topics = orders",)),  # renamed
        ("A->B B->C", ()),
        ("A->C B->C", ()),
        ("A->B B->A", ("A->B.topics = orders", "B->A.topics = invoices", IDENTITY)),
        (
            "A->B B->C C->A",
            ("topics = .*", "C->A.topics = audit", "A->B.topics = orders", IDENTITY),
        ),
    ],
)
def test_nothing_is_said_without_a_cycle(flows: str, lines: tuple[str, ...]) -> None:
    assert notices(flows, *lines) == []


def test_a_cycle_is_found_when_one_filter_selects_what_the_other_lists() -> None:
    lines = ("A->B.topics = .*", "B->A.topics = orders", IDENTITY)
    assert [level for level, _ in notices("A->B B->A", *lines)] == [NoticeLevel.INFO]


def test_a_mesh_and_a_line_are_no_rings() -> None:
    for flows in ("A->B B->A B->C C->B", "A->B B->A B->C C->B A->C C->A"):
        assert [level for level, _ in notices(flows)] == [NoticeLevel.INFO]


def test_an_ignored_cycle_is_a_warning() -> None:
    lines = ("topics = orders", IDENTITY, "B->A.loop.policy = ignore")
    config = "\n".join(
        [
            "clusters = A, B",
            "A.bootstrap.servers = 127.0.0.1:1",
            "B.bootstrap.servers = 127.0.0.1:1",
            "A->B.enabled = true",
            "B->A.enabled = true",
            *lines,
        ]
    )
    warnings = [
        one.message
        for one in MirrorConfig.parse(config).all_notices()
        if one.level is NoticeLevel.WARNING
    ]
    assert any("records may go round without end" in one for one in warnings)


def test_topics_of_a_config_provider_are_hidden(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COPIED", "invoices-of-a-secret-kind")
    lines = (
        "config.providers = env",
        "config.providers.env.class = org.apache.kafka.common.config.provider.EnvVarConfigProvider",
        "topics = ${env:COPIED}",
        IDENTITY,
    )
    [(_, message)] = notices("A->B B->A", *lines)
    assert "topics '[hidden]' in a cycle" in message


def test_forward_is_refused_with_the_reason() -> None:
    file = "clusters = A, B\nA->B.enabled = true\nA->B.loop.policy = forward"
    messages = [one.message for one in MirrorConfig.parse(file).all_notices()]
    assert any("does not carry the cluster where it was first produced" in one for one in messages)
