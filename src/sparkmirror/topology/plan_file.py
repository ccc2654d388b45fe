# SPDX-License-Identifier: Apache-2.0
"""A plan as a JSON file: sorted, stable, readable; read back field by field, or refused.

Whoever carries out a plan trusts the file, so nothing in it is guessed: an unknown field, a number
out of range or a newer version is an error that names the place.
"""

from __future__ import annotations

import json
import os
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sparkmirror.errors import PlanError
from sparkmirror.model import Flow
from sparkmirror.topology.configs import AlterTopic
from sparkmirror.topology.deletions import DeleteTopic
from sparkmirror.topology.flow_plan import FlowPlan, MoveGroup, in_order, subject
from sparkmirror.topology.forecast import Forecast, TopicForecast
from sparkmirror.topology.internal_topics import CreateInternalTopic, Side
from sparkmirror.topology.plan_fields import Fields
from sparkmirror.topology.topics import CreateTopic, GrowTopic

if TYPE_CHECKING:
    from collections.abc import Callable

    from sparkmirror.topology.flow_plan import Action

VERSION = 1
MOST_BYTES = 256 << 20  # a move of a group takes some 200: more than a million of them


@dataclass(frozen=True, slots=True)
class PlanDocument:
    """What a plan file holds."""

    file: str  # the properties file, an absolute path
    made: str  # when, in ISO 8601, UTC
    rate: float  # bytes a second, for how long copying takes
    flows: tuple[FlowPlan, ...]
    unread: tuple[tuple[Flow, str], ...] = ()  # pairs that could not be planned, and why


def dump(document: PlanDocument) -> str:
    """The file's text."""
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
    """All of the file or nothing of it; OSError as PlanError."""
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
                temporary.chmod(0o666 & ~_umask())  # as any file; temporary ones are private
                temporary.replace(path)
            except BaseException:
                temporary.unlink(missing_ok=True)
                raise
    except OSError as error:
        msg = f"The plan cannot be written to {path}: {error.strerror or error}."
        raise PlanError(msg) from error


def read(path: Path) -> PlanDocument:
    """A plan file; PlanError says what is wrong with it."""
    try:
        with path.open("rb") as file:
            data = file.read(MOST_BYTES + 1)
    except OSError as error:
        msg = f"The plan {path} cannot be read: {error.strerror or error}."
        raise PlanError(msg) from error
    if len(data) > MOST_BYTES:
        msg = f"{path} is no plan: it is larger than {MOST_BYTES >> 20} MiB."
        raise PlanError(msg)
    try:
        return parse(data.decode("utf-8"))
    except (PlanError, UnicodeDecodeError) as error:
        msg = f"{path} is no plan that can be carried out: {error}. Make one with `plan --out`."
        raise PlanError(msg) from error


def parse(text: str) -> PlanDocument:
    """The same from its text."""
    try:
        found = json.loads(text)
    except (ValueError, RecursionError) as error:
        msg = f"it is damaged, or not JSON ({error})"
        raise PlanError(msg) from error
    fields = Fields(found, "the plan")
    version = fields.number("version")
    if version != VERSION:
        msg = f"its version is {version}, and this program knows version {VERSION} only"
        raise PlanError(msg)
    document = PlanDocument(
        file=fields.text("file"),
        made=fields.text("made"),
        rate=fields.real("bytesPerSecond"),
        flows=tuple(_flow(one) for one in fields.many("flows")),
        unread=tuple(
            (_flow_name(one.within("flow")), _closed(one, one.text("reason")))
            for one in fields.many("notPlanned")
        ),
    )
    fields.close()
    names = [one.flow for one in document.flows]
    if len(set(names)) < len(names):
        msg = "it has two plans for the same flow"
        raise PlanError(msg)
    return document


def _closed(fields: Fields, value: str) -> str:
    fields.close()
    return value


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask


# --- flows


def _dump_flow_name(flow: Flow) -> dict[str, str]:
    return {"source": flow.source, "target": flow.target}


def _flow_name(fields: Fields) -> Flow:
    flow = Flow(fields.text("source"), fields.text("target"))
    fields.close()
    return flow


def _dump_flow(plan: FlowPlan, rate: float) -> dict[str, object]:
    return {
        "flow": _dump_flow_name(plan.flow),
        "settings": plan.settings,
        "clusterIds": {"source": plan.source_id, "target": plan.target_id},
        "actions": [dump_action(action) for action in in_order(plan.actions)],
        "notices": list(plan.notices),
        "forecast": None if plan.forecast is None else _dump_forecast(plan.forecast, rate),
    }


