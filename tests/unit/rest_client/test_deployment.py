# SPDX-License-Identifier: Apache-2.0
"""What has to be done for a file."""

from __future__ import annotations

import pytest

from sparkmirror.errors import ConfigError
from sparkmirror.rest_client.connector_files import ConnectorFile
from sparkmirror.rest_client.deployment import DeployChange, DeployDecision, decide_change

CONFIG = {"name": "m", "connector.class": "C", "topics": "t"}


def wanted(**more: str | None) -> ConnectorFile:
    """A file with further keys."""
    return ConnectorFile("m.json", "m", {**CONFIG, **more})


def test_what_is_missing_is_created() -> None:
    """There is nothing to compare with."""
    assert decide_change(wanted(), None) == DeployDecision(DeployChange.CREATED)


def test_what_is_equal_is_not_changed() -> None:
    """Whatever the order of its keys."""
    assert decide_change(wanted(), dict(reversed(CONFIG.items()))) == DeployDecision(
        DeployChange.UNCHANGED
    )


@pytest.mark.parametrize(
    "stored",
    [
        {**CONFIG, "topics": "u"},
        {**CONFIG, "more": "x"},
        {key: CONFIG[key] for key in ("name", "connector.class")},
        {**CONFIG, "topics": None},
    ],
)
def test_any_difference_is_an_update(stored: dict[str, str | None]) -> None:
    """Another value, a key too many, a key too few."""
    assert decide_change(wanted(), stored) == DeployDecision(DeployChange.UPDATED)


def test_a_key_that_is_null_on_one_side_and_missing_on_the_other_differs() -> None:
    """Null is something a worker refuses, so it has to see it."""
    assert decide_change(wanted(extra=None), CONFIG) == DeployDecision(DeployChange.UPDATED)


def test_hidden_values_cannot_be_compared() -> None:
    """They are sent, and the report says why."""
    stored = {**CONFIG, "sasl.jaas.config": "[hidden]"}
    decision = decide_change(wanted(**{"sasl.jaas.config": "secret"}), stored)
    assert decision == DeployDecision(DeployChange.UPDATED, "the worker hides sasl.jaas.config")
    assert (
        decide_change(wanted(**{"sasl.jaas.config": "[hidden]"}), stored).change
        is DeployChange.UNCHANGED
    )


@pytest.mark.parametrize("stored", [None, CONFIG, {**CONFIG, "p": "clear"}])
def test_hidden_stands_for_nothing_that_is_not_hidden(stored: dict[str, str | None] | None) -> None:
    """Else `[hidden]` itself would become the password."""
    with pytest.raises(ConfigError, match=r"m\.json: 'p' of connector 'm' is \[hidden\]"):
        decide_change(wanted(p="[hidden]"), stored)
