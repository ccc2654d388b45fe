# SPDX-License-Identifier: Apache-2.0
"""Connect's REST API as calls: each returns a value or raises a WorkerError.

A worker whose group is rebalancing answers 409 (for reads 500) and has done nothing; the request is
repeated for a while, with growing pauses. A refusal becomes a sentence with the address, the
request's subject and the worker's message.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from typing import Any, TypeVar
from urllib.parse import quote

from sparkmirror.errors import ConfigError, WorkerError
from sparkmirror.rest_client import responses
from sparkmirror.rest_client.http_client import HttpClient, HttpResponse, WorkerEndpoint

T = TypeVar("T")

REBALANCE_RETRY_SECONDS = 30.0

NOT_FOUND = 404
_CREATED, _CONFLICT, _ERROR = 201, 409, 500
_LAST_GOOD = 299
_MANY_WORDS, _FEW_WORDS = 2000, 200
_AMBIGUOUS = re.compile("%2F|%5C|%25")
_EXISTS = "already exists"
_EXPECTED = "rebalance is expected"  # Java's words, with a 500

FIRST_DELAY_SECONDS = 0.1
MAX_DELAY_SECONDS = 2.0
_GROWTH = 1.5


class ConnectClient:
    """One Connect worker."""

    def __init__(
        self, access: WorkerEndpoint, *, busy_seconds: float = REBALANCE_RETRY_SECONDS
    ) -> None:
        self._exchange = HttpClient(access)
        self._busy_seconds = busy_seconds
        self.url = access.url

    def connector_names(self) -> list[str]:
        """Every connector, sorted."""
        return sorted(self._get("/connectors", "the connectors", responses.parse_names))

    def list_connectors(self) -> dict[str, responses.ListedConnector]:
        """Every connector with its configuration and state, sorted by name.

        One that no worker has taken up yet is missing in Connect's own answer.
        """
        found = self._get(
            "/connectors?expand=status&expand=info",
            "the connectors",
            responses.parse_listed_connectors,
        )
        for name in self.connector_names():
            info = None if name in found else self._none_if_not_found(partial(self.info, name))
            if info is not None:
                found[name] = responses.ListedConnector(info, None)
        return dict(sorted(found.items()))

    def info(self, name: str) -> responses.ConnectorInfo:
        """What a connector was told."""
        return self._get(_connector_path(name), _connector(name), responses.parse_connector_info)

    def config(self, name: str) -> dict[str, str | None] | None:
        """A connector's configuration; None if there is no such connector."""
        path = f"{_connector_path(name)}/config"
        return self._none_if_not_found(
            lambda: self._get(path, _connector(name), responses.parse_config)
        )

    def status(self, name: str) -> responses.ConnectorStateInfo | None:
        """What a connector does; None if there is none, or no worker has taken it up yet."""
        path = f"{_connector_path(name)}/status"
        return self._none_if_not_found(
            lambda: self._get(path, _connector(name), responses.parse_status)
        )

    def topics(self, name: str) -> list[str]:
        """The topics that a connector has written to or read from."""
        path = f"{_connector_path(name)}/topics"
        return self._get(path, _connector(name), lambda found: responses.parse_topics(found, name))

    def offsets(self, name: str) -> list[responses.ConnectorOffset]:
        """Where a connector stands."""
        return self._get(
            f"{_connector_path(name)}/offsets", _connector(name), responses.parse_offsets
        )

    def plugins(self) -> list[responses.PluginInfo]:
        """The connector classes that the worker has."""
        return self._get("/connector-plugins", "the plugins", responses.parse_plugins)

    def plugin_config(self, plugin: str) -> list[responses.ConfigKeyInfo]:
        """The keys of a plugin."""
        path = f"/connector-plugins/{_path_segment(plugin, 'plugin')}/config"
        return self._get(path, f"plugin '{plugin}'", responses.parse_config_keys)

    def validate(self, config: Mapping[str, str | None]) -> list[responses.ConfigProblem]:
        """What the worker has against a configuration, which must name a class."""
        plugin = config["connector.class"] or ""
        path = f"/connector-plugins/{_path_segment(plugin, 'connector.class')}/config/validate"
        subject = f"plugin '{plugin}'"
        return self._read(
            self._request("PUT", path, subject, dict(config)),
            subject,
            responses.parse_config_problems,
        )

    def loggers(self) -> list[responses.LoggerInfo]:
        """The worker's loggers."""
        return self._get("/admin/loggers", "the loggers", responses.parse_loggers)

    def logger(self, name: str) -> responses.LoggerInfo:
        """One logger."""
        return self._get(
            f"/admin/loggers/{_path_segment(name, 'logger')}",
            f"logger '{name}'",
            lambda found: responses.parse_logger(name, found),
        )

    def put_config(self, name: str, config: Mapping[str, str | None]) -> bool:
        """Create a connector or change it; whether it is new."""
        answer = self._request(
            "PUT", f"{_connector_path(name)}/config", _connector(name), dict(config)
        )
        return answer.status == _CREATED

    def create(self, name: str, config: Mapping[str, str | None], initial_state: str) -> None:
        """Create a connector that begins in another state than RUNNING."""
        body = {"name": name, "config": dict(config), "initial_state": initial_state}
        self._request("POST", "/connectors", _connector(name), body)

    def delete(self, name: str) -> bool:
        """Take a connector away; False if there is none."""
        deleted = self._none_if_not_found(
            lambda: self._request("DELETE", _connector_path(name), _connector(name))
        )
        return deleted is not None

    def pause(self, name: str) -> None:
        """Stop its work, keep its tasks."""
        self._request("PUT", f"{_connector_path(name)}/pause", _connector(name))

    def resume(self, name: str) -> None:
        """Go on after a pause or a stop."""
        self._request("PUT", f"{_connector_path(name)}/resume", _connector(name))

    def stop(self, name: str) -> None:
        """End its tasks."""
        self._request("PUT", f"{_connector_path(name)}/stop", _connector(name))

    def restart(self, name: str, *, include_tasks: bool, only_failed: bool) -> None:
        """Begin anew: the connector, on demand its tasks, or only what has failed."""
        query = f"includeTasks={str(include_tasks).lower()}&onlyFailed={str(only_failed).lower()}"
        self._request("POST", f"{_connector_path(name)}/restart?{query}", _connector(name))

    def _get(self, path: str, subject: str, read: Callable[[Any], T]) -> T:
        return self._read(self._request("GET", path, subject), subject, read)

    def _read(self, answer: HttpResponse, subject: str, read: Callable[[Any], T]) -> T:
        try:
            return read(answer.json())
        except ValueError as error:
            raise WorkerError(
                f"{self.url} answers the question for {subject} with something that no Connect "
                f"worker says ({error}). Is --url the address of one?",
                url=self.url,
                status=answer.status,
            ) from error

    def _request(self, method: str, path: str, subject: str, body: object = None) -> HttpResponse:
        deadline = time.monotonic() + self._busy_seconds
        for pause in poll_delays():
            answer = self._exchange.request(method, path, body)
            if answer.status <= _LAST_GOOD:
                return answer
            words = _message(answer)
            if not _is_busy(method, answer.status, words) or time.monotonic() + pause > deadline:
                break
            time.sleep(pause)
        raise self._error(answer, words, subject, path)

    def _error(self, answer: HttpResponse, words: str, subject: str, path: str) -> WorkerError:
        status = answer.status
        match status:
            case 401:
                sentence = (
                    f"{self.url} wants to know who asks: say --user NAME, with the password in "
                    "SPARKMIRROR_PASSWORD; or they are wrong."
                )
            case 404 if words:
                sentence = f"{subject} is not known to {self.url}: {words}"
            case 404:
                sentence = (
                    f"{self.url} has no such page for {subject}. Is --url the address of a "
                    "Connect worker?"
                )
            case 409 if _EXISTS not in words:
                sentence = (
                    f"{subject}: the workers of {self.url} are rebalancing, still after "
                    f"{self._busy_seconds:g} s. Try again later. {words}"
                )
            case 400 if not answer.body and _AMBIGUOUS.search(path):
                sentence = (
                    f"{subject} on {self.url}: refused with 400, without a word. Java's workers "
                    "take no slash, backslash or percent sign in a name: choose another one."
                )
            case _:
                sentence = (
                    f"{subject} on {self.url}: refused with {status}: {words or _page_text(answer)}"
                )
        return WorkerError(sentence, url=self.url, status=status)

    @staticmethod
    def _none_if_not_found(call: Callable[[], T]) -> T | None:
        try:
            return call()
        except WorkerError as error:
            if error.status == NOT_FOUND:
                return None
            raise


