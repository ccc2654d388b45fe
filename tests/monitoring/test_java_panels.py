# SPDX-License-Identifier: Apache-2.0
"""The queries of a dashboard of Strimzi's shape, beside Java's MirrorMaker 2 with the JMX exporter.

test_running_flow.py runs the same queries beside sparkmirror: the same panels have data.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from sparkmirror.devcluster.cluster import LocalCluster
from support.clients.load_generator import Load
from support.mirrors.java_metrics import SOURCE, TARGET, TOPIC, java_flow, make_traffic
from support.monitoring.panel_queries import STRIMZI_LABELS, STRIMZI_PANELS
from support.monitoring.prometheus_server import PrometheusServer, scrape_job
from support.waiting import PATIENCE_SECONDS, eventually


@pytest.fixture(scope="module")
def prometheus(
    shared_clusters: dict[str, LocalCluster], tmp_path_factory: pytest.TempPathFactory
) -> Iterator[PrometheusServer]:
    """Prometheus beside Java's worker."""
    directory: Path = tmp_path_factory.mktemp("java")
    clusters = {SOURCE: shared_clusters["source"], TARGET: shared_clusters["target"]}
    make_traffic(clusters[SOURCE])
    with (
        Load(clusters[SOURCE], TOPIC, per_second=50, partitions=2),  # averages are of a minute
        java_flow(clusters, directory) as exporter,
        PrometheusServer(
            directory / "prometheus", [scrape_job("java", exporter.address, STRIMZI_LABELS)]
        ) as server,
    ):
        yield server


@pytest.mark.parametrize("panel", STRIMZI_PANELS)
def test_a_panel_has_data(prometheus: PrometheusServer, panel: str) -> None:
    eventually(
        lambda: prometheus.query(STRIMZI_PANELS[panel]), PATIENCE_SECONDS, f"{panel} has data"
    )
