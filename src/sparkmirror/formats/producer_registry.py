# SPDX-License-Identifier: Apache-2.0
"""Records of the producer registry, the compacted topic `mm2-producers.internal` on a target.

    key    {"producer":<producer id>,"cluster":"<id of the cluster that issued it>"}
    value  {"flow":"A->B","source":"<cluster id of A>","transactionalId":"<id>"}

A flow registers a producer id on its target before the first record batch under that id. So a flow
that reads this cluster knows which of its record batches a flow has written, and from which cluster
they came. A producer id counts only on the cluster that issued it.
"""

from __future__ import annotations

from dataclasses import dataclass

from sparkmirror.errors import WireError
from sparkmirror.formats.connect_json import Json, decode, encode

PRODUCERS_TOPIC = "mm2-producers.internal"


@dataclass(frozen=True, slots=True)
class RegisteredProducer:
    """A producer id of a flow."""

    producer_id: int
    cluster_id: str  # of the cluster that issued the id: the flow's target
    flow: str  # `A->B`
    source_cluster_id: str
    transactional_id: str | None = None

    def key(self) -> bytes:
        return encode({"producer": self.producer_id, "cluster": self.cluster_id})

    def value(self) -> bytes:
        fields: dict[str, Json] = {"flow": self.flow, "source": self.source_cluster_id}
        if self.transactional_id is not None:
            fields["transactionalId"] = self.transactional_id
        return encode(fields)

    @classmethod
    def from_record(cls, key: bytes, value: bytes) -> RegisteredProducer | None:
        """Decode a record; None for records of another kind. Raises WireError if malformed."""
        named = decode(key, "The key of a registered producer")
        if not isinstance(named, dict) or "producer" not in named:
            return None
        fields = decode(value, "A registered producer")
        producer_id, cluster = named.get("producer"), named.get("cluster")
        if (
            not isinstance(fields, dict)
            or not isinstance(producer_id, int)
            or isinstance(producer_id, bool)
            or not isinstance(cluster, str)
            or not isinstance(flow := fields.get("flow"), str)
            or not isinstance(source := fields.get("source"), str)
        ):
            raise WireError(f"A registered producer lacks a field: {key!r} {value!r}.")
        name = fields.get("transactionalId")
        return cls(producer_id, cluster, flow, source, name if isinstance(name, str) else None)
