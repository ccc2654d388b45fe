# SPDX-License-Identifier: Apache-2.0
"""The names of topics that MM2 does not have: offset map, ledger, dead letters, ACLs.

Named like the offset-syncs topic, so that every policy knows them as internal: otherwise the flow
in the other direction, or Java MM2, would mirror them.
"""

from __future__ import annotations

from typing import Protocol

OFFSET_MAP = "mm2-offset-map"
_OFFSET_SYNCS = "mm2-offset-syncs"
_ACLS = "mm2-acls"


class OffsetSyncsNaming(Protocol):
    """The part of a replication policy that these names are made after."""

    def offset_syncs_topic(self, alias: str) -> str:
        """The offset-syncs topic that belongs to the other cluster's alias."""
        ...


def offset_map_topic(names: OffsetSyncsNaming, source_alias: str) -> str:
    """The topic on the target that knows which source offset became which target offset."""
    return _topic_name(OFFSET_MAP, names, source_alias)


def ledger_topic(names: OffsetSyncsNaming, source_alias: str) -> str:
    """The topic on the target that lists records which are not as they were on the source."""
    return _topic_name("mm2-ledger", names, source_alias)


def dead_letters_topic(names: OffsetSyncsNaming, source_alias: str) -> str:
    """The topic on the target that keeps the records which the target refused."""
    return _topic_name("mm2-dead-letters", names, source_alias)


def acls_topic(names: OffsetSyncsNaming, source_alias: str) -> str:
    """The topic on the target that knows which of its ACLs the flow created."""
    return _topic_name(_ACLS, names, source_alias)


def is_acls_topic(topic: str) -> bool:
    """Whether a topic is such a one, of whichever flow."""
    return topic.startswith(_ACLS) and topic.endswith("internal")


def _topic_name(what: str, names: OffsetSyncsNaming, source_alias: str) -> str:
    syncs = names.offset_syncs_topic(source_alias)
    if syncs.startswith(_OFFSET_SYNCS):
        return what + syncs.removeprefix(_OFFSET_SYNCS)
    return f"{what}.{source_alias}.internal"
