# SPDX-License-Identifier: Apache-2.0
"""What a cluster's directory contains (`cluster.json`).

Detects data that does not match before Kafka starts; Kafka's own errors are long and late.
"""

from __future__ import annotations

import base64
import json
import uuid
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Self

from sparkmirror.devcluster.jars import needs_zookeeper, version_parts
from sparkmirror.errors import SetupError
from sparkmirror.quantities import counted

_FILE = "cluster.json"


@dataclass(frozen=True, slots=True)
class ClusterManifest:
    """The cluster id, the number of brokers, and the Kafka version that wrote last."""

    cluster_id: str
    brokers: int
    version: str

    @classmethod
    def load_or_create(cls, directory: Path, *, brokers: int, version: str) -> Self:
        """Read or create the file. Raises SetupError if the data does not match the arguments."""
        file = directory / _FILE
        known = cls._read(file)
        remedy = "Choose another data directory, or delete this one to start over."
        if known is not None and known.brokers != brokers:
            raise SetupError(
                f"{directory} contains a cluster of {counted(known.brokers, 'broker')}, not "
                f"{brokers}.",
                remedy=remedy,
            )
        if known is not None and version_parts(known.version) > version_parts(version):
            raise SetupError(
                f"{directory} was written by Kafka {known.version}; "
                f"Kafka {version} cannot read data of a newer version.",
                remedy=remedy,
            )
        if known is not None and needs_zookeeper(known.version) != needs_zookeeper(version):
            raise SetupError(
                f"{directory} contains a cluster with ZooKeeper, written by Kafka {known.version}; "
                f"local clusters of Kafka {version} use KRaft.",
                remedy=remedy,
            )
        cluster_id = known.cluster_id if known else _random_id()
        record = cls(cluster_id=cluster_id, brokers=brokers, version=version)
        if record != known:
            file.write_text(json.dumps(asdict(record)) + "\n", encoding="utf-8")
        return record

    @classmethod
    def _read(cls, file: Path) -> Self | None:
        if not file.exists():
            return None
        try:
            return cls(**json.loads(file.read_text(encoding="utf-8")))
        except (OSError, ValueError, TypeError) as error:
            raise SetupError(
                f"Cannot read {file} ({error}).",
                remedy=f"Delete {file.parent} to start over.",
            ) from error


def _random_id() -> str:
    return base64.urlsafe_b64encode(uuid.uuid4().bytes).decode().rstrip("=")
