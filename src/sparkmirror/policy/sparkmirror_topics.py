# SPDX-License-Identifier: Apache-2.0
"""Names of internal topics that MM2 does not have: offset map, ledger, dead letters, ACLs.

They follow the offset-syncs topic, so every policy recognises them as internal. Otherwise the
reverse flow, or Java MM2, would mirror them.
"""

from __future__ import annotations

from typing import Protocol

OFFSET_MAP = "mm2-offset-map"
_OFFSET_SYNCS = "mm2-offset-syncs"
_ACLS = "mm2-acls"


class OffsetSyncsNaming(Protocol):
    """The part of a replication policy that these names follow."""

    def offset_syncs_topic(self, alias: str) -> str:
        """Return the offset-syncs topic for the other cluster's alias."""
        ...


def offset_map_topic(names: OffsetSyncsNaming, source_alias: str) -> str:
    """Return the topic on the target that maps source offsets to target offsets."""
    return _topic_name(OFFSET_MAP, names, source_alias)


def ledger_topic(names: OffsetSyncsNaming, source_alias: str) -> str:
    """Return the topic on the target that lists records that differ from the source."""
    return _topic_name("mm2-ledger", names, source_alias)


def dead_letters_topic(names: OffsetSyncsNaming, source_alias: str) -> str:
    """Return the topic on the target with the records that the target refused."""
    return _topic_name("mm2-dead-letters", names, source_alias)


def acls_topic(names: OffsetSyncsNaming, source_alias: str) -> str:
    """Return the topic on the target with the ACLs that the flow created."""
    return _topic_name(_ACLS, names, source_alias)


def is_acls_topic(topic: str) -> bool:
    """Whether this is the ACLs topic of any flow."""
    return topic.startswith(_ACLS) and topic.endswith("internal")


def _topic_name(prefix: str, names: OffsetSyncsNaming, source_alias: str) -> str:
    syncs = names.offset_syncs_topic(source_alias)
    if syncs.startswith(_OFFSET_SYNCS):
        return prefix + syncs.removeprefix(_OFFSET_SYNCS)
    return f"{prefix}.{source_alias}.internal"
