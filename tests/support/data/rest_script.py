# SPDX-License-Identifier: Apache-2.0
"""Requests to a worker in sequence: Java's responses are stored, ours are compared with them.

Texts in angle brackets are placeholders: `<servers>` is the address of the cluster, `<worker>` that
of the worker.
"""

from __future__ import annotations

import http.client
import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from support.waiting import PATIENCE_SECONDS

SERVERS = "<servers>"
JSON = {"Content-Type": "application/json"}
HEARTBEAT = "org.apache.kafka.connect.mirror.MirrorHeartbeatConnector"
KEPT_HEADERS = ("Content-Type", "Location", "Allow", "Vary")

BEAT: dict[str, Any] = {
    "connector.class": HEARTBEAT,
    "source.cluster.alias": "a",
    "target.cluster.alias": "b",
    "target.cluster.bootstrap.servers": SERVERS,
    "target.cluster.sasl.jaas.config": "module required password='secret';",
    "heartbeats.topic.replication.factor": 1,
    "emit.heartbeats.enabled": True,
    "some.fraction": 1.5,
}
SMALL = {key: BEAT[key] for key in list(BEAT)[:4]}
ENTRY = {"partition": {"sourceClusterAlias": "a", "targetClusterAlias": "b"}}


@dataclass(frozen=True, slots=True)
class Step:
    """One request; `until` names a connector and the states to wait for afterwards."""

    name: str
    method: str
    path: str
    body: Any = None  # bytes as they are, anything else as JSON
    headers: Mapping[str, str] = field(default_factory=lambda: JSON)
    until: tuple[str, ...] = ()
    is_late: bool = False  # Java's worker sees offsets a moment after it has written them

    def payload(self, servers: str) -> bytes | None:
        if self.body is None or isinstance(self.body, bytes):
            return self.body
        return json.dumps(self.body).replace(SERVERS, servers).encode()


@dataclass(frozen=True, slots=True)
class Response:
    """An answer: the body as JSON if it is."""

    status: int
    headers: dict[str, str]
    body: Any


def _of(called: str, more: Mapping[str, Any] | None = None, /, **config: Any) -> dict[str, Any]:
    return {"name": called, "config": {**SMALL, **config}, **(more or {})}


def _general() -> Iterator[Step]:
    yield Step("root", "GET", "/")
    yield Step("health", "GET", "/health")
    yield Step("no connectors", "GET", "/connectors")
    yield Step("trailing slash", "GET", "/connectors/")
    yield Step("head", "HEAD", "/connectors")
    yield Step("unknown path", "GET", "/nothing")
    yield Step("unknown path below", "GET", "/connectors/beat/nothing")
    yield Step("old path", "GET", "/connectors/beat/tasks-config")
    yield Step("wrong method", "DELETE", "/connectors")
    yield Step("wrong method on one", "PUT", "/connectors/beat", {})
    yield Step("wrong method on root", "POST", "/", {})
    yield Step("options", "OPTIONS", "/connectors")
    yield Step("accepts html", "GET", "/connectors", headers={"Accept": "text/html"})
    yield Step("accepts all", "GET", "/connectors", headers={"Accept": "*/*"})


