# SPDX-License-Identifier: Apache-2.0
"""How remote topics are named: MM2's two replication policies and the interface for others.

Names are split as Java's `String.split` does: trailing empty parts are dropped, so `foo.` is a
local topic, while any dotted local name (`orders.v1`) looks remote.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol, runtime_checkable

_HEARTBEATS = "heartbeats"
_OFFSET_SYNCS = "mm2-offset-syncs"
_CHECKPOINTS = "checkpoints"
_INTERNAL = "internal"

SEPARATOR_KEY = "replication.policy.separator"
INTERNAL_SEPARATOR_KEY = "replication.policy.internal.topic.separator.enabled"
SOURCE_ALIAS_KEY = "source.cluster.alias"


@runtime_checkable
class ReplicationPolicy(Protocol):
    """The interface of a policy; `BaseReplicationPolicy` implements all but three methods."""

    def configure(self, options: Mapping[str, str]) -> None:
        """Receive the flow's configuration, once, before any other call."""
        ...

    def format_remote_topic(self, source_alias: str, topic: str) -> str:
        """Return the name on the target of `topic` from cluster `source_alias`."""
        ...

    def topic_source(self, topic: str) -> str | None:
        """Return the cluster that a remote topic came from; None for a local topic."""
        ...

    def upstream_topic(self, topic: str) -> str | None:
        """Return the name of a remote topic one hop back; None for a local topic."""
        ...

    def original_topic(self, topic: str) -> str:
        """Return the name of a topic on the cluster where it was first written."""
        ...

    def heartbeats_topic(self) -> str:
        """Return the heartbeats topic."""
        ...

    def offset_syncs_topic(self, alias: str) -> str:
        """Return the offset-syncs topic named after a cluster."""
        ...

    def checkpoints_topic(self, alias: str) -> str:
        """Return the checkpoints topic named after a cluster."""
        ...

    def is_heartbeats_topic(self, topic: str) -> bool:
        """Whether this is a heartbeats topic, mirrored ones included."""
        ...

    def is_checkpoints_topic(self, topic: str) -> bool:
        """Whether this is a checkpoints topic."""
        ...

    def is_mm2_internal_topic(self, topic: str) -> bool:
        """Whether the topic belongs to MM2."""
        ...

    def is_internal_topic(self, topic: str) -> bool:
        """Whether the topic is internal to MM2, Kafka or another tool, and never mirrored."""
        ...


class BaseReplicationPolicy:
    """The common part of policies; internal names use `internal_separator`."""

    internal_separator = "."

    def configure(self, options: Mapping[str, str]) -> None:
        """Do nothing: this class has no options."""

    def topic_source(self, topic: str) -> str | None:
        """Implemented by subclasses."""
        raise NotImplementedError

    def upstream_topic(self, topic: str) -> str | None:
        """Implemented by subclasses."""
        raise NotImplementedError

    def original_topic(self, topic: str) -> str:
        """Follow `upstream_topic` until it ends or repeats."""
        upstream = self.upstream_topic(topic)
        while upstream is not None and upstream != topic:
            topic = upstream
            upstream = self.upstream_topic(topic)
        return topic

    def heartbeats_topic(self) -> str:
        """`heartbeats`, whatever the separator."""
        return _HEARTBEATS

    def offset_syncs_topic(self, alias: str) -> str:
        """`mm2-offset-syncs.<alias>.internal`."""
        return self.internal_separator.join((_OFFSET_SYNCS, alias, _INTERNAL))

    def checkpoints_topic(self, alias: str) -> str:
        """`<alias>.checkpoints.internal`."""
        return self.internal_separator.join((alias, _CHECKPOINTS, _INTERNAL))

    def is_heartbeats_topic(self, topic: str) -> bool:
        """Whether the original topic is `heartbeats`."""
        return self.original_topic(topic) == self.heartbeats_topic()

    def is_checkpoints_topic(self, topic: str) -> bool:
        """Whether the name ends like a checkpoints topic's."""
        return topic.endswith(self.checkpoints_topic(""))

    def is_mm2_internal_topic(self, topic: str) -> bool:
        """`mm2...internal` or a checkpoints topic."""
        ending = self.internal_separator + _INTERNAL
        return (topic.startswith("mm2") and topic.endswith(ending)) or self.is_checkpoints_topic(
            topic
        )

    def is_internal_topic(self, topic: str) -> bool:
        """MM2's own, Kafka's (`__...`), and names that start with a dot."""
        return self.is_mm2_internal_topic(topic) or topic.startswith(("__", "."))


class DefaultReplicationPolicy(BaseReplicationPolicy):
    """Remote topics are `<source alias><separator><topic>`."""

    def __init__(self) -> None:
        self.separator = "."

    def configure(self, options: Mapping[str, str]) -> None:
        """Read the separator; the flag for internal names counts only with it."""
        separator = options.get(SEPARATOR_KEY)
        if separator is None:
            return
        self.separator = separator.strip()
        if options.get(INTERNAL_SEPARATOR_KEY, "true").strip().lower() == "true":
            self.internal_separator = self.separator

    def format_remote_topic(self, source_alias: str, topic: str) -> str:
        """`<source alias><separator><topic>`."""
        return f"{source_alias}{self.separator}{topic}"

    def topic_source(self, topic: str) -> str | None:
        """Return the part before the first separator, if there is a part after it."""
        pieces = topic.split(self.separator)
        while pieces and not pieces[-1]:
            pieces.pop()
        return pieces[0] if len(pieces) > 1 else None

    def upstream_topic(self, topic: str) -> str | None:
        """The name without its source and the separator."""
        source = self.topic_source(topic)
        return None if source is None else topic[len(source) + len(self.separator) :]


class IdentityReplicationPolicy(DefaultReplicationPolicy):
    """Remote topics keep their name; only heartbeats are renamed, to show their path."""

    def __init__(self) -> None:
        super().__init__()
        self.source_alias: str | None = None

    def configure(self, options: Mapping[str, str]) -> None:
        """Also read the source's alias: the name does not contain it."""
        super().configure(options)
        self.source_alias = options.get(SOURCE_ALIAS_KEY)

    def format_remote_topic(self, source_alias: str, topic: str) -> str:
        """Return the same name, except for heartbeats."""
        if _looks_like_heartbeats(topic):
            return super().format_remote_topic(source_alias, topic)
        return topic

    def topic_source(self, topic: str) -> str | None:
        """Return the flow's source for every topic, except for heartbeats."""
        return super().topic_source(topic) if _looks_like_heartbeats(topic) else self.source_alias

    def upstream_topic(self, topic: str) -> str | None:
        """Return the same name, except for heartbeats."""
        return super().upstream_topic(topic) if _looks_like_heartbeats(topic) else topic


def _looks_like_heartbeats(topic: str) -> bool:
    return topic.endswith(_HEARTBEATS)
