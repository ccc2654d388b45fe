# SPDX-License-Identifier: Apache-2.0
"""Where a connector stands: read at any time, changed only while it is stopped, by the leader.

A connector's stored offsets, for a client of the REST API: as Connect's offsets topic has them.

They are on the worker's cluster; those of an exactly-once connector are where its records go.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from http import HTTPStatus

from sparkmirror.config.connector_config import connector_class, read_connector
from sparkmirror.config.settings import FlowSettings
from sparkmirror.config.worker_config import WorkerConfig
from sparkmirror.connect import api_errors
from sparkmirror.connect.api import ApiError, ConnectorInfo
from sparkmirror.connect.group_state import GroupState
from sparkmirror.connect.leader import GroupLeader, topic_error
from sparkmirror.connect.offset_alterations import OffsetEntry, OffsetRecord, offset_records
from sparkmirror.errors import ArgumentError, ClusterError, ConfigError
from sparkmirror.formats.connect_config_records import TargetState
from sparkmirror.formats.connect_json import Json
from sparkmirror.formats.connect_status_records import RunState
from sparkmirror.formats.primitives import partition_for_key
from sparkmirror.kafka.topic_log import KeyValue, TopicLog
from sparkmirror.state.connect_configs import ClusterConfigState

_STOPPED_SECONDS = 15.0

_SECONDS = 30.0
JsonObject = Mapping[str, Json]


class OffsetRequests:
    """The requests of ConnectApi that are about offsets."""

    def __init__(self, file: WorkerConfig, group_state: GroupState, leader: GroupLeader) -> None:
        self._file = file
        self._group_state = group_state
        self._leader = leader

    def read(self, name: str) -> list[dict[str, Mapping[str, Json] | None]]:
        """Where it stands."""
        stored = self._offset_store(name)
        try:
            return [{"partition": one, "offset": offset} for one, offset in stored.read()]
        except ClusterError as error:
            raise topic_error("Error reading the offsets topic", error) from error

    def alter(self, name: str, entries: Sequence[OffsetEntry]) -> str:
        """Set them, all or none."""
        with self._fenced_while_stopped(name) as info:
            try:
                changes = offset_records(connector_class(info.config), name, entries)
            except ArgumentError as error:
                raise ApiError(HTTPStatus.INTERNAL_SERVER_ERROR, str(error)) from error
            self._offset_store(name).write(changes)
        return api_errors.OFFSETS_ALTERED

    def reset(self, name: str) -> str:
        """Forget them."""
        with self._fenced_while_stopped(name):
            self._offset_store(name).delete()
        return api_errors.OFFSETS_RESET

    @contextmanager
    def _fenced_while_stopped(self, name: str) -> Iterator[ConnectorInfo]:
        """Nobody resumes the connector meanwhile, and no worker that does not lead gets this far.

        Its target state is written once more, which only the leader can do.
        """
        self._leader.require()
        with self._leader.exclusive():
            info = self._await_stopped(name)
            with self._leader.writing() as log:
                log.put_target_state(name, TargetState.STOPPED)
            try:
                yield info
            except ClusterError as error:
                raise topic_error("Error writing to the offsets topic", error) from error

    def _offset_store(self, name: str) -> ConnectorOffsetStore:
        config = connector_info(self._group_state.configs, name).config
        try:
            return ConnectorOffsetStore(name, read_connector(config, self._file).settings)
        except ConfigError as error:
            raise ApiError(HTTPStatus.INTERNAL_SERVER_ERROR, str(error)) from error

    def _await_stopped(self, name: str) -> ConnectorInfo:
        """Nothing of it may write its offsets any more: whoever ran it has said that it ended."""
        self._leader.refresh()
        info = connector_info(self._group_state.configs, name)
        is_meant = self._group_state.configs.target_state(name) is TargetState.STOPPED
        if not is_meant or info.tasks:
            raise api_errors.not_stopped(name)
        deadline = time.monotonic() + _STOPPED_SECONDS
        while not self._has_stopped(name):
            if time.monotonic() > deadline:
                raise ApiError(
                    HTTPStatus.CONFLICT,
                    f"Connector {name} is to stop and has not ended yet; its offsets can be "
                    "modified when its status says STOPPED.",
                )
            self._leader.pause()
            self._leader.refresh()
        return info

    def _has_stopped(self, name: str) -> bool:
        known = self._group_state.statuses.connectors.get(name)
        return known is not None and known.state is RunState.STOPPED


def connector_info(configs: ClusterConfigState, name: str) -> ConnectorInfo:
    """A connector as the config topic has it; ApiError 404 if there is none."""
    config = configs.configs.get(name)
    if config is None:
        raise api_errors.connector_not_found(name)
    return ConnectorInfo(name, dict(config), tuple(range(len(configs.tasks(name)))))


class ConnectorOffsetStore:
    """Those of one connector; opens a connection for each call."""

    def __init__(self, connector: str, settings: FlowSettings) -> None:
        self._connector = connector
        self._connection = settings.state_cluster
        self._topic = settings.internal_topics.offsets

    def read(self) -> list[tuple[JsonObject, JsonObject]]:
        """Every partition with its offset, in the order of their keys."""
        return [
            (partition, offset)
            for _, (partition, offset) in sorted(self._latest().items())
            if offset is not None
        ]

    def write(self, changes: Sequence[OffsetRecord]) -> None:
        """Set offsets, or delete them; returns when every replica has them."""
        with TopicLog(self._connection, self._topic) as log:
            by_partition: dict[int, list[KeyValue]] = {}
            for one in changes:
                where = partition_for_key(one.key, log.partitions)
                by_partition.setdefault(where, []).append((one.key, one.value))
            log.append(by_partition)

    def delete(self) -> None:
        """Forget all of them."""
        self.write([OffsetRecord(key, None) for key, one in self._latest().items() if one[1]])

    def _latest(self) -> dict[bytes, tuple[JsonObject, JsonObject | None]]:
        found: dict[bytes, tuple[JsonObject, JsonObject | None]] = {}
        with TopicLog(self._connection, self._topic) as log:
            for record in log.read_to_end(_SECONDS):
                partition = self._partition(record.key)
                if partition is None or record.key is None:
                    continue
                found[record.key] = (partition, _fields(record.value))
        return found

    def _partition(self, key: bytes | None) -> JsonObject | None:
        """Of this connector's keys: [name, {...}]."""
        try:
            parts = json.loads(key or b"null")
        except ValueError:
            return None
        match parts:
            case [name, dict() as partition] if name == self._connector:
                return partition
        return None


def _fields(value: bytes | None) -> JsonObject | None:
    if value is None:
        return None
    try:
        found = json.loads(value)
    except ValueError:
        return None
    return found if isinstance(found, dict) else None