def _bad_bodies() -> Iterator[Step]:
    bodies: dict[str, Any] = {
        "malformed": b'{"name":',
        "empty": b"",
        "list": [],
        "text": "text",
        "null": b"null",
        "no fields": {},
        "no config": {"name": "x"},
        "null config": {"name": "x", "config": None},
        "unknown property": _of("x", {"colour": "red"}),
        "config list": {"name": "x", "config": []},
        "config text": {"name": "x", "config": "text"},
        "object value": _of("x", a={"b": 1}),
        "list value": _of("x", a=["b"]),
        "name object": {"name": {}, "config": SMALL},
        "name mismatch": _of("x", name="y"),
        "bad state": _of("x", {"initial_state": "DREAMING"}),
        "state number": _of("x", {"initial_state": 1}),
        "not a number": b'{"name":"x","config":{"a":NaN}}',
        "no class": {"name": "x", "config": {"tasks.max": 1}},
        "unknown class": {"name": "x", "config": {"connector.class": "no.such.Thing"}},
        "no tasks": _of("x", **{"tasks.max": 0}),
        "empty name": _of(""),
        "no name": {"config": SMALL},
        "control character": _of("a\nb"),
        "trailing text": b'{"name": "x", "config": {}} trailing',
        "two values": b'{"name": "x", "config": {"a": 1, "a": 2}}',
    }
    for name, body in bodies.items():
        yield Step(f"post {name}", "POST", "/connectors", body)
    yield Step("post as text", "POST", "/connectors", b"{}", {"Content-Type": "text/plain"})
    yield Step("post without type", "POST", "/connectors", b"{", {})
    yield Step("pause as text", "PUT", "/connectors/x/pause", b"x", {"Content-Type": "text/plain"})
    yield Step("put with type only", "PUT", "/connectors/x/pause", None, {"Content-Type": "a/b"})
    yield Step("get as text", "GET", "/connectors", None, {"Content-Type": "text/plain"})
    yield Step("put empty", "PUT", "/connectors/x/config", b"")
    yield Step("put null", "PUT", "/connectors/x/config", b"null")
    yield Step("put list", "PUT", "/connectors/x/config", [])
    yield Step("put mismatch", "PUT", "/connectors/x/config", {**SMALL, "name": "y"})
    yield Step("put object value", "PUT", "/connectors/x/config", {**SMALL, "a": {}})
    yield Step("put null value", "PUT", "/connectors/x/config", {**SMALL, "a": None})
    yield Step("patch unknown", "PATCH", "/connectors/x/config", {"a": "b"})
    yield Step("still none", "GET", "/connectors")


def _unknown() -> Iterator[Step]:
    for path in ("", "/config", "/status", "/tasks", "/tasks/0/status", "/topics", "/offsets"):
        yield Step(f"unknown{path}", "GET", f"/connectors/x{path}")
    for what in ("pause", "resume", "stop", "topics/reset"):
        yield Step(f"unknown {what}", "PUT", f"/connectors/x/{what}")
    yield Step("unknown restart", "POST", "/connectors/x/restart")
    yield Step("unknown restart all", "POST", "/connectors/x/restart?includeTasks=true")
    yield Step("unknown task restart", "POST", "/connectors/x/tasks/0/restart")
    yield Step("unknown delete", "DELETE", "/connectors/x")
    yield Step("unknown offsets delete", "DELETE", "/connectors/x/offsets")
    body = {"offsets": [{**ENTRY, "offset": {"offset": 0}}]}
    yield Step("unknown offsets patch", "PATCH", "/connectors/x/offsets", body)
    yield Step("task of letters", "GET", "/connectors/x/tasks/zero/status")
    yield Step("slash in name", "GET", "/connectors/a%2Fb/status")
    yield Step("dots", "GET", "/connectors/%2e%2e/status")
    yield Step("no characters", "GET", "/connectors/%ff/status")
    yield Step("no name in path", "GET", "/connectors//status")


