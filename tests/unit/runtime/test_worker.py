# SPDX-License-Identifier: Apache-2.0
"""How the parts of a worker are put together; what they do together: integration."""

from __future__ import annotations

import logging
from typing import Any

import pytest

from sparkmirror.config.worker_config import WorkerConfig
from sparkmirror.connectors.desired_state import Restart
from sparkmirror.runtime.worker import ConnectWorker
from support.waiting import PATIENCE_SECONDS, eventually

UNREACHABLE = WorkerConfig.parse(
    "bootstrap.servers=127.0.0.1:1\n"
    "group.id=g\n"
    "config.storage.topic=c\n"
    "offset.storage.topic=o\n"
    "status.storage.topic=s\n"
    "rebalance.timeout.ms=10000\n"
)


def test_a_revoked_connector_is_disowned_ended_and_given_up_in_this_order(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Or the supervisor would start it again, or its last status would not be the last."""
    worker: Any = ConnectWorker(UNREACHABLE, "http://127.0.0.1:1/")
    calls: list[object] = []

    def release(names: list[str], seconds: float) -> bool:
        calls.append(("release", *names, worker._reconciler.owns("x"), seconds))
        return False

    monkeypatch.setattr(worker._supervisor, "release", release)
    monkeypatch.setattr(
        worker._reporter, "give_up", lambda names: calls.append(("give up", *names))
    )
    worker._on_assigned(("x", "y"))
    assert worker._reconciler.owns("x")
    with caplog.at_level(logging.WARNING, "sparkmirror"):
        worker._on_revoked(("x",))
    assert calls == [("release", "x", False, 7.0), ("give up", "x")]
    assert worker._reconciler.owns("y")
    assert "x: revoked before they ended here" in caplog.text


def test_a_restart_on_request_reads_references_again_and_is_reported(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Before the response; a restart of tasks leaves the config alone."""
    worker: Any = ConnectWorker(UNREACHABLE, "http://127.0.0.1:1/")
    calls: list[object] = []
    monkeypatch.setattr(worker._config_cache, "invalidate", calls.append)
    monkeypatch.setattr(worker._supervisor, "restart", calls.append)
    monkeypatch.setattr(worker._reporter, "update_statuses", lambda: calls.append("statuses"))
    for restart in (Restart("x"), Restart("x", tasks_only=True)):
        worker._restart(restart)
    assert calls == [
        "x",
        Restart("x"),
        "statuses",
        Restart("x", tasks_only=True),
        "statuses",
    ]


def test_a_worker_without_a_cluster_reports_it_and_ends() -> None:
    """Its API answers meanwhile."""
    worker = ConnectWorker(UNREACHABLE, "http://127.0.0.1:1/")
    worker.start()
    eventually(
        lambda: "cannot be reached" in worker.api.stage(), PATIENCE_SECONDS, "it says what is wrong"
    )
    assert worker.api.health()[0] == 503
    assert (worker.snapshots(), worker.worker_metrics().tasks, worker.failure()) == ([], {}, None)
    assert worker.stop()
