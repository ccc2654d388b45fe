# SPDX-License-Identifier: Apache-2.0
"""The metrics of Java's MirrorMaker 2 are still those of tests/contract/golden/metrics.json."""

from __future__ import annotations

import json
from pathlib import Path

from sparkmirror.devcluster.cluster import LocalCluster
from sparkmirror.metrics.table import JAVA_METRICS
from support.mirrors.java_metrics import SOURCE, TARGET, java_flow, make_traffic
from support.mirrors.jmx_exporter import captured_names

GOLDEN = Path(__file__).parents[1] / "contract" / "golden" / "metrics.json"


def test_names_types_and_labels_are_those_of_the_golden_file(
    source_cluster: LocalCluster, target_cluster: LocalCluster, tmp_path: Path
) -> None:
    """Label values of our metrics, too; tools/capture_metrics.py writes the file."""
    clusters = {SOURCE: source_cluster, TARGET: target_cluster}
    make_traffic(source_cluster)
    with java_flow(clusters, tmp_path) as exporter:
        found = captured_names(exporter.scrape())
    golden = json.loads(GOLDEN.read_text("utf-8"))["metrics"]
    assert found.keys() == golden.keys()
    for name, expected in golden.items():
        assert found[name]["type"] == expected["type"], name
        assert found[name]["labels"].keys() == expected["labels"].keys(), name
    for name in (name for one in JAVA_METRICS for name in one.sample_names):
        assert found[name]["labels"] == golden[name]["labels"], name