def _flow(fields: Fields) -> FlowPlan:
    ids = fields.within("clusterIds")
    expected = fields.within_or_none("forecast")
    plan = FlowPlan(
        flow=_flow_name(fields.within("flow")),
        settings=fields.text("settings"),
        source_id=ids.text_or_none("source"),
        target_id=ids.text_or_none("target"),
        actions=tuple(parse_action(one) for one in fields.many("actions")),
        notices=tuple(fields.texts("notices")),
        forecast=None if expected is None else _forecast(expected),
    )
    ids.close()
    fields.close()
    if len({subject(action) for action in plan.actions}) < len(plan.actions):
        msg = f"{plan.flow}: it has two actions for the same thing"
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


def _forecast(fields: Fields) -> Forecast:
    fields.real_or_none("seconds")  # follows from the bytes and the rate
    found = Forecast(
        fields.number("records"),
        fields.number_or_none("bytes"),
        tuple(_topic_forecast(one) for one in fields.many("biggest")),
    )
    fields.close()
    return found


def _topic_forecast(fields: Fields) -> TopicForecast:
    found = TopicForecast(
        fields.text("topic"), fields.number("records"), fields.number_or_none("bytes")
    )
    fields.close()
    return found


# --- actions


def dump_action(action: Action) -> dict[str, Any]:
    """An action as JSON; `do` says which."""
    match action:
        case CreateInternalTopic():
            return {
                "do": "create-internal-topic",
                "side": action.side.value,
                "topic": action.name,
                "partitions": action.partitions,
                "replicationFactor": action.replication_factor,
                "configs": dict(sorted(action.configs.items())),
                "needsConfigs": action.needs_configs,
            }
        case CreateTopic():
            return {
                "do": "create-topic",
                "source": action.source,
                "topic": action.remote,
                "partitions": action.partitions,
                "replicationFactor": action.replication_factor,
                "configs": dict(sorted(action.configs.items())),
            }
        case GrowTopic():
            return {
                "do": "grow-topic",
                "source": action.source,
                "topic": action.remote,
                "before": action.from_,
                "after": action.to,
            }
        case AlterTopic():
            return {
                "do": "alter-topic",
                "source": action.source,
                "topic": action.remote,
                "before": dict(sorted(action.before.items())),
                "after": dict(sorted(action.changes.items())),
            }
        case MoveGroup():
            return {
                "do": "move-group",
                "group": action.group,
                "topic": action.topic,
                "partition": action.partition,
                "before": action.before,
                "after": action.after,
                "metadata": action.metadata,
            }
        case DeleteTopic():
            return {
                "do": "delete-topic",
                "source": action.source,
                "topic": action.remote,
                "topicId": action.topic_id,
            }


def parse_action(fields: Fields) -> Action:
    """An action from JSON; PlanError if anything about it is odd."""
    kind = fields.text("do")
    if kind not in _READERS:
        raise fields.error("do", f"is {kind!r}, and nobody here knows how to do that")
    action = _READERS[kind](fields)
    fields.close()
    return action


def _create_internal_topic(fields: Fields) -> Action:
    return CreateInternalTopic(
        Side(fields.one_of("side", [side.value for side in Side])),
        fields.text("topic"),
        fields.number("partitions", least=1),
        fields.number("replicationFactor", least=-1),
        fields.mapping("configs"),
        fields.truth("needsConfigs"),
    )


def _create_topic(fields: Fields) -> Action:
    return CreateTopic(
        fields.text("source"),
        fields.text("topic"),
        fields.number("partitions", least=1),
        fields.number("replicationFactor", least=-1),
        fields.mapping("configs"),
    )


def _grow_topic(fields: Fields) -> Action:
    before = fields.number("before", least=1)
    after = fields.number("after", least=before + 1)
    return GrowTopic(fields.text("source"), fields.text("topic"), before, after)


def _alter_topic(fields: Fields) -> Action:
    before, after = fields.mapping_or_none("before"), fields.mapping_or_none("after")
    if not after or set(before) != set(after):
        raise fields.error("after", "does not name the same configs as before")
    return AlterTopic(fields.text("source"), fields.text("topic"), after, before)


def _move_group(fields: Fields) -> Action:
    before = fields.number_or_none("before")
    return MoveGroup(
        fields.text("group", may_be_empty=True),
        fields.text("topic"),
        fields.number("partition"),
        before,
        fields.number("after", least=0 if before is None else before + 1),  # never back
        fields.text("metadata", may_be_empty=True),
    )


def _delete_topic(fields: Fields) -> Action:
    return DeleteTopic(fields.text("source"), fields.text("topic"), fields.text("topicId"))


_READERS: dict[str, Callable[[Fields], Action]] = {
    "create-internal-topic": _create_internal_topic,
    "create-topic": _create_topic,
    "grow-topic": _grow_topic,
    "alter-topic": _alter_topic,
    "move-group": _move_group,
    "delete-topic": _delete_topic,
}