def _is_busy(method: str, status: int, words: str) -> bool:
    if status == _CONFLICT:
        return _EXISTS not in words
    return method == "GET" and status == _ERROR and _EXPECTED in words


def _message(answer: HttpResponse) -> str:
    """Connect's own words; nothing if it is the server below it, or another one, that answers."""
    try:
        message = answer.json()["message"]
    except (ValueError, KeyError, TypeError):
        return ""
    return str(message)[:_MANY_WORDS]


def _page_text(answer: HttpResponse) -> str:
    """What a page of another server says, without its marks."""
    text = re.sub(r"<[^>]*>", " ", answer.body[:_MANY_WORDS].decode(errors="replace"))
    return " ".join(text.split())[:_FEW_WORDS] or "it does not say why"


def _connector(name: str) -> str:
    return f"connector '{name}'"


def _connector_path(name: str) -> str:
    return f"/connectors/{_path_segment(name, 'connector')}"


def _path_segment(name: str, kind: str) -> str:
    """One part of a path; names that servers take for a way to another place are refused."""
    if name in {"", ".", ".."}:
        raise ConfigError(f"'{name}' cannot be the name of a {kind} in an address.")
    return quote(name, safe="", errors="surrogatepass")


def poll_delays() -> Iterator[float]:
    """Seconds, without an end."""
    seconds = FIRST_DELAY_SECONDS
    while True:
        yield seconds
        seconds = min(seconds * _GROWTH, MAX_DELAY_SECONDS)
