# SPDX-License-Identifier: Apache-2.0
"""How often a changed file was taken up, and since when the present one is in use.

Written by the thread that reads the file, read by scrapes.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterator
from enum import Enum

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric


class Reload(Enum):
    """What became of a file that was read again."""

    APPLIED = "applied"
    REFUSED = "refused"
    UNCHANGED = "unchanged"


class ReloadTally:
    """The account of one process."""

    def __init__(self) -> None:
        self.counts: Counter[Reload] = Counter()
        self.in_use_since = time.time()
        self.last = Reload.APPLIED  # the file of the start

    def count(self, result: Reload) -> None:
        """A file was read again."""
        self.counts[result] += 1
        self.last = result
        if result is Reload.APPLIED:
            self.in_use_since = time.time()

    def families(self) -> Iterator[Metric]:
        """The figures."""
        reloads = CounterMetricFamily(
            "sparkmirror_config_reloads",
            "Times that the file was read again while running, by what became of it.",
            labels=["result"],
        )
        for result in Reload:
            reloads.add_metric([result.value], self.counts[result])
        yield reloads
        yield GaugeMetricFamily(
            "sparkmirror_config_in_use_since_seconds",
            "When the configuration in use was taken up, in seconds since 1970.",
            value=self.in_use_since,
        )
        yield GaugeMetricFamily(
            "sparkmirror_config_last_reload_successful",
            "0 while the file as it is now is refused and an older one goes on.",
            value=float(self.last is not Reload.REFUSED),
        )
