# SPDX-License-Identifier: Apache-2.0
"""Records walk through random topologies; none returns, and none is lost without a ring."""

from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from sparkmirror.policy.loops import (
    LoopEdge,
    path_between,
    reachable,
    replaced_clusters,
    ring_origins,
    skip_origins,
)

CLUSTERS = "ABCDE"


def edge(name: str, since: int = 0) -> LoopEdge:
    source, target = name.split("->")
    return LoopEdge(source, target, name, lambda _topic: True, since)


def edges(text: str) -> list[LoopEdge]:
    """`A->B B->C`; `A<->B` is both directions."""
    found = []
    for part in text.split():
        if "<->" in part:
            one, other = part.split("<->")
            found += [edge(f"{one}->{other}"), edge(f"{other}->{one}")]
        else:
            found.append(edge(part))
    return found


def copies(topology: list[LoopEdge], origin: str) -> Counter[str]:
    """Count the copies of a record that is produced at `origin`, by cluster."""
    skipped = {one: skip_origins(topology, one) for one in topology}
    counts = Counter({origin: 1})
    todo: list[tuple[str, str, int]] = [("", origin, 0)]  # where it came from, where it is, hops
    while todo:
        before, here, hops = todo.pop()
        assert hops < len(CLUSTERS), "a path that visits no cluster twice is shorter"
        for one in topology:
            if one.source == here and before not in skipped[one]:
                counts[one.target] += 1
                todo.append((here, one.target, hops + 1))
    return counts


topologies = st.lists(
    st.tuples(st.sampled_from(CLUSTERS), st.sampled_from(CLUSTERS), st.integers(0, 3)).filter(
        lambda pair: pair[0] != pair[1]
    ),
    unique_by=lambda pair: pair[:2],
).map(lambda pairs: [edge(f"{one}->{other}", since) for one, other, since in pairs])


@given(topologies)
def test_no_record_returns_to_a_cluster_in_any_topology(topology: list[LoopEdge]) -> None:
    """A path without repetition has fewer hops than there are clusters; see `copies`."""
    for origin in CLUSTERS:
        assert copies(topology, origin)[origin] == 1


@given(topologies)
def test_without_a_ring_every_record_arrives_everywhere(topology: list[LoopEdge]) -> None:
    assume(not any(ring_origins(topology, one) for one in topology))
    for origin in CLUSTERS:
        expected = reachable(topology, origin, without="")
        assert copies(topology, origin).keys() == expected


@given(topologies)
def test_without_a_cycle_nothing_is_skipped(topology: list[LoopEdge]) -> None:
    is_cyclic = any(one.source in reachable(topology, one.target, without="") for one in topology)
    assume(not is_cyclic)
    for one in topology:
        assert not skip_origins(topology, one) & {
            other.source for other in topology if other.target == one.source
        }


@given(topologies, st.data())
def test_a_rebuilt_cluster_makes_no_record_return(
    topology: list[LoopEdge], data: st.DataObject
) -> None:
    """The flows into `Z` are those that once wrote to another cluster under the same name."""
    renamed = []
    for one in topology:
        if data.draw(st.booleans()):
            flow = data.draw(st.sampled_from(["a", "b"]))
            renamed.append(LoopEdge(one.source, one.target, flow, one.keeps, one.since_ms))
        else:
            renamed.append(one)
    for origin in CLUSTERS:
        copies(renamed, origin)


@pytest.mark.parametrize(
    ("topology", "flow", "skipped"),
    [
        ("A<->B", "A->B", "B"),
        ("A<->B B<->C A<->C", "A->B", "BC"),  # a mesh: C's records come from C
        ("A<->B B<->C", "B->C", "C"),  # a line forwards
        ("A->B B->C", "B->C", "C"),
        ("A->C B->C", "A->C", "C"),
        ("A->B B->C C->A", "B->C", "CA"),  # a ring
    ],
)
def test_skipped_origins(topology: str, flow: str, skipped: str) -> None:
    assert skip_origins(edges(topology), edge(flow)) == set(skipped)


@pytest.mark.parametrize(
    ("topology", "origin", "expected"),
    [
        ("A<->B", "A", "AB"),
        ("A<->B B<->C A<->C", "A", "ABC"),
        ("A<->B B<->C", "A", "ABC"),
        ("A->B B->C", "A", "ABC"),
        ("A->H B->H", "B", "BH"),
        ("A<->H B<->H C<->H", "B", "ABCH"),
    ],
)
def test_each_record_arrives_once(topology: str, origin: str, expected: str) -> None:
    assert not any(ring_origins(edges(topology), one) for one in edges(topology))
    assert copies(edges(topology), origin) == Counter(expected)


def test_a_one_way_ring_is_recognized() -> None:
    topology = edges("A->B B->C C->A")
    assert ring_origins(topology, edge("B->C")) == {"A"}
    assert [str(one.flow) for one in path_between(topology, "C", "A", without="B")] == ["C->A"]
    assert not path_between(topology, "C", "A", without="A")


def test_a_line_with_a_short_cut_back_is_a_ring() -> None:
    """C reaches A directly, so B->C skips A's records; no flow A->C brings them."""
    assert ring_origins(edges("A<->B B<->C C->A"), edge("B->C")) == {"A"}


def test_a_rebuilt_cluster_gets_what_it_once_wrote() -> None:
    """In a mesh, records from the former C are on A; C's new cluster Z gets them from A."""
    former = edges("A<->B B<->C A<->C")
    now = [
        LoopEdge(source, target, flow, lambda _topic: True, 5)
        for source, target, flow in (
            ("A", "Z", "A->C"),
            ("Z", "A", "C->A"),
            ("B", "Z", "B->C"),
            ("Z", "B", "C->B"),
        )
    ]
    topology = former + now
    assert replaced_clusters(topology, now[0]) == {"C"}
    assert skip_origins(topology, now[0]) == {"Z", "B"}
    assert "C" in skip_origins(topology, edge("A->B"))
    assert not any(ring_origins(topology, one) for one in (*now, edge("A->B"), edge("B->A")))
