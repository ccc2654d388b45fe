# SPDX-License-Identifier: Apache-2.0
"""Workers of a Connect group that run nothing and record their assignments.

    python -m support.mirrors.group_members '{"bootstrap": "127.0.0.1:9092", "group": "g", ...}'

runs one in a separate process, which tests may kill or suspend. It prints a line per event, and
`write GENERATION TIME` while it believes that it may write.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from sparkmirror.config.worker_settings import GroupSettings
from sparkmirror.errors import UnreachableError
from sparkmirror.group.assignor import AssignableConnectors
from sparkmirror.group.membership import Membership
from sparkmirror.system.clock import steady_clock
from sparkmirror.wire.settings import ConnectionSettings
from support.waiting import PATIENCE_SECONDS

SESSION_MS = 30_000  # of members that live: no pause of a busy machine ends it
SHORT_SESSION_MS = 6_000  # of members that die; the shortest that brokers allow by default

_WRITE_SECONDS = 0.01


def group_settings(group: str, **more: Any) -> GroupSettings:
    """Settings with short timeouts."""
    quick: dict[str, Any] = {
        "session_timeout_ms": SESSION_MS,
        "heartbeat_interval_ms": 300,
        "rebalance_timeout_ms": 60_000,
        "rebalance_delay_ms": 0,
    }
    return GroupSettings(group, **(quick | more))


@dataclass
class ConfigTopic:
    """The content of the config topic, shared or of one member."""

    connectors: Sequence[str]
    offset: int = 1
    piece: str | None = None

    def change(self, connectors: Sequence[str]) -> None:
        self.connectors = connectors
        self.offset += 1

    @property
    def configured(self) -> AssignableConnectors:
        return AssignableConnectors(self.offset, tuple(self.connectors), flow=self.piece)


class ConfigReader:
    """A reader of the topic, which may lag."""

    def __init__(self, topic: ConfigTopic) -> None:
        self._topic = topic
        self._known = topic.configured
        self.is_broken = False

    def cached(self) -> AssignableConnectors:
        """What was read so far."""
        return self._known

    def latest(self) -> AssignableConnectors:
        """What there is, if it can be read."""
        if self.is_broken:
            raise UnreachableError("The topic cannot be read.", cluster="connect")
        self._known = self._topic.configured
        return self._known


@dataclass
class ExclusiveWork:
    """Tracks which worker runs what; fails if something runs twice."""

    running: dict[str, str] = field(default_factory=dict)
    faults: list[str] = field(default_factory=list)
    lock: threading.Lock = field(default_factory=threading.Lock)

    def begin(self, name: str, connectors: Collection[str]) -> None:
        """A worker starts or keeps these."""
        with self.lock:
            for connector in connectors:
                owner = self.running.setdefault(connector, name)
                if owner != name:
                    self.faults.append(f"{connector} runs on {owner} and on {name}")

    def end(self, name: str, connectors: Collection[str]) -> None:
        with self.lock:
            for connector in connectors:
                if self.running.get(connector) == name:
                    del self.running[connector]


class GroupMember:
    """A member in this process."""

    def __init__(
        self,
        bootstrap: str,
        settings: GroupSettings,
        topic: ConfigTopic,
        ground: ExclusiveWork | None = None,
        *,
        name: str = "w",
    ) -> None:
        self.name = name
        self.url = f"http://{name}:8083/"
        self.configs = ConfigReader(topic)
        self.events: list[tuple[str, frozenset[str]]] = []
        self.slow = threading.Event()  # cleared: revoking takes until it is set
        self.slow.set()
        self._ground = ground or ExclusiveWork()
        self.member = Membership(
            ConnectionSettings("connect", tuple(bootstrap.split(",")), name),
            settings,
            self.url,
            self.configs,
            on_assigned=self._assigned,
            on_revoked=self._revoked,
        )

    def __enter__(self) -> Self:
        self.member.start()
        return self

    def __exit__(
        self,
        _kind: type[BaseException] | None,
        _error: BaseException | None,
        _traceback: TracebackType | None,
    ) -> None:
        self.slow.set()
        assert self.member.stop(PATIENCE_SECONDS)

    @property
    def connectors(self) -> set[str]:
        """What it is to run."""
        return set(self.member.assignment)

    def told(self, what: str) -> list[frozenset[str]]:
        """Return the assignments to start, or to stop, until now."""
        return [connectors for kind, connectors in self.events if kind == what]

    def _assigned(self, connectors: tuple[str, ...]) -> None:
        self._ground.begin(self.name, connectors)
        self.events.append(("assigned", frozenset(connectors)))

    def _revoked(self, connectors: tuple[str, ...]) -> None:
        self.slow.wait()
        self._ground.end(self.name, connectors)
        self.events.append(("revoked", frozenset(connectors)))


class GroupMemberProcess:
    """A member in a separate process, with a short session; killed at the end."""

    def __init__(self, bootstrap: str, group: str, connectors: Sequence[str]) -> None:
        orders = {"bootstrap": bootstrap, "group": group, "connectors": list(connectors)}
        self.lines: list[str] = []
        self._process = subprocess.Popen(
            [sys.executable, "-m", "support.mirrors.group_members", json.dumps(orders)],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            text=True,
            env={**os.environ, "PYTHONPATH": _python_path()},
        )
        self._reader = threading.Thread(target=self._read, daemon=True)

    def __enter__(self) -> Self:
        self._reader.start()
        return self

    def __exit__(
        self,
        _kind: type[BaseException] | None,
        _error: BaseException | None,
        _traceback: TracebackType | None,
    ) -> None:
        self._process.kill()
        self._process.wait()
        self._reader.join()
        assert self._process.stdout is not None
        self._process.stdout.close()

    @property
    def is_writing(self) -> bool:
        """Whether its last line is a write."""
        return self.lines[-1:] != [] and self.lines[-1].startswith("write")

    def signal(self, number: signal.Signals) -> None:
        self._process.send_signal(number)

    def _read(self) -> None:
        assert self._process.stdout is not None
        self.lines.extend(line.strip() for line in iter(self._process.stdout.readline, ""))


def _python_path() -> str:
    """As here, wherever pytest has it from."""
    tests = str(Path(__file__).parents[2])
    return os.pathsep.join([tests, *(path for path in sys.path if path)])


def main(orders: dict[str, Any]) -> None:
    """Run one worker until it is stopped."""
    lock = threading.Lock()

    def say(line: str) -> None:
        with lock:
            print(line, flush=True)

    member = Membership(
        ConnectionSettings("connect", tuple(orders["bootstrap"].split(",")), "other"),
        group_settings(orders["group"], session_timeout_ms=SHORT_SESSION_MS),
        "http://other:8083/",
        ConfigReader(ConfigTopic(orders["connectors"])),
        on_assigned=lambda connectors: say(f"assigned {','.join(connectors)}"),
        on_revoked=lambda connectors: say(f"revoked {','.join(connectors)}"),
    )
    member.start()
    while True:
        with lock:  # whoever asks and writes does both before anybody else gets a word in
            asked_at = steady_clock()
            if member.is_member and member.assignment:
                print(f"write {member.generation} {asked_at}", flush=True)
        threading.Event().wait(_WRITE_SECONDS)


if __name__ == "__main__":
    main(json.loads(sys.argv[1]))
