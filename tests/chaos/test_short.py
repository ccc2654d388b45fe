# SPDX-License-Identifier: Apache-2.0
"""A short chaos run with a few faults of a fixed seed; `make chaos` is the full suite."""

from __future__ import annotations

from pathlib import Path

import pytest

from chaos.plan import Kind
from chaos.run import Run
from chaos.scenario import Scenario
from chaos.table import verdict_lines

pytestmark = pytest.mark.thorough

SEED = 6
KINDS = (Kind.TARGET_CUT, Kind.SOURCE_TRUNCATE)  # the others have tests of their own


@pytest.mark.timeout(900)  # some 60 s on two free cores; the run has limits of its own
def test_nothing_is_lost_or_doubled_when_the_network_fails_and_the_source_loses_its_tail(
    tmp_path: Path, kafka_version: str
) -> None:
    """Every record that the source holds is on the target once, in order, unchanged."""
    # One executor: every further one costs seconds at each start.
    scenario = Scenario(seed=SEED, faults=len(KINDS), per_second=300, executors=1)
    report = Run(tmp_path, scenario, version=kafka_version, say=print, kinds=KINDS).play()
    assert report.is_good, "\n".join(verdict_lines(report))
    assert len(report.struck) == len(KINDS)
    assert all(stream.records > 0 for stream in report.streams)