def _life() -> Iterator[Step]:
    runs = ("beat", "RUNNING", "RUNNING")
    yield Step("create", "POST", "/connectors", {"name": " beat ", "config": BEAT}, until=runs)
    yield Step("exists", "POST", "/connectors", _of("beat"))
    yield Step("names", "GET", "/connectors")
    yield Step("info", "GET", "/connectors/beat")
    yield Step("info slash", "GET", "/connectors/beat/")
    yield Step("config", "GET", "/connectors/beat/config")
    yield Step("status", "GET", "/connectors/beat/status")
    yield Step("tasks", "GET", "/connectors/beat/tasks")
    yield Step("task", "GET", "/connectors/beat/tasks/0/status")
    yield Step("no task", "GET", "/connectors/beat/tasks/7/status")
    yield Step("negative task", "GET", "/connectors/beat/tasks/-1/status")
    yield Step("expand status", "GET", "/connectors?expand=status")
    yield Step("expand both", "GET", "/connectors?expand=status&expand=info&expand=more")
    yield Step("expand nothing", "GET", "/connectors?expand=")
    yield Step("patch running offsets", "PATCH", "/connectors/beat/offsets", {"offsets": [ENTRY]})
    yield Step("delete running offsets", "DELETE", "/connectors/beat/offsets")
    changed = {**BEAT, "emit.heartbeats.interval.seconds": 2}
    yield Step("put again", "PUT", "/connectors/beat/config", changed, until=runs)
    yield Step("put wrong", "PUT", "/connectors/beat/config", {**changed, "tasks.max": 0})
    change = {"some.fraction": None, "added": 7}
    yield Step("patch", "PATCH", "/connectors/beat/config", change, until=runs)
    yield Step("patch wrong", "PATCH", "/connectors/beat/config", {"tasks.max": "none"})
    yield Step("config after", "GET", "/connectors/beat/config")
    yield Step("restart", "POST", "/connectors/beat/restart", until=runs)
    yield Step("restart failed", "POST", "/connectors/beat/restart?onlyFailed=TRUE", until=runs)
    both = "/connectors/beat/restart?includeTasks=true&onlyFailed=nonsense"
    yield Step("restart all", "POST", both, until=runs)
    yield Step("restart task", "POST", "/connectors/beat/tasks/0/restart", until=runs)
    yield Step("restart no task", "POST", "/connectors/beat/tasks/7/restart")
    yield Step("pause", "PUT", "/connectors/beat/pause", until=("beat", "PAUSED", "PAUSED"))
    yield Step("pause again", "PUT", "/connectors/beat/pause")
    yield Step("paused", "GET", "/connectors/beat/status")
    yield Step("resume", "PUT", "/connectors/beat/resume", until=runs)
    yield Step("stop", "PUT", "/connectors/beat/stop", until=("beat", "STOPPED"))
    yield Step("stopped", "GET", "/connectors/beat/status")
    yield Step("stopped tasks", "GET", "/connectors/beat/tasks")
    yield from _offsets()
    yield Step("resume stopped", "PUT", "/connectors/beat/resume", until=runs)


def _others() -> Iterator[Step]:
    paused = _of("sleeper", {"initial_state": "paused"})
    yield Step("create paused", "POST", "/connectors", paused, until=("sleeper", "PAUSED"))
    stopped = _of("stopped", {"initial_state": "Stopped"})
    yield Step("create stopped", "POST", "/connectors", stopped, until=("stopped", "STOPPED"))
    odd = ("n\u00fc x", "RUNNING", "RUNNING")
    yield Step("put new", "PUT", "/connectors/n%C3%BC%20x/config", SMALL, until=odd)
    yield Step("get odd", "GET", "/connectors/n%C3%BC%20x")
    yield Step("topics reset", "PUT", "/connectors/sleeper/topics/reset")
    yield Step("topics", "GET", "/connectors/sleeper/topics")
    for name in ("beat", "sleeper", "stopped", "n%C3%BC%20x"):
        yield Step(f"delete {name}", "DELETE", f"/connectors/{name}")
    yield Step("deleted", "GET", "/connectors/beat/status")
    yield Step("none left", "GET", "/connectors")


def _offsets() -> Iterator[Step]:
    path = "/connectors/beat/offsets"
    yield Step("reset offsets", "DELETE", path)
    yield Step("reset offsets again", "DELETE", path)
    yield Step("offsets", "GET", path)
    bodies: dict[str, Any] = {
        "no list": {},
        "null list": {"offsets": None},
        "empty list": {"offsets": []},
        "text": {"offsets": "text"},
        "null entry": {"offsets": [None]},
        "unknown property": {"offsets": [], "more": 1},
        "unknown entry property": {"offsets": [{**ENTRY, "more": 1}]},
        "wrong": {"offsets": [{**ENTRY, "offset": {"offset": 5}}]},
        "partition text": {"offsets": [{"partition": "a", "offset": None}]},
        "right": {"offsets": [{**ENTRY, "offset": {"offset": 0}}]},
    }
    for name, body in bodies.items():
        yield Step(f"alter {name}", "PATCH", path, body)
    yield Step("altered offsets", "GET", path, is_late=True)
    forget = {"offsets": [{**ENTRY, "offset": None}]}
    yield Step("alter forget", "PATCH", path, forget)
    yield Step("forgotten offsets", "GET", path, is_late=True)


