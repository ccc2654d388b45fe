# SPDX-License-Identifier: Apache-2.0
"""Remembers which ACLs on a target the flow created.

    key    {"resourceType":"TOPIC","name":"A.orders","patternType":"LITERAL",...}
    value  {"time":"<ISO 8601>"}, or none once the ACL was deleted

A compacted topic on the target. A crash can happen anywhere, so an ACL is stored before it is
created and removed after it was deleted. After a crash in between, an ACL may be stored but not
exist: it is granted again if the source still has it, and removed otherwise. If another client
creates exactly that ACL meanwhile, it counts as ours: a cluster keeps equal ACLs only once, so it
cannot be distinguished at any other time either, and the alternative would keep rights that the
source has withdrawn.

Not thread-safe. The owner of the client closes it.
"""

from __future__ import annotations

import logging
from collections.abc import Collection
from datetime import UTC, datetime

from sparkmirror.errors import BrokerError, WireError
from sparkmirror.formats.connect_json import Json, decode, encode
from sparkmirror.kafka.acls import AclBinding
from sparkmirror.kafka.cluster_client import ClusterClient
from sparkmirror.kafka.topic_log import TopicLog
from sparkmirror.kafka.topic_requests import chunks
from sparkmirror.model import TopicPartition
from sparkmirror.quantities import counted
from sparkmirror.wire import error_codes

_RECORDS_PER_BATCH = 1_000  # about 250 KB: below the default max.message.bytes
_log = logging.getLogger(__name__)


class GrantedAcls:
    """The ACLs that one flow created on its target."""

    def __init__(self, client: ClusterClient, topic: str) -> None:
        self.topic = topic
        self._alias = client.connection.alias
        self._log = TopicLog(client.connection, topic, "read_uncommitted", client)
        self._since: dict[TopicPartition, int] = {}
        self._malformed = 0
        self.topic_exists = False  # at the last refresh
        self.bindings: set[AclBinding] = set()

    def refresh(self) -> None:
        """Read what was written since the last call; a missing topic has no ACLs."""
        before = self._malformed
        try:
            self._read()
        except BrokerError as error:
            if error.code != error_codes.UNKNOWN_TOPIC_OR_PARTITION:
                raise
            self._reset()
            self.topic_exists = False
        if self._malformed > before:
            _log.warning(
                f"Skipped {counted(self._malformed - before, 'record')} in topic '{self.topic}' "
                f"on cluster '{self._alias}' without a valid ACL: another program writes "
                "to it; stop that."
            )

    def add(self, bindings: Collection[AclBinding]) -> None:
        """Store ACLs before they are created. Blocks until all replicas have them."""
        now = datetime.now(UTC).isoformat(timespec="seconds").replace("+00:00", "Z")
        self._write(bindings, encode({"time": now}))
        self.bindings |= set(bindings)

    def remove(self, bindings: Collection[AclBinding]) -> None:
        """Remove ACLs after they were deleted."""
        self._write(bindings, None)
        self.bindings -= set(bindings)

    def _read(self) -> None:
        with self._log as log:
            self.topic_exists = True
            if log.was_replaced(self._since):
                self._reset()
            for record in log.read_to_end(since=self._since):
                try:
                    binding = _binding(record.key or b"")
                except WireError:
                    self._malformed += 1
                    continue
                if record.value is None:
                    self.bindings.discard(binding)
                else:
                    self.bindings.add(binding)

    def _reset(self) -> None:
        self._since.clear()
        self.bindings.clear()

    def _write(self, bindings: Collection[AclBinding], value: bytes | None) -> None:
        if not bindings:
            return
        with self._log as log:
            if log.was_replaced(self._since):
                self._reset()
            for chunk in chunks(sorted(bindings), _RECORDS_PER_BATCH):
                log.append({0: [(_key(one), value) for one in chunk]})


def _key(binding: AclBinding) -> bytes:
    fields: dict[str, Json] = {**binding.as_dict()}
    return encode(fields)


def _binding(key: bytes) -> AclBinding:
    fields = decode(key, "The key of a granted ACL")
    if not isinstance(fields, dict):
        raise WireError("The key of a granted ACL is not a JSON object.")
    return AclBinding.from_dict(fields)
