# SPDX-License-Identifier: Apache-2.0
"""Remote topics whose source topic was deleted, and when they may follow: a pure plan."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class DeleteTopic:
    """Delete a remote topic because its source topic is gone."""

    source: str
    remote: str
    topic_id: str  # of the remote topic: another one of that name is not ours
