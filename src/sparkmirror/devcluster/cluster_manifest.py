# SPDX-License-Identifier: Apache-2.0
"""What a cluster's directory remembers of itself (`cluster.json`).

Kafka's own complaints about data that does not fit are long and late; these are short and early.
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

_FILE = "cluster.json"


@dataclass(frozen=True, slots=True)
class ClusterManifest:
    """Kafka's id of the cluster, its number of brokers, the Kafka version that wrote last."""

    cluster_id: str
    brokers: int
    version: str

    @classmethod
    def load_or_create(cls, directory: Path, *, brokers: int, version: str) -> Self:
        """Read the record, or begin one; a SetupError when the data does not fit what is wanted."""
        file = directory / _FILE
        known = cls._read(file)
        remedy = "Choose another data directory, or delete this one to begin anew."
        if known is not None and known.brokers != brokers:
            raise SetupError(
                f"{directory} holds a cluster of {known.brokers} broker(s), not of {brokers}.",
                remedy=remedy,
            )
        if known is not None and version_parts(known.version) > version_parts(version):
            raise SetupError(
                f"{directory} was written by Kafka {known.version}; "
                f"Kafka {version} cannot read what a newer version wrote.",
                remedy=remedy,
            )
        if known is not None and needs_zookeeper(known.version) != needs_zookeeper(version):
            raise SetupError(
                f"{directory} holds a cluster with ZooKeeper, written by Kafka {known.version}; "
                f"local clusters of Kafka {version} have none.",
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
                f"{file} cannot be read ({error}).",
                remedy=f"Delete {file.parent} to begin anew.",
            ) from error


def _random_id() -> str:
    return base64.urlsafe_b64encode(uuid.uuid4().bytes).decode().rstrip("=")
