# SPDX-License-Identifier: Apache-2.0
"""What the connectors of a pair do, in Connect's words, as this process sees it."""

from __future__ import annotations

from dataclasses import replace

from sparkmirror.config.connector_classes import ConnectorClass
from sparkmirror.connect.states import (
    ConnectorState,
    PartState,
    checkpoint_state,
    heartbeat_state,
    source_state,
)
from sparkmirror.connectors.herder import Herder
from sparkmirror.formats.connect_records import TargetState
from sparkmirror.formats.connect_statuses import State
from sparkmirror.pairs import Pair
from sparkmirror.pipeline.status import FlowSnapshot, FlowState

_AT_REST = {TargetState.PAUSED: State.PAUSED, TargetState.STOPPED: State.STOPPED}


def pair_states(pair: Pair) -> dict[ConnectorClass, ConnectorState]:
    """Every connector of a pair that its file asks for."""
    flow, herder = pair.snapshot(), pair.herder
    wishes = pair.gate.orders.wishes or {}
    return {
        kind: _resting(_AT_REST[wishes[kind]])
        if kind in wishes and not _is_at_work(kind, herder)
        else _at_work(kind, flow, herder)
        for kind in pair.connectors
    }


def _resting(state: State) -> ConnectorState:
    return ConnectorState(PartState(state))


def _is_at_work(kind: ConnectorClass, herder: Herder | None) -> bool:
    if herder is None:
        return False
    if kind is ConnectorClass.SOURCE:
        return herder.source is not None and herder.source.is_copying
    part = herder.checkpoint if kind is ConnectorClass.CHECKPOINT else herder.heartbeat
    return part is not None and part.is_at_work


def _at_work(kind: ConnectorClass, flow: FlowSnapshot, herder: Herder | None) -> ConnectorState:
    if herder is None:
        return source_state(flow, ())
    if kind is ConnectorClass.SOURCE:
        return source_state(flow, herder.status.tasks())
    # The small ones live their own lives as soon as the pair has its topics.
    own = replace(flow, state=FlowState.RUNNING, reason="") if herder.has_started else flow
    if kind is ConnectorClass.HEARTBEAT:
        return heartbeat_state(own, herder.heartbeat.status if herder.heartbeat else None)
    one = herder.checkpoint
    return checkpoint_state(
        own,
        failure=one.failure if one else "",
        refusals=one.refusals if one else (),
        has_task=one is not None,
    )
