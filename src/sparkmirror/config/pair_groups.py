# SPDX-License-Identifier: Apache-2.0
"""The group of every pair: processes with the same file meet there and agree on who runs it.

MM2's own, so that a Java MM2 with the same file is met there, too. A `group.id` that is written
for a target is the same for all pairs into it; MM2 cannot run such a file, here each of them gets
a group of its own.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import replace

from sparkmirror.config.worker_settings import GroupSettings
from sparkmirror.model import Flow


def pair_groups(read: Mapping[Flow, GroupSettings]) -> dict[Flow, GroupSettings]:
    """The groups by pair, each of its own on its target."""
    uses = Counter((flow.target, group.group_id) for flow, group in read.items())
    return {
        flow: group
        if uses[flow.target, group.group_id] == 1
        else replace(group, group_id=f"{group.group_id}-{flow.source}")
        for flow, group in read.items()
    }
