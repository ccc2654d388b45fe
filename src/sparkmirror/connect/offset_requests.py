# SPDX-License-Identifier: Apache-2.0
"""Where a connector stands: read at any time, changed only while it is stopped, by the leader."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from http import HTTPStatus

from sparkmirror.config.connector_config import connector_class, read_connector
from sparkmirror.config.connector_offsets import OffsetEntry, offset_changes
from sparkmirror.config.worker_file import WorkerFile
from sparkmirror.connect import refusals
from sparkmirror.connect.api import ApiError, ConnectorInfo
from sparkmirror.connect.board import Board
from sparkmirror.connect.leader_writes import LeaderWrites, failed
from sparkmirror.connect.stored_offsets import StoredOffsets
from sparkmirror.errors import ArgumentError, ClusterError, ConfigError
from sparkmirror.formats.connect_json import Json
from sparkmirror.formats.connect_records import TargetState
from sparkmirror.formats.connect_statuses import State

_STOPPED_SECONDS = 15.0


class OffsetRequests:
    """The requests of ConnectApi that are about offsets."""

    def __init__(self, file: WorkerFile, board: Board, writes: LeaderWrites) -> None:
        self._file = file
        self._board = board
        self._writes = writes

    def read(self, name: str) -> list[dict[str, Mapping[str, Json] | None]]:
        """Where it stands."""
        stored = self._stored(name)
        try:
            return [{"partition": one, "offset": offset} for one, offset in stored.read()]
        except ClusterError as error:
            raise failed("Error reading the offsets topic", error) from error

    def alter(self, name: str, entries: Sequence[OffsetEntry]) -> str:
        """Set them, all or none."""
        with self._while_stopped(name) as info:
            try:
                changes = offset_changes(connector_class(info.config), name, entries)
            except ArgumentError as error:
                raise ApiError(HTTPStatus.INTERNAL_SERVER_ERROR, str(error)) from error
            self._stored(name).write(changes)
        return refusals.ALTERED

    def reset(self, name: str) -> str:
        """Forget them."""
        with self._while_stopped(name):
            self._stored(name).delete()
        return refusals.RESET

    @contextmanager
    def _while_stopped(self, name: str) -> Iterator[ConnectorInfo]:
        """Nobody resumes the connector meanwhile, and no worker that does not lead gets this far.

        Its target state is written once more, which only the leader can do.
        """
        self._writes.need_lead()
        with self._writes.lock:
            info = self._need_stopped(name)
            self._writes.write(lambda log: log.put_target_state(name, TargetState.STOPPED))
            try:
                yield info
            except ClusterError as error:
                raise failed("Error writing to the offsets topic", error) from error

    def _stored(self, name: str) -> StoredOffsets:
        config = self._writes.info(name).config
        try:
            return StoredOffsets(name, read_connector(config, self._file).settings)
        except ConfigError as error:
            raise ApiError(HTTPStatus.INTERNAL_SERVER_ERROR, str(error)) from error

    def _need_stopped(self, name: str) -> ConnectorInfo:
        """Nothing of it may write its offsets any more: whoever ran it has said that it ended."""
        self._writes.refresh()
        info = self._writes.info(name)
        is_meant = self._board.configs.target_state(name) is TargetState.STOPPED
        if not is_meant or info.tasks:
            raise refusals.not_stopped(name)
        deadline = time.monotonic() + _STOPPED_SECONDS
        while not self._has_stopped(name):
            if time.monotonic() > deadline:
                raise ApiError(
                    HTTPStatus.CONFLICT,
                    f"Connector {name} is to stop and has not ended yet; its offsets can be "
                    "modified when its status says STOPPED.",
                )
            self._writes.pause()
            self._writes.refresh()
        return info

    def _has_stopped(self, name: str) -> bool:
        known = self._board.statuses.connectors.get(name)
        return known is not None and known.state is State.STOPPED
