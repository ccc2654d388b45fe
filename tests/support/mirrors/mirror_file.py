# SPDX-License-Identifier: Apache-2.0
"""MM2 properties files for tests, with unique aliases, so that tests share no state.

Group sessions are as short as brokers allow: a start after a kill waits for the old session to end.
Progress is logged often, for tests that wait for it.
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
    if not any("log.progress.seconds" in line for line in lines):
        text += ["log.progress.seconds = 5"]
    text += [
        f"{alias}.bootstrap.servers = {cluster.bootstrap_servers}"
        for alias, cluster in clusters.items()
    ]
    file.write_text("\n".join([*text, *lines, ""]), encoding="utf-8")
    return file
