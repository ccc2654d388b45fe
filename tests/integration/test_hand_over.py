# SPDX-License-Identifier: Apache-2.0
"""From Java MirrorMaker 2 to sparkmirror with the same file, the short way.

`make interop` has the other direction and everything that Java reads of ours.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from sparkmirror.devcluster.cluster import LocalCluster
from support.measurements import measured
from support.mirrors.java_hand_over import (
    check_exact,
    check_no_skip,
    check_records,
    java_hands_over,
    shared_flow,
)

pytestmark = pytest.mark.thorough


def test_sparkmirror_continues_where_java_stopped(
    source_cluster: LocalCluster, target_cluster: LocalCluster, tmp_path: Path
) -> None:
    """No record lost, none twice, and groups are synced wherever they stand."""
    one = shared_flow(tmp_path, source_cluster, target_cluster)
    found = java_hands_over(one)
    check_records(found)
    check_exact(one, "further", found.further)
    check_exact(one, "moves", found.further)
    again = check_no_skip(one, "inside", found.inside)
    measured(
        f"{found.compared} records, {found.pause_seconds:.1f} s between the two; a group in what "
        f"Java copied reads {again} records again"
    )
