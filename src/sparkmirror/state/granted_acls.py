# SPDX-License-Identifier: Apache-2.0
"""The memory of ACL sync: which ACLs of a target were created by the flow, and by nobody else.

    key    {"resourceType":"TOPIC","name":"A.orders","patternType":"LITERAL",...}
    value  {"time":"<ISO 8601>"}, or nothing once the ACL was taken away

A compacted topic on the target. Kill -9 may strike anywhere, so an ACL is remembered before it is
created and forgotten after it was deleted. What a crash in between leaves behind is an ACL that is
remembered and not there: it is granted again if the source still has it, and forgotten otherwise.
If somebody creates exactly that ACL meanwhile, it counts as ours. That is meant: a cluster keeps
equal ACLs only once, so a stranger's ACL that equals one of ours cannot be told apart at any other
time either; and the other choice would leave rights behind that the source has withdrawn.

Belongs to one thread, and to whoever owns the client.
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

_A_RECORD_BATCH = 1_000  # some 250 KB: below what a topic takes by default
_UNKNOWN_TOPIC = 3
_log = logging.getLogger(__name__)


class GrantedAcls:
    """The ACLs that one flow created on its target."""

    def __init__(self, client: ClusterClient, topic: str) -> None:
        self.topic = topic
        self._alias = client.connection.alias
        self._log = TopicLog(client.connection, topic, "read_uncommitted", client)
        self._since: dict[TopicPartition, int] = {}
        self._malformed = 0
        self.topic_exists = False  # the topic, when it was last looked at
        self.bindings: set[AclBinding] = set()

    def refresh(self) -> None:
        """Read what has been written since the last time; a topic that is not there holds none."""
        before = self._malformed
        try:
            self._read()
        except BrokerError as error:
            if error.code != _UNKNOWN_TOPIC:
                raise
            self._reset()
            self.topic_exists = False
        if self._malformed > before:
            _log.warning(
                f"Topic '{self.topic}' on cluster '{self._alias}' holds "
                f"{self._malformed - before} records that are no ACLs; they were passed over"
            )

    def add(self, bindings: Collection[AclBinding]) -> None:
        """Before they are created; returns when every replica knows."""
        now = datetime.now(UTC).isoformat(timespec="seconds").replace("+00:00", "Z")
        self._write(bindings, encode({"time": now}))
        self.bindings |= set(bindings)

    def remove(self, bindings: Collection[AclBinding]) -> None:
        """After they were deleted."""
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
            for some in chunks(sorted(bindings), _A_RECORD_BATCH):
                log.append({0: [(_key(one), value) for one in some]})


def _key(binding: AclBinding) -> bytes:
    fields: dict[str, Json] = {**binding.as_dict()}
    return encode(fields)


def _binding(key: bytes) -> AclBinding:
    fields = decode(key, "The key of a remembered ACL")
    if not isinstance(fields, dict):
        raise WireError("The key of a remembered ACL is no JSON object.")
    return AclBinding.from_dict(fields)
