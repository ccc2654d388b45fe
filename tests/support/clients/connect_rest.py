# SPDX-License-Identifier: Apache-2.0
"""Client for the REST API of a Connect worker, Java's or ours."""

from __future__ import annotations

import json
import urllib.error
import urllib.request
from collections.abc import Mapping
from typing import Any
from urllib.parse import quote

from support.waiting import PATIENCE_SECONDS, eventually

_BUSY = 409  # the worker is between two generations of its group


class ConnectRestClient:
    """Asks one worker."""

    def __init__(self, worker_id: str) -> None:
        self.worker_id = worker_id

    def request(self, method: str, path: str, body: object = None) -> tuple[int, Any]:
        """The status code and the JSON of one answer, or its text: the server itself says HTML."""
        request = urllib.request.Request(
            f"http://{self.worker_id}{path}",
            method=method,
            data=None if body is None else json.dumps(body).encode(),
            headers={"Content-Type": "application/json"},
        )
        try:
            with urllib.request.urlopen(request, timeout=PATIENCE_SECONDS) as answer:  # noqa: S310 - ours
                code, kind, text = answer.status, answer.headers["Content-Type"], answer.read()
        except urllib.error.HTTPError as refusal:
            with refusal:
                code, kind, text = refusal.code, refusal.headers["Content-Type"], refusal.read()
        is_json = text and kind == "application/json"
        return code, json.loads(text) if is_json else text.decode()

    def get(self, path: str) -> Any:
        """What is there; an AssertionError if the worker refuses."""
        code, answer = self.request("GET", path)
        assert code == 200, (path, code, answer)
        return answer

    def request_ok(self, method: str, path: str, body: object = None) -> Any:
        """Carried out, after a rebalance if there is one."""

        def once() -> tuple[int, Any] | None:
            code, answer = self.request(method, path, body)
            return None if code == _BUSY else (code, answer)

        code, answer = eventually(once, PATIENCE_SECONDS, f"{method} {path} is taken")
        assert 200 <= code < 300, (method, path, code, answer)
        return answer

    def create(self, name: str, config: Mapping[str, str], state: str | None = None) -> None:
        body = {"name": name, "config": config, **({"initial_state": state} if state else {})}
        self.request_ok("POST", "/connectors", body)

    def await_states(self, name: str, connector: str, *tasks: str) -> None:
        """Wait until a connector and its tasks are in these states."""
        path = f"/connectors/{quote(name, safe='')}/status"

        def as_wanted() -> bool:
            code, found = self.request("GET", path)
            assert code == 200, found
            states = (found["connector"]["state"], *(one["state"] for one in found["tasks"]))
            assert states == (connector, *tasks), found
            return True

        wanted = f"'{name}' is {connector} with {list(tasks)}"
        eventually(as_wanted, PATIENCE_SECONDS, wanted, not_yet=(AssertionError, OSError))
