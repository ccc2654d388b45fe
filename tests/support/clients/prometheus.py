# SPDX-License-Identifier: Apache-2.0
"""Reads figures as Prometheus does: over HTTP, with its own parser."""

from __future__ import annotations

import urllib.request

from prometheus_client.parser import text_string_to_metric_families

from support.waiting import PATIENCE_SECONDS

Sample = tuple[str, tuple[tuple[str, str], ...]]


def sample(name: str, **labels: str) -> Sample:
    return name, tuple(sorted(labels.items()))


def scrape(host: str, port: int) -> dict[Sample, float]:
    """Every figure by its `sample`."""
    with urllib.request.urlopen(
        f"http://{host}:{port}/metrics", timeout=PATIENCE_SECONDS
    ) as answer:
        return parse(answer.read().decode())


def parse(text: str) -> dict[Sample, float]:
    """Every figure of a scrape."""
    return {
        sample(one.name, **one.labels): one.value
        for family in text_string_to_metric_families(text)
        for one in family.samples
    }
