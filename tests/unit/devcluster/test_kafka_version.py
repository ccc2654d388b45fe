# SPDX-License-Identifier: Apache-2.0
"""What a Kafka version decides about how its brokers are run."""

from __future__ import annotations

import pytest

from sparkmirror.devcluster.jars import logs_with_log4j2, needs_zookeeper, version_parts


@pytest.mark.parametrize(
    ("version", "zookeeper", "log4j2"),
    [
        ("2.4.1", True, False),
        ("2.8.2", True, False),
        ("3.2.3", True, False),
        ("3.3.0", False, False),
        ("3.9.2", False, False),
        ("3.10.0", False, False),
        ("4.0.0", False, True),
    ],
)
def test_versions_are_compared_as_numbers(version: str, zookeeper: bool, log4j2: bool) -> None:
    """3.10 is newer than 3.3."""
    assert needs_zookeeper(version) is zookeeper
    assert logs_with_log4j2(version) is log4j2
    assert version_parts(version)[0] == int(version[0])
