# SPDX-License-Identifier: Apache-2.0
"""The JSON shapes of a plan file, as pydantic models; private to `plan_file`.

A model of an action has the fields of its dataclass. An alias is the name in JSON, where it
differs. `do` is the type of the action, `before` the current state.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Annotated, Any, ClassVar, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator
from pydantic.alias_generators import to_camel

from sparkmirror.errors import WireError
from sparkmirror.kafka.acls import AclBinding
from sparkmirror.topology.acls import GrantAcl, RevokeAcl
from sparkmirror.topology.configs import AlterTopic
from sparkmirror.topology.flow_plan import Action, MoveGroup
from sparkmirror.topology.internal_topics import CreateInternalTopic, Side
from sparkmirror.topology.topic_deletions import DeleteTopic
from sparkmirror.topology.topics import CreateTopic, GrowTopic

_MAX = 2**63 - 1

Text = Annotated[str, Field(min_length=1)]
Count = Annotated[int, Field(ge=0, le=_MAX)]
Positive = Annotated[int, Field(ge=1, le=_MAX)]
Factor = Annotated[int, Field(ge=-1, le=_MAX)]
Number = Annotated[float, Field(ge=0, le=_MAX, allow_inf_nan=False)]


class Model(BaseModel):
    """Strict: no conversions, no missing and no additional fields."""

    model_config = ConfigDict(
        extra="forbid", strict=True, frozen=True, alias_generator=to_camel, defer_build=True
    )


class _ActionModel(Model):
    kind: ClassVar[type[Any]]

    def to_action(self) -> Action:
        """Return the action as the planners use it."""
        names = [one.name for one in dataclasses.fields(self.kind)]
        action: Action = self.kind(**{name: getattr(self, name) for name in names})
        return action

    @classmethod
    def of(cls, action: Action) -> _ActionModel:
        """Return the model of an action, with configs sorted by name."""
        values = {one.name: getattr(action, one.name) for one in dataclasses.fields(action)}
        return cls.model_construct(
            None,
            **{
                name: dict(sorted(value.items())) if isinstance(value, Mapping) else value
                for name, value in values.items()
            },
        )


class _CreateInternalTopic(_ActionModel):
    kind = CreateInternalTopic
    do: Literal["create-internal-topic"] = "create-internal-topic"
    side: Annotated[Side, Field(strict=False)]
    name: Text = Field(alias="topic")
    partitions: Positive
    replication_factor: Factor
    configs: dict[str, str]
    needs_configs: bool


class _CreateTopic(_ActionModel):
    kind = CreateTopic
    do: Literal["create-topic"] = "create-topic"
    source: Text
    remote: Text = Field(alias="topic")
    partitions: Positive
    replication_factor: Factor
    configs: dict[str, str]


class _GrowTopic(_ActionModel):
    kind = GrowTopic
    do: Literal["grow-topic"] = "grow-topic"
    source: Text
    remote: Text = Field(alias="topic")
    from_: Positive = Field(alias="before")
    to: Count = Field(alias="after")

    @model_validator(mode="after")
    def _check(self) -> Self:
        _require(self.to > self.from_, "after is out of range")
        return self


class _AlterTopic(_ActionModel):
    kind = AlterTopic
    do: Literal["alter-topic"] = "alter-topic"
    source: Text
    remote: Text = Field(alias="topic")
    before: dict[str, str | None]
    changes: dict[str, str | None] = Field(alias="after")

    @model_validator(mode="after")
    def _check(self) -> Self:
        is_same = bool(self.changes) and self.before.keys() == self.changes.keys()
        _require(is_same, "after does not name the same configs as before")
        return self


class _MoveGroup(_ActionModel):
    kind = MoveGroup
    do: Literal["move-group"] = "move-group"
    group: str
    topic: Text
    partition: Count
    before: Count | None
    after: Count
    metadata: str

    @model_validator(mode="after")
    def _check(self) -> Self:
        _require(self.before is None or self.after > self.before, "after is out of range")
        return self


class _DeleteTopic(_ActionModel):
    kind = DeleteTopic
    do: Literal["delete-topic"] = "delete-topic"
    source: Text
    remote: Text = Field(alias="topic")
    topic_id: Text


class _AclModel(_ActionModel):
    """The fields of an ACL are those of `AclBinding.as_dict`."""

    model_config = ConfigDict(extra="allow")
    __pydantic_extra__: dict[str, str] = Field(init=False)

    @model_validator(mode="after")
    def _check(self) -> Self:
        try:
            binding = self._binding()
        except WireError as error:
            raise ValueError(f"the ACL is invalid: {error}") from error
        _require(self.__pydantic_extra__ == binding.as_dict(), "the ACL has unknown fields")
        return self

    def _binding(self) -> AclBinding:
        return AclBinding.from_dict(self.__pydantic_extra__)

    def to_action(self) -> Action:
        action: Action = self.kind(self._binding())
        return action

    @classmethod
    def of(cls, action: Action) -> _ActionModel:
        assert isinstance(action, GrantAcl | RevokeAcl)  # noqa: S101 - for the type checker
        return cls.model_construct(None, **action.binding.as_dict())


class _GrantAcl(_AclModel):
    kind = GrantAcl
    do: Literal["grant-acl"] = "grant-acl"


class _RevokeAcl(_AclModel):
    kind = RevokeAcl
    do: Literal["revoke-acl"] = "revoke-acl"


AnyAction = Annotated[
    _CreateInternalTopic
    | _CreateTopic
    | _GrowTopic
    | _AlterTopic
    | _GrantAcl
    | _MoveGroup
    | _RevokeAcl
    | _DeleteTopic,
    Field(discriminator="do"),
]
_MODELS: dict[type[Any], type[_ActionModel]] = {
    model.kind: model
    for model in (
        *(_CreateInternalTopic, _CreateTopic, _GrowTopic, _AlterTopic),
        *(_GrantAcl, _MoveGroup, _RevokeAcl, _DeleteTopic),
    )
}


def dump_action(action: Action) -> dict[str, object]:
    """Return an action as JSON."""
    model = _MODELS[type(action)].of(action)
    return model.model_dump(mode="json", by_alias=True)


class FlowName(Model):
    """A pair of clusters."""

    source: Text
    target: Text


class ClusterIds(Model):
    """None: the brokers have no cluster id."""

    source: Text | None
    target: Text | None


class TopicForecastModel(Model):
    """The amount to copy of one topic."""

    topic: Text
    records: Count
    bytes: Count | None


class ForecastModel(Model):
    """The amount to copy of a flow."""

    records: Count
    bytes: Count | None
    seconds: Number | None  # follows from the bytes and the rate
    biggest: list[TopicForecastModel]


class FlowPlanModel(Model):
    """The plan of one flow."""

    flow: FlowName
    settings: Text
    cluster_ids: ClusterIds
    actions: list[AnyAction]
    notices: list[Text]
    forecast: ForecastModel | None


class NotPlanned(Model):
    """A flow that could not be planned, and why."""

    flow: FlowName
    reason: Text


class PlanVersion(BaseModel):
    """The version alone: a newer one may have other fields."""

    model_config = ConfigDict(strict=True)
    version: Count


class PlanModel(Model):
    """The whole file."""

    version: Count
    file: Text
    made: Text
    bytes_per_second: Number
    flows: list[FlowPlanModel]
    not_planned: list[NotPlanned]


def _require(holds: bool, message: str) -> None:
    if not holds:
        raise ValueError(message)


_ERROR_TEXTS = {
    "missing": "is missing",
    "string_type": "is not a string",
    "string_too_short": "is empty",
    "string_unicode": "is not text",
    "int_type": "is not a whole number",
    "int_from_float": "is not a whole number",
    "float_type": "is not a number",
    "finite_number": "is out of range",
    "greater_than_equal": "is out of range",
    "less_than_equal": "is out of range",
    "bool_type": "is neither true nor false",
    "list_type": "is not a list",
    "dict_type": "is not a JSON object",
    "model_type": "is not a JSON object",
    "model_attributes_type": "is not a JSON object",
}


def describe(error: ValidationError) -> str:
    """Return the first error, with its place in the file."""
    found = error.errors(include_url=False)[0]
    kind, context = found["type"], found.get("ctx", {})
    steps = _steps(found["loc"])
    if kind == "value_error":
        return f"{', '.join(steps)}: {context['error']}"
    if kind.startswith("union_tag"):
        is_unknown = kind == "union_tag_invalid"
        problem = f"is {context['tag']!r}, an unknown action" if is_unknown else "is missing"
        return f"{', '.join(steps)}: do {problem}"
    *place, name = steps
    where = f"{', '.join(place)}: " if place else ""
    if kind == "extra_forbidden":
        return f"{where}{name!r} is an unknown field"
    if kind == "enum":
        expected = str(context["expected"]).replace("'", "").replace(" or ", ", ")
        return f"{where}{name} is {found['input']!r}, not one of {expected}"
    return f"{where}{name} {_ERROR_TEXTS.get(kind, found['msg'])}"


def _steps(location: tuple[int | str, ...]) -> list[str]:
    """Name the place, such as `the plan`, `flows 1`, `actions 3`, `after`, without union tags."""
    steps = ["the plan"]
    previous: int | str = ""
    for step in location:
        if isinstance(step, int):
            steps[-1] += f" {step + 1}"
        elif not (isinstance(previous, int) and step in _TAGS):
            steps.append(step)
        previous = step
    return steps


_TAGS = frozenset(str(model.model_fields["do"].default) for model in _MODELS.values())
