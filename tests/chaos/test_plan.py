# SPDX-License-Identifier: Apache-2.0
"""A plan is a pure function of its seed and covers all kinds."""

from __future__ import annotations

from itertools import pairwise

import pytest

from chaos.plan import ANYWHERE, NATURES, STANDALONE, Kind, Place, draw_plan

SEEDS = range(50)
BROKERS = {Place.BROKERS, Place.SOURCE_BROKERS, Place.TARGET_BROKERS}


def test_the_same_seed_draws_the_same_plan() -> None:
    """A failing seed can be replayed, also with more faults behind it."""
    assert draw_plan(7, 20) == draw_plan(7, 20)
    assert draw_plan(7, 20) == draw_plan(7, 30)[:20]
    assert draw_plan(7, 20) != draw_plan(8, 20)


def test_every_kind_has_a_nature_and_comes_before_one_comes_twice() -> None:
    """Twenty faults are at least eight kinds, whatever the seed."""
    assert set(NATURES) == set(Kind)
    for seed in SEEDS:
        plan = draw_plan(seed, len(ANYWHERE) + 7)
        assert {fault.kind for fault in plan[: len(ANYWHERE)]} == set(ANYWHERE)
    assert set(ANYWHERE) == set(Kind) - set(STANDALONE)


def test_all_ways_occur() -> None:
    drawn = {(one.kind, one.way) for seed in SEEDS for one in draw_plan(seed, 46, tuple(Kind))}
    assert drawn == {(kind, way) for kind, nature in NATURES.items() for way in nature.ways}


@pytest.mark.parametrize("seed", SEEDS)
def test_two_at_once_are_in_different_places(seed: int) -> None:
    """At most one broker of a cluster is down, so what was acknowledged stays readable."""
    plan = draw_plan(seed, 40)
    assert not plan[0].joins
    for before, fault in pairwise(plan):
        if fault.joins:
            assert not before.joins
            places = {fault.nature.place, before.nature.place}
            assert len(places) == 2
            assert not (Place.BROKERS in places and places <= BROKERS)
            assert Place.LOGS not in places


def test_faults_do_join() -> None:
    joined = [fault for seed in SEEDS for fault in draw_plan(seed, 20) if fault.joins]
    assert len(joined) > len(SEEDS)


def test_only_the_kinds_requested_are_drawn() -> None:
    wanted = [Kind.DRIVER_KILL, Kind.TARGET_CUT]
    assert {fault.kind for fault in draw_plan(1, 10, wanted)} == set(wanted)
