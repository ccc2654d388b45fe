# SPDX-License-Identifier: Apache-2.0
"""Which producers' record batches are skipped, for partitions with the same `skip_origins`.

Registered producers are kept for the life of the task; of local producers only the latest
`MAX_LOCAL` are kept, and others are looked up again.
"""

from __future__ import annotations

from collections.abc import Iterable

MAX_LOCAL = 65_536
_NO_PRODUCER_ID = -1


class ProducerVerdicts:
    """The producers that are known so far."""

    __slots__ = ("_local", "_origins", "expects_other_writers", "skips")

    def __init__(self, origins: Iterable[str]) -> None:
        self._origins = frozenset(origins)
        self.skips = {_NO_PRODUCER_ID: False}  # by producer id; False: copied
        self._local: dict[int, None] = {}  # the oldest first
        # Whether clients and other flows write to the remote topic as well. True until the registry
        # has been read; false if no flow copies from `skip_origins` to the source.
        self.expects_other_writers = True

    def register(self, producer_id: int, origin: str) -> None:
        """Add a producer that copies from the cluster `origin`."""
        self._local.pop(producer_id, None)
        is_skipped = origin in self._origins
        self.skips[producer_id] = is_skipped
        self.expects_other_writers |= is_skipped

    def add_local(self, producer_ids: Iterable[int]) -> None:
        """Add producers that are not registered."""
        for producer_id in producer_ids:
            if producer_id not in self.skips:
                self.skips[producer_id] = False
                self._local[producer_id] = None
        while len(self._local) > MAX_LOCAL:
            oldest = next(iter(self._local))
            del self._local[oldest], self.skips[oldest]

    def on_registry_read(self) -> None:
        """Note that all producers that were registered so far are known."""
        self.expects_other_writers = any(self.skips.values())
