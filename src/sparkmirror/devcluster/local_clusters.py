# SPDX-License-Identifier: Apache-2.0
"""The local clusters of one data directory, shared by all processes of the user.

data/state.json     clusters, brokers, ports, pids with process start times
data/<cluster>/     the cluster's own directory
"""

from __future__ import annotations

import fcntl
import json
import re
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from sparkmirror.devcluster.cluster import LocalCluster, start_all
from sparkmirror.devcluster.metadata_probe import fetch_broker_metadata
from sparkmirror.devcluster.ports import HOST
from sparkmirror.devcluster.process_identity import ProcessIdentity, stop_processes
from sparkmirror.devcluster.server_process import ServerProcess
from sparkmirror.errors import SetupError
from sparkmirror.system.cache_directory import ensure_writable

_STOP_SECONDS = 20.0
_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._-]*")


@dataclass(frozen=True, slots=True)
class ServerEntry:
    """One process of a cluster, as stored in the state file."""

    port: int
    pid: int
    started: str
    log: str

    @property
    def address(self) -> str:
        return f"{HOST}:{self.port}"

    @property
    def process(self) -> ProcessIdentity:
        return ProcessIdentity(self.pid, self.started)


@dataclass(frozen=True, slots=True)
class BrokerEntry(ServerEntry):
    """One broker, as stored in the state file."""

    node_id: int

    def state(self) -> str:
        """Return `running`, `not answering` or `stopped`, by a request to the broker."""
        if not self.process.alive:
            return "stopped"
        return "running" if fetch_broker_metadata(HOST, self.port) else "not answering"


@dataclass(frozen=True, slots=True)
class ClusterEntry:
    """One cluster, as stored in the state file."""

    name: str
    version: str
    directory: str
    brokers: tuple[BrokerEntry, ...]
    zookeeper: ServerEntry | None = None

    @property
    def bootstrap_servers(self) -> str:
        return ",".join(broker.address for broker in self.brokers)

    @property
    def alive(self) -> bool:
        """Whether any of its processes is running."""
        servers = [*self.brokers, *([self.zookeeper] if self.zookeeper else [])]
        return any(server.process.alive for server in servers)


class LocalClusters:
    """Starts, finds and stops the clusters of one data directory."""

    def __init__(self, data: Path) -> None:
        self.data = data.expanduser().absolute()
        self._state = self.data / "state.json"

    def start(
        self,
        names: Sequence[str],
        *,
        brokers: int,
        version: str,
        first_port: int | None,
        detached: bool,
    ) -> list[LocalCluster]:
        """Start clusters concurrently and add them to the state file. None may be running."""
        _check_names(names)
        ensure_writable(
            self.data, remedy="Choose another directory with --data, or make it writable."
        )
        with self._locked():
            for entry in self.clusters():
                if entry.name in names and entry.alive:
                    where = entry.bootstrap_servers
                    raise SetupError(
                        f"The local cluster {entry.name} is already running at {where}.",
                        remedy="Use it, stop it with `sparkmirror local down`, or choose --data.",
                    )
            clusters = [
                LocalCluster(
                    name,
                    self.data / name,
                    brokers=brokers,
                    version=version,
                    ports=_ports(first_port, brokers, index),
                    detached=detached,
                )
                for index, name in enumerate(names)
            ]
            start_all(clusters)
            others = [entry for entry in self.clusters() if entry.name not in names]
            self._write([*others, *(_entry(cluster) for cluster in clusters)])
        return clusters

    def stop(self, names: Iterable[str] | None = None) -> list[str]:
        """Stop and remove the named clusters, or all. Returns their names."""
        stopped = self.clusters() if names is None else [self.find(name) for name in names]
        stop_processes(
            (broker.process for entry in stopped for broker in entry.brokers),
            timeout_seconds=_STOP_SECONDS,
        )
        # Brokers deregister from ZooKeeper when they stop, and wait for it.
        stop_processes(
            (entry.zookeeper.process for entry in stopped if entry.zookeeper),
            timeout_seconds=_STOP_SECONDS,
        )
        self.remove(stopped)
        return [entry.name for entry in stopped]

    def remove(self, entries: Sequence[ClusterEntry]) -> None:
        """Remove clusters from the state file; newer clusters with the same names stay."""
        if entries:
            with self._locked():
                self._write([entry for entry in self.clusters() if entry not in entries])

    def clusters(self) -> list[ClusterEntry]:
        """Return the clusters of the state file, sorted by name."""
        if not self._state.exists():
            return []
        try:
            known = json.loads(self._state.read_text(encoding="utf-8"))
            entries = [_read_entry(cluster) for cluster in known]
        except (OSError, ValueError, TypeError, KeyError) as error:
            raise SetupError(
                f"Cannot read {self._state} ({error}).",
                remedy="Stop its brokers manually, then delete the file.",
            ) from error
        return sorted(entries, key=lambda entry: entry.name)

    def find(self, name: str) -> ClusterEntry:
        """Return the cluster of that name. Raises SetupError that lists the others."""
        entries = self.clusters()
        for entry in entries:
            if entry.name == name:
                return entry
        known = ", ".join(entry.name for entry in entries)
        raise SetupError(
            f"Local cluster {name!r} does not exist in {self.data}"
            + (f" (there is {known})." if known else "."),
            remedy="Start clusters with `sparkmirror local up`, or use host:port for another one.",
        )

    @contextmanager
    def _locked(self) -> Iterator[None]:
        with (self.data / ".lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            yield

    def _write(self, entries: Iterable[ClusterEntry]) -> None:
        scratch = self._state.with_suffix(".part")
        text = json.dumps([asdict(entry) for entry in entries], indent=2)
        scratch.write_text(text + "\n", encoding="utf-8")
        scratch.replace(self._state)


def _read_entry(known: dict[str, Any]) -> ClusterEntry:
    zookeeper = known.get("zookeeper")
    return ClusterEntry(
        **{
            **known,
            "brokers": tuple(BrokerEntry(**broker) for broker in known["brokers"]),
            "zookeeper": ServerEntry(**zookeeper) if zookeeper else None,
        }
    )


def _entry(cluster: LocalCluster) -> ClusterEntry:
    brokers = [
        BrokerEntry(node_id=broker.node_id, **_process_of(broker, broker.port))
        for broker in cluster.brokers
    ]
    zookeeper = cluster.zookeeper
    return ClusterEntry(
        cluster.name,
        cluster.version,
        str(cluster.directory),
        tuple(brokers),
        ServerEntry(**_process_of(zookeeper, zookeeper.port)) if zookeeper else None,
    )


def _process_of(server: ServerProcess, port: int) -> dict[str, Any]:
    process = ProcessIdentity.of(server.pid) if server.pid else None
    if process is None:
        raise server.error("exited immediately after its start")
    return {**asdict(process), "port": port, "log": str(server.log_file)}


def _ports(first: int | None, brokers: int, index: int) -> list[int] | None:
    """Assign consecutive ports: the first cluster's brokers, then the second's, and so on."""
    if first is None:
        return None
    start = first + index * brokers
    return list(range(start, start + brokers))


def _check_names(names: Sequence[str]) -> None:
    for name in names:
        if _NAME.fullmatch(name) is None:
            raise SetupError(
                f"Invalid cluster name {name!r}.",
                remedy="Use letters, digits, dots, dashes and underscores.",
            )
    if len(set(names)) != len(names) or not names:
        raise SetupError("Cluster names must be unique and not empty.", remedy="Check --clusters.")
