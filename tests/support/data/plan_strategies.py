# SPDX-License-Identifier: Apache-2.0
"""Plans of every kind, for property tests."""

from __future__ import annotations

from hypothesis import strategies as st

from sparkmirror.kafka.acls import (
    AclBinding,
    Operation,
    PatternType,
    Permission,
    ResourceType,
)
from sparkmirror.model import Flow
from sparkmirror.topology.acls import GrantAcl, RevokeAcl
from sparkmirror.topology.configs import AlterTopic
from sparkmirror.topology.flow_plan import Action, FlowPlan, MoveGroup, action_key, sorted_actions
from sparkmirror.topology.forecast import Forecast, TopicForecast
from sparkmirror.topology.internal_topics import CreateInternalTopic, Side
from sparkmirror.topology.plan_file import PlanDocument
from sparkmirror.topology.topic_deletions import DeleteTopic
from sparkmirror.topology.topics import CreateTopic, GrowTopic

_texts = st.text(st.characters(codec="utf-8"), min_size=1, max_size=12)
_any_texts = st.text(st.characters(codec="utf-8"), max_size=12)
_offsets = st.integers(0, 2**63 - 1)
_partitions = st.integers(1, 10_000)
_factors = st.integers(-1, 9)
_configs = st.dictionaries(_texts, _any_texts, max_size=3)


def _alter(source: str, remote: str, both: dict[str, tuple[str | None, str | None]]) -> AlterTopic:
    return AlterTopic(
        source,
        remote,
        {key: after for key, (_, after) in both.items()},
        {key: before for key, (before, _) in both.items()},
    )


def _grow(source: str, remote: str, least: int, more: int) -> GrowTopic:
    return GrowTopic(source, remote, least, least + more)


def _move(
    group: str, topic: str, partition: int, offsets: tuple[int | None, int], metadata: str
) -> MoveGroup:
    before, more = offsets
    return MoveGroup(group, topic, partition, before, (before or 0) + more, metadata)


_bindings = st.builds(
    AclBinding,
    st.sampled_from([one for one in ResourceType if one is not ResourceType.ANY]),
    _texts,
    st.sampled_from([PatternType.LITERAL, PatternType.PREFIXED]),
    _texts,
    _texts,
    st.sampled_from([one for one in Operation if one is not Operation.ANY]),
    st.sampled_from([Permission.ALLOW, Permission.DENY]),
)
_or_none = st.none() | _any_texts
_changes = st.dictionaries(_texts, st.tuples(_or_none, _or_none), min_size=1, max_size=3)
actions: st.SearchStrategy[Action] = st.one_of(
    st.builds(
        CreateInternalTopic,
        st.sampled_from(Side),
        _texts,
        _partitions,
        _factors,
        _configs,
        st.booleans(),
    ),
    st.builds(CreateTopic, _texts, _texts, _partitions, _factors, _configs),
    st.builds(_grow, _texts, _texts, _partitions, _partitions),
    st.builds(_alter, _texts, _texts, _changes),
    st.builds(
        _move,
        _any_texts,
        _texts,
        st.integers(0, 100),
        st.tuples(st.none() | st.integers(0, 2**62), st.integers(1, 2**62)),
        _any_texts,
    ),
    st.builds(GrantAcl, _bindings),
    st.builds(RevokeAcl, _bindings),
    st.builds(DeleteTopic, _texts, _texts, st.uuids().map(str)),
)
_topic_forecasts = st.builds(TopicForecast, _texts, _offsets, st.none() | _offsets)
_forecasts = st.builds(
    Forecast,
    _offsets,
    st.none() | _offsets,
    st.lists(_topic_forecasts, max_size=3).map(tuple),
)
flows = st.builds(Flow, _texts, _texts)
flow_plans = st.builds(
    FlowPlan,
    flows,
    _texts,
    st.none() | _texts,
    st.none() | _texts,
    st.lists(actions, max_size=6, unique_by=action_key).map(sorted_actions),
    st.lists(_texts, max_size=2).map(tuple),
    st.none() | _forecasts,
)
documents = st.builds(
    PlanDocument,
    _texts,
    _texts,
    st.floats(1, 1e15),
    st.lists(flow_plans, max_size=3, unique_by=lambda one: one.flow).map(
        lambda some: tuple(sorted(some, key=lambda one: one.flow))
    ),
    st.lists(st.tuples(flows, _texts), max_size=2).map(tuple),
)
