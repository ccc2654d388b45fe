# SPDX-License-Identifier: Apache-2.0
"""Offset resets over REST: an addition to Connect, for `run` and `worker`."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from http import HTTPStatus
from typing import TypeVar

from sparkmirror.config.settings import FlowSettings
from sparkmirror.connect.api import ApiError
from sparkmirror.connectors.offset_reset_plan import (
    PlannedReset,
    ResetWish,
    plan_reset,
    read_positions,
    request_resets,
)
from sparkmirror.errors import ArgumentError, ClusterError
from sparkmirror.model import TopicPartition
from sparkmirror.state.offset_resets import OffsetReset

T = TypeVar("T")


def planned_reset(settings: FlowSettings, wish: ResetWish) -> list[PlannedReset]:
    """Plan a reset; ApiError 400 if it cannot be done."""
    return _checked(lambda: plan_reset(settings, wish))


def requested_reset(settings: FlowSettings, wish: ResetWish) -> list[PlannedReset]:
    """Plan a reset and store the request; ApiError 400 if it cannot be done."""
    plan = planned_reset(settings, wish)
    problems = [one.problem for one in plan if one.problem]
    if problems:
        raise ApiError(HTTPStatus.BAD_REQUEST, problems[0])
    _checked(lambda: request_resets(settings, plan))
    return plan


def pending_resets(settings: FlowSettings) -> Mapping[TopicPartition, OffsetReset]:
    """Return the requests that are not carried out yet, and refused ones."""
    return _checked(lambda: read_positions(settings).resets)


def _checked(step: Callable[[], T]) -> T:
    try:
        return step()
    except ArgumentError as error:
        raise ApiError(HTTPStatus.BAD_REQUEST, str(error)) from error
    except ClusterError as error:
        raise ApiError(HTTPStatus.INTERNAL_SERVER_ERROR, str(error)) from error
