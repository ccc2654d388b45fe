# SPDX-License-Identifier: Apache-2.0
"""What has to be done so that a worker has a connector as its file says.

A worker that hides passwords cannot be asked whether they are still the same: then the
configuration is sent, and the report says so.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum

from sparkmirror.config.hidden_values import HIDDEN
from sparkmirror.errors import ConfigError
from sparkmirror.rest_client.connector_files import ConnectorFile


class Change(StrEnum):
    """What becomes of a connector."""

    CREATED = "created"
    UPDATED = "updated"
    UNCHANGED = "unchanged"


@dataclass(frozen=True, slots=True)
class Decision:
    """The change, and why it is not what one may have expected."""

    change: Change
    remark: str = ""


def decide(wanted: ConnectorFile, stored: Mapping[str, str | None] | None) -> Decision:
    """Compares a file with what is stored, which is None if there is no such connector."""
    _refuse_hidden(wanted, stored or {})
    if stored is None:
        return Decision(Change.CREATED)
    differing = sorted(
        key
        for key in wanted.config.keys() | stored.keys()
        if key not in wanted.config or key not in stored or wanted.config[key] != stored[key]
    )
    if not differing:
        return Decision(Change.UNCHANGED)
    if all(stored.get(key) == HIDDEN and key in wanted.config for key in differing):
        return Decision(Change.UPDATED, f"the worker hides {', '.join(differing)}")
    return Decision(Change.UPDATED)


def _refuse_hidden(wanted: ConnectorFile, stored: Mapping[str, str | None]) -> None:
    """`[hidden]` is what a worker shows; it stands for a value only where one is hidden."""
    for key, value in wanted.config.items():
        if value == HIDDEN and stored.get(key) != HIDDEN:
            raise ConfigError(
                f"{wanted.path}: '{key}' of connector '{wanted.name}' is {HIDDEN}, and no worker "
                "knows what that was: write the value, or a reference such as ${env:...}.",
                key=key,
                where=wanted.path,
            )
