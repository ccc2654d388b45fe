# SPDX-License-Identifier: Apache-2.0
"""Records of the producer registry, the compacted topic `mm2-producers.internal` on a target.

    key    {"producer":<producer id>,"cluster":"<id of the cluster that issued it>"}
    value  {"flow":"A->B","source":"<cluster id of A>","transactionalId":"<id>"}

    key    {"flow":"A->B","source":"<cluster id of A>","target":"<cluster id of B>",
            "connector":"<its name in a Connect cluster>"}
    value  {"topics":["<regex>"],"topicsExclude":["<regex>"],"java":false,"since":<ms>,"seen":<ms>}

A flow registers a producer id on its target before the first record batch under that id. So a flow
that reads this cluster knows which of its record batches a flow has written, and from which cluster
they came. A producer id counts only on the cluster that issued it.

A flow also registers itself, with the topics that have the same name on both clusters, and copies
the other flows that it finds on its source. So each registry knows the flows upstream of it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeGuard

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


@dataclass(frozen=True, slots=True)
class RegisteredFlow:
    """A flow, and the topics that it copies under the same name."""

    flow: str  # `A->B`
    source_cluster_id: str
    target_cluster_id: str
    topics: tuple[str, ...]  # Java regexes; empty: it renames every topic
    topics_exclude: tuple[str, ...] = ()
    took_over_from_java: bool = False  # so the target has record batches without a registered id
    since_ms: int = 0  # when it was registered first
    seen_ms: int = 0  # when it ran last; updated from time to time
    connector: str = ""  # of a Connect cluster, which may have several with the same clusters

    def key(self) -> bytes:
        fields: dict[str, Json] = {
            "flow": self.flow,
            "source": self.source_cluster_id,
            "target": self.target_cluster_id,
        }
        if self.connector:
            fields["connector"] = self.connector
        return encode(fields)

    def value(self) -> bytes:
        return encode(
            {
                "topics": list(self.topics),
                "topicsExclude": list(self.topics_exclude),
                "java": self.took_over_from_java,
                "since": self.since_ms,
                "seen": self.seen_ms,
            }
        )

    @classmethod
    def from_record(cls, key: bytes, value: bytes) -> RegisteredFlow | None:
        """Decode a record; None for records of another kind. Raises WireError if malformed."""
        named = decode(key, "The key of a registered flow")
        if not isinstance(named, dict) or "target" not in named:
            return None
        fields = decode(value, "A registered flow")
        if (
            not isinstance(fields, dict)
            or not isinstance(flow := named.get("flow"), str)
            or not isinstance(source := named.get("source"), str)
            or not isinstance(target := named["target"], str)
        ):
            raise WireError(f"A registered flow lacks a field: {key!r} {value!r}.")
        topics, excluded = fields.get("topics"), fields.get("topicsExclude")
        since, seen = fields.get("since"), fields.get("seen")
        connector = named.get("connector")
        if not _are_texts(topics) or not _are_texts(excluded):
            raise WireError(f"A registered flow lacks its topics: {key!r} {value!r}.")
        return cls(
            flow,
            source,
            target,
            tuple(topics),
            tuple(excluded),
            fields.get("java") is True,
            since if isinstance(since, int) else 0,
            seen if isinstance(seen, int) else 0,
            connector if isinstance(connector, str) else "",
        )


def _are_texts(value: object) -> TypeGuard[list[str]]:
    return isinstance(value, list) and all(isinstance(one, str) for one in value)
