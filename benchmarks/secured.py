# SPDX-License-Identifier: Apache-2.0
"""Brokers with a TLS listener beside the plain one, and a trust store for clients.

The store is a JKS made with keytool; Java and sparkmirror read the same file.
"""

from __future__ import annotations

import secrets
from dataclasses import dataclass
from pathlib import Path

from benchmarks.addresses import Servers
from sparkmirror.devcluster.cluster import LocalCluster
from support.data.certificates import Authority, key_store, trust_store

_LISTENER = "TLS"
LISTENERS = {_LISTENER: "SSL"}


@dataclass(frozen=True, slots=True)
class Way:
    """Addresses of both clusters, and the security lines of the file."""

    source: Servers
    target: Servers
    lines: tuple[str, ...]


class Tls:
    """Key material of brokers and clients, in files of a directory."""

    def __init__(self, directory: Path) -> None:
        directory.mkdir(parents=True)
        self._password = secrets.token_hex()
        authority = Authority("benchmark")
        identity = key_store(directory / "broker.pem", "PEM", authority.identity())
        self._trusted = trust_store(
            directory / "trusted.jks", "JKS", authority, password=self._password
        )
        prefix = f"listener.name.{_LISTENER.lower()}.ssl.keystore"
        self.broker = {f"{prefix}.type": "PEM", f"{prefix}.location": str(identity)}

    def way(self, source: LocalCluster, target: LocalCluster) -> Way:
        """Return TLS access to both clusters; lines without an alias apply to both."""
        return Way(
            Servers(source.listener_servers(_LISTENER)),
            Servers(target.listener_servers(_LISTENER)),
            (
                "security.protocol = SSL",
                "ssl.truststore.type = JKS",
                f"ssl.truststore.location = {self._trusted}",
                f"ssl.truststore.password = {self._password}",
            ),
        )
