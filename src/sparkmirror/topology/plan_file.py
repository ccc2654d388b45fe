# SPDX-License-Identifier: Apache-2.0
"""A plan as a JSON file: sorted, stable, readable.

`apply` trusts the file, so it is read strictly: an unknown field, a number out of range or a newer
version is an error that names the field.
"""

from __future__ import annotations

import json
import os
import tempfile
from dataclasses import dataclass
from pathlib import Path

from pydantic import ValidationError

from sparkmirror.config.files.tracked_files import read_bounded
from sparkmirror.errors import PlanError
from sparkmirror.model import Flow
from sparkmirror.quantities import format_bytes
from sparkmirror.topology.flow_plan import FlowPlan, action_key, sorted_actions
from sparkmirror.topology.forecast import Forecast, TopicForecast
from sparkmirror.topology.plan_models import (
    FlowName,
    FlowPlanModel,
    ForecastModel,
    PlanModel,
    PlanVersion,
    describe,
    dump_action,
)

VERSION = 1
MAX_BYTES = 256 << 20  # an offset of a group takes about 200 bytes: more than a million of them


@dataclass(frozen=True, slots=True)
class PlanDocument:
    """The content of a plan file."""

    file: str  # the properties file, an absolute path
    made: str  # ISO 8601, UTC
    rate: float  # expected bytes per second
    flows: tuple[FlowPlan, ...]
    unread: tuple[tuple[Flow, str], ...] = ()  # flows without a plan, and the reasons


def dump(document: PlanDocument) -> str:
    """Return the text of the file."""
    flows = sorted(document.flows, key=lambda one: one.flow)
    found = {
        "version": VERSION,
        "file": document.file,
        "made": document.made,
        "bytesPerSecond": document.rate,
        "flows": [_dump_flow(one, document.rate) for one in flows],
        "notPlanned": [{"flow": _dump_flow_name(f), "reason": r} for f, r in document.unread],
    }
    return json.dumps(found, indent=2, ensure_ascii=False) + "\n"


def write(document: PlanDocument, path: Path) -> None:
    """Write the file atomically; PlanError if it cannot be written."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.NamedTemporaryFile(
            "w", encoding="utf-8", dir=path.parent, prefix=f".{path.name}.", delete=False
        ) as file:
            temporary = Path(file.name)
            try:
                file.write(dump(document))
                file.flush()
                os.fsync(file.fileno())
                temporary.chmod(0o666 & ~_umask())  # temporary files are private
                temporary.replace(path)
            except BaseException:
                temporary.unlink(missing_ok=True)
                raise
    except OSError as error:
        msg = f"Cannot write the plan to {path}: {error.strerror or error}."
        raise PlanError(msg) from error


def read(path: Path) -> PlanDocument:
    """Read and parse a plan file; PlanError if it is invalid."""
    try:
        data = read_bounded(path, MAX_BYTES)
    except OSError as error:
        msg = f"Cannot read the plan {path}: {error.strerror or error}."
        raise PlanError(msg) from error
    if data is None:
        msg = f"{path} is not a plan: it is larger than {format_bytes(MAX_BYTES)}."
        raise PlanError(msg)
    try:
        return parse(data.decode("utf-8"))
    except (PlanError, UnicodeDecodeError) as error:
        msg = f"{path} is not a valid plan: {error}. Make one with `plan --out`."
        raise PlanError(msg) from error


def parse(text: str) -> PlanDocument:
    """Parse the text of a plan file; PlanError if it is invalid."""
    try:
        found = json.loads(text)
        version = PlanVersion.model_validate(found).version
        if version != VERSION:
            msg = f"its version is {version}; this program supports only version {VERSION}"
            raise PlanError(msg)
        plan = PlanModel.model_validate(found)
    except ValidationError as error:
        raise PlanError(describe(error)) from error
    except (ValueError, RecursionError) as error:
        msg = f"it is damaged, or not JSON ({error})"
        raise PlanError(msg) from error
    document = PlanDocument(
        file=plan.file,
        made=plan.made,
        rate=plan.bytes_per_second,
        flows=tuple(_flow(one) for one in plan.flows),
        unread=tuple((_flow_name(one.flow), one.reason) for one in plan.not_planned),
    )
    names = [one.flow for one in document.flows]
    if len(set(names)) < len(names):
        msg = "it has two plans for the same flow"
        raise PlanError(msg)
    return document


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask


# --- flows


def _dump_flow_name(flow: Flow) -> dict[str, str]:
    return {"source": flow.source, "target": flow.target}


def _flow_name(name: FlowName) -> Flow:
    return Flow(name.source, name.target)


def _dump_flow(plan: FlowPlan, rate: float) -> dict[str, object]:
    return {
        "flow": _dump_flow_name(plan.flow),
        "settings": plan.settings,
        "clusterIds": {"source": plan.source_id, "target": plan.target_id},
        "actions": [dump_action(action) for action in sorted_actions(plan.actions)],
        "notices": list(plan.notices),
        "forecast": None if plan.forecast is None else _dump_forecast(plan.forecast, rate),
    }


def _flow(found: FlowPlanModel) -> FlowPlan:
    plan = FlowPlan(
        flow=_flow_name(found.flow),
        settings=found.settings,
        source_id=found.cluster_ids.source,
        target_id=found.cluster_ids.target,
        actions=tuple(one.to_action() for one in found.actions),
        notices=tuple(found.notices),
        forecast=None if found.forecast is None else _forecast(found.forecast),
    )
    if len({action_key(action) for action in plan.actions}) < len(plan.actions):
        msg = f"{plan.flow}: it has two actions for the same subject"
        raise PlanError(msg)
    return plan


def _dump_forecast(one: Forecast, rate: float) -> dict[str, object]:
    return {
        "records": one.records,
        "bytes": one.bytes,
        "seconds": None if one.bytes is None else round(one.bytes / rate, 1),
        "biggest": [
            {"topic": topic.topic, "records": topic.records, "bytes": topic.bytes}
            for topic in one.biggest
        ],
    }


def _forecast(found: ForecastModel) -> Forecast:
    biggest = (TopicForecast(one.topic, one.records, one.bytes) for one in found.biggest)
    return Forecast(found.records, found.bytes, tuple(biggest))
