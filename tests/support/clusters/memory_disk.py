# SPDX-License-Identifier: Apache-2.0
"""Puts the data of test brokers into memory, where there is room for it."""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path

from sparkmirror.devcluster.cluster import LocalCluster

_MEMORY = Path("/dev/shm")  # noqa: S108 - a file system in memory, not a file in a shared folder
_ROOM = 8 << 30


def keep_in_memory(cluster: LocalCluster) -> list[Path]:
    """Where a file system in memory has room, put the brokers' data there.

    The suite writes gigabytes and makes thousands of partitions, each with an fsync. On a disk
    that is still busy with the gigabytes of the test before, a new topic takes seconds, and what
    the tests then measure is the disk.
    """
    if not _MEMORY.is_dir() or shutil.disk_usage(_MEMORY).free < _ROOM:
        return []
    folders = []
    for broker in cluster.brokers:
        folders.append(Path(tempfile.mkdtemp(prefix="sparkmirror-test-", dir=_MEMORY)))
        broker.data.parent.mkdir(parents=True)
        broker.data.symlink_to(folders[-1])
    return folders