def _plugins() -> Iterator[Step]:
    base = "/connector-plugins"
    yield Step("plugins", "GET", base)
    yield Step("plugin keys", "GET", f"{base}/MirrorHeartbeat/config")
    yield Step("unknown plugin", "GET", f"{base}/Nothing/config")
    yield Step("plugin version", "GET", f"{base}/MirrorHeartbeat/config?version=9.9")
    path = f"{base}/MirrorHeartbeat/config/validate"
    yield Step("validate", "PUT", path, {**SMALL, "name": "v"})
    yield Step("validate wrong", "PUT", path, {**SMALL, "name": "v", "tasks.max": "many"})
    yield Step("validate no class", "PUT", path, {"name": "v"})
    yield Step("validate other class", "PUT", f"{base}/MirrorSource/config/validate", SMALL)
    yield Step("validate unknown", "PUT", f"{base}/Nothing/config/validate", {})
    nothing = {"connector.class": "Nothing"}
    yield Step("validate unknown class", "PUT", f"{base}/Nothing/config/validate", nothing)
    yield Step("validate list", "PUT", path, [])
    yield Step("validate empty", "PUT", path, b"")


def _loggers() -> Iterator[Step]:
    base = "/admin/loggers"
    yield Step("no logger", "GET", f"{base}/no.such.logger")
    yield Step("set logger", "PUT", f"{base}/a.b.c", {"level": "warn"})
    yield Step("set logger again", "PUT", f"{base}/a.b", {"level": "ERROR"})
    yield Step("set no level", "PUT", f"{base}/a.b.c", {})
    yield Step("set null level", "PUT", f"{base}/a.b.c", {"level": None})
    yield Step("set bad level", "PUT", f"{base}/a.b.c", {"level": "LOUD"})
    yield Step("set number", "PUT", f"{base}/a.b.c", {"level": 1})
    yield Step("set nothing", "PUT", f"{base}/a.b.c", b"")
    yield Step("set cluster", "PUT", f"{base}/a.b.c?scope=cluster", {"level": "INFO"})
    yield Step("set cluster bad", "PUT", f"{base}/a.b.c?scope=cluster", {"level": "LOUD"})
    yield Step("set scope", "PUT", f"{base}/a.b.c?scope=world", {"level": "TRACE"})


def _internal() -> Iterator[Step]:
    yield Step("unsigned tasks", "POST", "/connectors/x/tasks", [])
    yield Step("unsigned fence", "PUT", "/connectors/x/fence", b"")
    signed = {
        **JSON,
        "X-Connect-Authorization": "AAAA",
        "X-Connect-Request-Signature-Algorithm": "HmacSHA256",
    }
    yield Step("falsely signed tasks", "POST", "/connectors/x/tasks", [], signed)
    odd = {**signed, "X-Connect-Request-Signature-Algorithm": "HmacSHA1"}
    yield Step("oddly signed tasks", "POST", "/connectors/x/tasks", [], odd)
    yield Step("tasks of nothing", "POST", "/connectors/x/tasks", b"{", signed)


def _large() -> Iterator[Step]:
    large = "x" * 10_000_000
    yield Step("post large", "POST", "/connectors", _of("large", note=large))
    yield Step("none large", "GET", "/connectors/large")


def script() -> list[Step]:
    """All of them, in their order."""
    parts = (_general, _bad_bodies, _unknown, _life, _others, _plugins, _loggers, _internal, _large)
    return [step for part in parts for step in part()]


def send(worker: str, step: Step, servers: str) -> Response:
    """One request to `host:port`, its path untouched."""
    connection = http.client.HTTPConnection(worker, timeout=PATIENCE_SECONDS)
    try:
        connection.request(step.method, step.path, step.payload(servers), dict(step.headers))
        found = connection.getresponse()
        text = found.read().decode().replace(worker, "<worker>").replace(servers, SERVERS)
    finally:
        connection.close()
    kept = {name: found.headers[name] for name in KEPT_HEADERS if found.headers[name]}
    headers = {name: text.replace(worker, "<worker>") for name, text in kept.items()}
    is_json = text and headers.get("Content-Type") == "application/json"
    return Response(found.status, headers, json.loads(text) if is_json else text)


def run_script(
    worker: str,
    servers: str,
    wait: Callable[..., None],
    settle: Callable[[], None] = lambda: None,
) -> Iterator[tuple[Step, Response]]:
    """Send the whole script; `wait` waits for a connector's states, `settle` for a while."""
    for step in script():
        if step.is_late:
            settle()
        yield step, send(worker, step, servers)
        if step.until:
            wait(*step.until)
