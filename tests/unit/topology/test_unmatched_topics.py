# SPDX-License-Identifier: Apache-2.0
"""Items of `topics` that match nothing."""

from __future__ import annotations

from pathlib import Path

import pytest

from sparkmirror.config.mirror_config import MirrorConfig
from sparkmirror.model import Flow
from sparkmirror.policy.loading import load_policy
from sparkmirror.topology.unmatched_topics import missing_topics, unmatched_topics

EXISTING = ("orders", "payments", "payments.dead-letters", "mm2-offset-syncs.b.internal")

UNMATCHED = "'{}' in topics matches no topic of cluster 'a'."


@pytest.mark.parametrize(
    ("topics", "sentences"),
    [
        (".*", []),
        ("orders, pay.*", []),
        (
            "orders, paymnts",
            [f"{UNMATCHED.format('paymnts')} The nearest name is 'payments'."],
        ),
        ("invoices", [UNMATCHED.format("invoices")]),
        ("mm2-offset-.*", [UNMATCHED.format("mm2-offset-.*")]),
    ],
)
def test_a_name_that_matches_no_topic_gets_the_nearest_one(
    tmp_path: Path, topics: str, sentences: list[str]
) -> None:
    file = tmp_path / "mm2.properties"
    file.write_text(
        "clusters = a, b\na.bootstrap.servers = a:1\nb.bootstrap.servers = b:1\n"
        f"a->b.enabled = true\na->b.topics = {topics}\n"
    )
    flow = Flow("a", "b")
    settings = MirrorConfig.load(file).flow_settings(flow).policy
    policy = load_policy(settings, flow)
    assert unmatched_topics(settings, policy, "a", EXISTING) == sentences
    names_only = [one for one in sentences if "*" not in one]
    assert missing_topics(settings, policy, "a", EXISTING) == names_only
