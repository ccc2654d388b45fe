# SPDX-License-Identifier: Apache-2.0
"""How often the setup of internal topics is retried."""

from __future__ import annotations

import threading
from typing import cast

import pytest

from sparkmirror.config.settings import FlowSettings
from sparkmirror.connectors.internal_topic_setup import InternalTopicSetup
from sparkmirror.errors import AuthenticationError
from sparkmirror.spark.flow_status import FlowStatus
from sparkmirror.topology.replication_factors import ReplicationFactorChooser


class Pauses(threading.Event):
    """A stop event that is set after the first pause, and records it."""

    seconds = 0.0

    def wait(self, timeout: float | None = None) -> bool:
        """Return at once."""
        self.seconds = timeout or 0.0
        self.set()
        return True


@pytest.mark.parametrize(("retriable", "least", "most"), [(False, 4.0, 6.0), (True, 0.0, 0.2)])
def test_a_refused_login_is_not_repeated_soon(
    monkeypatch: pytest.MonkeyPatch, *, retriable: bool, least: float, most: float
) -> None:
    """Brokers may lock an account after several rejections."""

    def refuse(*_: object) -> None:
        raise AuthenticationError("no", cluster="a", retriable=retriable)

    monkeypatch.setattr(InternalTopicSetup, "_ensure", refuse)
    pauses = Pauses()
    work = InternalTopicSetup(
        cast("ReplicationFactorChooser", None), cast("FlowStatus", None), pauses
    )

    assert not work.ensure(cast("FlowSettings", None), [], lambda _error: None)
    assert least <= pauses.seconds <= most
