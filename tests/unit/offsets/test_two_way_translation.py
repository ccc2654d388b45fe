# SPDX-License-Identifier: Apache-2.0
"""Positions between clusters that mirror each other: never past an unread record."""

from __future__ import annotations

import os
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sparkmirror.offsets.offset_map import Fit, Translation
from support.mirrors.mirrored_clusters import TP, MirroredClusters

EXAMPLES = int(os.environ.get("TRANSLATION_EXAMPLES", "150"))


def steps(names: str, *, marks: bool = True) -> st.SearchStrategy[list[Any]]:
    """Steps of a model of these clusters."""
    cluster = st.sampled_from(names)
    pair = st.permutations(names).map(lambda some: some[:2])
    return st.lists(
        st.one_of(
            st.tuples(st.just("produce"), cluster, st.integers(1, 3)),
            *([st.tuples(st.just("mark"), cluster)] if marks else []),
            pair.flatmap(
                lambda two: st.tuples(st.just("copy"), *map(st.just, two), st.integers(1, 5))
            ),
            pair.map(lambda two: ("flush", *two)),
        ),
        max_size=40,
    )


def check_all(model: MirroredClusters, *, is_settled: bool = False) -> None:
    """Translate every position between every two clusters."""
    for source, target in model.flows:
        translation = model.translation(source, target)
        for position in range(len(model.logs[source]) + 1):
            found = translation.translate(TP, position)
            if found is None or found.fit is Fit.BEFORE:
                continue
            truth = model.first_unread(source, target, position)
            assert found.offset <= truth, f"{source}@{position}: {found}, true {truth}"
            if is_settled:
                assert found == Translation(truth, Fit.EXACT), f"{source}@{position}, true {truth}"


@pytest.mark.parametrize("names", ["ab", "abc"])
@settings(max_examples=EXAMPLES, deadline=None)
@given(st.data())
def test_no_translation_is_past_an_unread_record(names: str, data: st.DataObject) -> None:
    """In any state of logs, flows and maps; flows may not have run at all."""
    model = MirroredClusters(names)
    for number, step in enumerate(data.draw(steps(names))):
        model.take(step)
        if number % 5 == 4:
            check_all(model)
    check_all(model)
    model.settle()
    check_all(model)


@pytest.mark.parametrize("names", ["ab", "abc"])
@settings(max_examples=EXAMPLES, deadline=None)
@given(st.data())
def test_every_translation_is_exact_when_everything_is_copied(
    names: str, data: st.DataObject
) -> None:
    model = MirroredClusters(names)
    for source, target in model.flows:  # every flow has run
        model.produce(source, 1)
        model.copy(source, target, 9)
    for step in data.draw(steps(names, marks=False)):
        model.take(step)
    model.settle()
    check_all(model, is_settled=True)


def test_a_position_on_a_skipped_record_is_translated_to_the_record() -> None:
    """Also while the other map is not written yet."""
    model = MirroredClusters()
    model.produce("a", 2)
    model.copy("a", "b", 2)
    model.flush("a", "b")
    model.produce("b", 3)
    model.copy("b", "a", 5)
    model.flush("b", "a")
    found = [model.translation("a", "b").translate(TP, position) for position in (2, 3, 4)]
    assert found == [Translation(offset, Fit.EXACT) for offset in (2, 3, 4)]


def test_a_position_on_a_local_record_stays_before_a_copied_one_that_was_not_read() -> None:
    """On b the copied record is first, on a the local one."""
    model = MirroredClusters()
    model.produce("b", 1)
    model.produce("a", 1)
    model.copy("b", "a", 1)
    model.copy("a", "b", 2)
    model.settle()
    assert model.logs == {"a": [("a", 1), ("b", 0)], "b": [("b", 0), ("a", 1)]}
    assert model.translation("a", "b").translate(TP, 0) == Translation(0, Fit.EXACT)
    assert model.translation("a", "b").translate(TP, 1) == Translation(0, Fit.EXACT)
    assert model.translation("a", "b").translate(TP, 2) == Translation(2, Fit.EXACT)


def test_a_flow_that_ended_does_not_hold_positions_back() -> None:
    """What the map a->b contains on b is no unread record of b."""
    model = MirroredClusters()
    model.produce("b", 2)
    model.settle()
    for _ in range(3):
        model.produce("a", 10)
        model.copy("a", "b", 99)
        model.flush("a", "b")
    assert model.translation("a", "b").translate(TP, 32) == Translation(32, Fit.EXACT)


class TwoWayGroup:
    """A group that is synchronised in both directions; a commit never moves it back."""

    def __init__(self, model: MirroredClusters) -> None:
        self._model = model
        self.committed = {"a": 0, "b": 0}
        self.read: set[Any] = {None}
        self.active = "a"

    def consume(self, records: int) -> None:
        """Its consumers read on the active cluster."""
        log = self._model.logs[self.active]
        end = min(self.committed[self.active] + records, len(log))
        self.read.update(log[self.committed[self.active] : end])
        self.committed[self.active] = end

    def fail_over(self) -> None:
        self.active = "b" if self.active == "a" else "a"

    def sync(self, source: str, target: str, *, is_idle: bool) -> bool:
        """Set the offset on the target; whether it changed."""
        if target == self.active and not is_idle:
            return False
        found = self._model.translation(source, target).translate(TP, self.committed[source])
        if found is None or found.fit is Fit.BEFORE or found.offset <= self.committed[target]:
            return False
        self.committed[target] = found.offset
        return True

    def take(self, step: tuple[Any, ...]) -> bool:
        """One step by name; false: it is one of the model."""
        if not hasattr(self, step[0]):
            return False
        getattr(self, step[0])(*step[1:])
        return True


GROUP_STEPS = st.one_of(
    st.tuples(st.just("consume"), st.integers(1, 6)),
    st.just(("fail_over",)),
    st.sampled_from([("a", "b"), ("b", "a")]).flatmap(
        lambda two: st.booleans().map(lambda idle: ("sync", *two, idle))
    ),
)


@settings(max_examples=2 * EXAMPLES, deadline=None)
@given(steps("ab"), st.data())
def test_two_way_sync_skips_nothing_and_comes_to_rest(some: list[Any], data: st.DataObject) -> None:
    """All records before a committed offset were read, on either cluster, after any history."""
    model = MirroredClusters()
    group = TwoWayGroup(model)
    for step in some:
        model.take(step)
        name, *arguments = data.draw(GROUP_STEPS)
        before = dict(group.committed)
        if name == "sync":
            group.sync(*arguments[:2], is_idle=arguments[2])
        else:
            getattr(group, name)(*arguments)
        assert all(group.committed[one] >= before[one] for one in before)
        for cluster, log in model.logs.items():
            assert {*log[: group.committed[cluster]]} <= group.read
    model.settle()
    for _round in range(4):
        moved = [pair for pair in model.flows if group.sync(*pair, is_idle=True)]
    assert not moved
    for cluster, log in model.logs.items():
        assert {*log[: group.committed[cluster]]} <= group.read
