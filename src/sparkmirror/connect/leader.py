# SPDX-License-Identifier: Apache-2.0
"""The leader of a group: fences its predecessor, renews the session key, writes the config topic.

A new leader first fences its predecessor (`ConfigLog.become_leader`). Its first record is the new
key for signatures. A leader that was suspended may not know yet that another worker leads; brokers
reject its writes.
"""

from __future__ import annotations

import logging
import secrets
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from http import HTTPStatus

from sparkmirror.config.worker_settings import GroupSettings, SigningSettings
from sparkmirror.connect import api_errors
from sparkmirror.connect.api import ApiError, ForwardTo
from sparkmirror.connect.group_state import GroupState
from sparkmirror.connect.startup import Startup
from sparkmirror.errors import ClusterError, LeadershipLostError
from sparkmirror.formats.connect_config_records import SessionKey
from sparkmirror.group.membership import Membership
from sparkmirror.state.connect_configs import ConfigLog

_BITS = {
    "HmacSHA1": 160,
    "HmacSHA224": 224,
    "HmacSHA256": 256,
    "HmacSHA384": 384,
    "HmacSHA512": 512,
    "HmacMD5": 128,
}
_FENCE_SECONDS = 60.0
_PATIENCE_SECONDS = 10.0  # limit for a change to wait for a leader
_PAUSE_SECONDS = 0.05
_log = logging.getLogger(__name__)


class GroupLeader:
    """One thread calls `maintain`; any thread may call the rest."""

    def __init__(
        self,
        group: GroupSettings,
        signing: SigningSettings,
        group_state: GroupState,
        membership: Membership,
        startup: Startup,
    ) -> None:
        self._transactional_id = f"connect-cluster-{group.group_id}"
        self._signing = signing
        self._group_state = group_state
        self._membership = membership
        self._startup = startup
        self._exclusive = threading.Lock()
        self._is_leading = False
        self._retry_fencing_at = float("inf")
        self._has_warned = False

    @property
    def is_ready(self) -> bool:
        """Whether this worker leads, and its predecessor is fenced."""
        return self._is_leading and self._membership.is_leader

    # --- for requests

    def require(self) -> None:
        """Return if this worker leads; wait for a limited time if there is no leader.

        ForwardTo if another worker leads; ApiError 409 without a leader, 503 before the start.
        """
        if not self._startup.is_started:
            raise api_errors.still_starting(self._startup.stage)
        deadline = time.monotonic() + _PATIENCE_SECONDS
        while not self.is_ready:
            url = self._membership.leader_url
            if url is not None and self._membership.is_member and not self._membership.is_leader:
                raise ForwardTo(url, partial(self._is_led_from, url))
            is_theirs = self._membership.is_standby  # a Java worker leads
            if is_theirs or time.monotonic() > deadline:
                raise api_errors.no_leader()
            self.pause()

    def _is_led_from(self, url: str) -> bool:
        return self._membership.leader_url == url

    @contextmanager
    def exclusive(self) -> Iterator[None]:
        """A context in which no connector is created, resumed or deleted."""
        with self._exclusive:
            yield

    @contextmanager
    def writing(self) -> Iterator[ConfigLog]:
        """The config topic, read to its end, for writes of the leader.

        ApiError 409 if this worker no longer leads, 500 if the topic cannot be written.
        """
        try:
            with self._group_state.writing() as config_log:
                config_log.read_new()
                if not self.is_ready:
                    raise api_errors.stale_configuration()
                yield config_log
        except LeadershipLostError as error:
            self._is_leading = False
            raise api_errors.stale_configuration() from error
        except ClusterError as error:
            _log.warning(f"Cannot write the config topic; the request got status 500: {error}")
            raise api_errors.config_write_failed() from error

    def refresh(self) -> None:
        """Read both topics before a decision; ApiError 500 if that fails."""
        try:
            self._group_state.refresh_configs()
            self._group_state.refresh_statuses()
        except ClusterError as error:
            raise topic_error("Error reading the topics of this worker's group", error) from error

    def pause(self) -> None:
        """Wait briefly for other workers; ApiError 409 if this one stops."""
        if self._startup.stopping.wait(_PAUSE_SECONDS):
            raise api_errors.no_leader()

    # --- maintenance

    def maintain(self) -> None:
        """Take over, renew the key, remove stale statuses; resign if another worker leads."""
        try:
            self._maintain()
        except LeadershipLostError:
            self._is_leading = (
                False  # fence again if the group still names this worker as the leader
            )
            raise

    def _maintain(self) -> None:
        if not self._membership.is_leader:
            if self._is_leading:
                with self._group_state.writing() as config_log:
                    config_log.resign()
            self._is_leading = False
            return
        if not self._is_leading:
            self._take_leadership()
            self._remove_deleted_statuses()
            self._is_leading = True
            _log.info("This worker leads its group")
        elif time.monotonic() > self._retry_fencing_at:
            self._take_leadership()
        elif self._is_key_old():
            with self._group_state.writing() as config_log:
                config_log.put_session_key(self._new_key())

    def _take_leadership(self) -> None:
        """Fence the predecessor; lead without fencing while transactions are unavailable."""
        key = self._new_key()
        try:
            with self._group_state.writing() as config_log:
                config_log.become_leader(self._transactional_id, key)
        except LeadershipLostError:
            raise
        except ClusterError as error:
            with self._group_state.writing() as config_log:
                config_log.resign()
                config_log.put_session_key(key)
            self._retry_fencing_at = time.monotonic() + _FENCE_SECONDS
            if not self._has_warned:
                _log.warning(
                    f"This worker leads, but its predecessor is not fenced yet: {error} "
                    f"Retrying every {_FENCE_SECONDS:g} s."
                )
            self._has_warned = True
        else:
            self._retry_fencing_at = float("inf")
            self._has_warned = False

    def _is_key_old(self) -> bool:
        key = self._group_state.configs.session_key
        age_ms = time.time() * 1000 - (key.created_ms if key is not None else 0)
        return age_ms > self._signing.key_ttl_ms

    def _new_key(self) -> SessionKey:
        algorithm = self._signing.key_algorithm
        bits = self._signing.key_bits or _BITS.get(algorithm, 256)
        return SessionKey(secrets.token_bytes(bits // 8), algorithm, int(time.time() * 1000))

    def _remove_deleted_statuses(self) -> None:
        """Remove statuses of connectors that were deleted while there was no leader."""
        self._group_state.refresh_statuses()
        known = self._group_state.statuses.connectors.keys()
        for name in known - self._group_state.configs.configs.keys():
            self._group_state.remove_connector_status(name)


def topic_error(what: str, error: ClusterError) -> ApiError:
    """Log the error; return an ApiError 500 about a topic that cannot be read or written."""
    _log.warning(f"{what}: {error}")
    return ApiError(HTTPStatus.INTERNAL_SERVER_ERROR, f"{what}: {error}")
