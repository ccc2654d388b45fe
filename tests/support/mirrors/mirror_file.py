# SPDX-License-Identifier: Apache-2.0
"""MM2 properties files for tests: aliases that no other test uses, so that state is its own.

Sessions in the groups of pairs are as short as brokers allow: whoever starts after a kill waits for
the end of the killed one's.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from support.clients.librdkafka import Cluster


def mirror_file(directory: Path, clusters: Mapping[str, Cluster], *lines: str) -> Path:
    """A properties file that names the clusters by alias and has these further lines."""
    file = directory / "mm2.properties"
    text = [f"clusters = {', '.join(clusters)}"]
    if not any("session.timeout.ms" in line for line in lines):
        text += [f"{alias}.session.timeout.ms = 6000" for alias in clusters]
    text += [
        f"{alias}.bootstrap.servers = {cluster.bootstrap_servers}"
        for alias, cluster in clusters.items()
    ]
    file.write_text("\n".join([*text, *lines, ""]), encoding="utf-8")
    return file
