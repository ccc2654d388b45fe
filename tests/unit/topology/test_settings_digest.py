# SPDX-License-Identifier: Apache-2.0
"""The digest of a flow's settings changes with what a plan depends on, and only with that."""

import pytest

from sparkmirror.config.mirror_config import MirrorConfig
from sparkmirror.model import Flow
from sparkmirror.topology.settings_digest import settings_digest

FILE = """
clusters = a, b
a.bootstrap.servers = 127.0.0.1:1
b.bootstrap.servers = 127.0.0.1:2
a->b.enabled = true
"""


def digest(extra: str = "") -> str:
    """Of the flow a->b, with a line more in the file."""
    return settings_digest(MirrorConfig.parse(FILE + extra).flow_settings(Flow("a", "b")))


@pytest.mark.parametrize(
    "line",
    [
        "a->b.topics = orders",
        "a->b.groups = billing",
        "a->b.replication.factor = 2",
        "a->b.sync.topic.configs.enabled = false",
        "a->b.sync.group.offsets.enabled = true",
        "a->b.use.defaults.from = source",
        "replication.policy.separator = _",
        "offset.storage.partitions = 7",
        "a.consumer.auto.offset.reset = latest",
    ],
)
def test_what_a_plan_depends_on_changes_it(line: str) -> None:
    assert digest(line) != digest()


@pytest.mark.parametrize(
    "line",
    [
        "a->b.refresh.topics.interval.seconds = 7",
        "a->b.sync.topic.configs.interval.seconds = 7",
        "tasks.max = 9",
        "b.admin.request.timeout.ms = 12345",
        "a.custom.password = s3cret",
    ],
)
def test_what_it_does_not_depend_on_leaves_it(line: str) -> None:
    """Secrets do not affect it: not even a hash of them is in a plan file."""
    assert digest(line) == digest()
