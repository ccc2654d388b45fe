# SPDX-License-Identifier: Apache-2.0
"""What the leader of a group does beside its own work: keys, and what nobody looks after.

A new leader first fences its predecessor where both write (`ConfigLog.lead`), with the key that
workers sign with from then on as its first record. One that was suspended and wakes up does not
know that it leads no more; whatever it writes then is refused by the broker.
"""

from __future__ import annotations

import logging
import secrets
import time

from sparkmirror.config.worker_settings import GroupSettings, SigningSettings
from sparkmirror.connect.group_state import GroupState
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
_log = logging.getLogger(__name__)


class GroupLeader:
    """Belongs to the worker's thread."""

    def __init__(
        self,
        group: GroupSettings,
        signing: SigningSettings,
        group_state: GroupState,
        membership: Membership,
    ) -> None:
        self._transactional_id = f"connect-cluster-{group.group_id}"
        self._signing = signing
        self._group_state = group_state
        self._membership = membership
        self._is_leading = False
        self._retry_fencing_at = float("inf")  # when to try once more what did not work
        self._has_warned = False

    @property
    def is_ready(self) -> bool:
        """Whether this worker leads, and its predecessor cannot write any more."""
        return self._is_leading and self._membership.is_leader

    def on_fenced(self) -> None:
        """A write was refused: if the group says that this worker leads, it begins anew."""
        self._is_leading = False

    def update(self) -> None:
        """Begin to lead, renew the key, clean up; nothing if somebody else leads."""
        if not self._membership.is_leader:
            if self._is_leading:
                self._group_state.write_configs(lambda log: log.resign())
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
            key = self._new_key()
            self._group_state.write_configs(lambda log: log.put_session_key(key))

    def _take_leadership(self) -> None:
        """A cluster whose transactions do not work just now can be led, only not fenced."""
        key = self._new_key()
        try:
            self._group_state.write_configs(
                lambda log: log.become_leader(self._transactional_id, key)
            )
        except LeadershipLostError:
            raise
        except ClusterError as error:
            self._group_state.write_configs(lambda log: _lead_unfenced(log, key))
            self._retry_fencing_at = time.monotonic() + _FENCE_SECONDS
            if not self._has_warned:
                _log.warning(
                    f"This worker leads, but its predecessor cannot be kept from writing: {error} "
                    f"Tried again every {_FENCE_SECONDS:g} s."
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
        """Statuses of connectors that were deleted when nobody was there to take them away."""
        self._group_state.refresh_statuses()
        for name in (
            self._group_state.statuses.connectors.keys() - self._group_state.configs.configs.keys()
        ):
            self._group_state.remove_connector_status(name)


def _lead_unfenced(log: ConfigLog, key: SessionKey) -> None:
    log.resign()
    log.put_session_key(key)
