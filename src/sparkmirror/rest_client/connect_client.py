# SPDX-License-Identifier: Apache-2.0
"""Connect's REST API as calls: each returns a value or raises a WorkerError.

A worker whose group is rebalancing responds with 409 (for reads 500) and has done nothing. The
request is retried for a while, with growing pauses. An error names the address, the subject of the
request and the worker's message.
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
_LAST_SUCCESS = 299
_MAX_MESSAGE, _MAX_PAGE_TEXT = 2000, 200
_AMBIGUOUS = re.compile("%2F|%5C|%25")
_EXISTS = "already exists"
_REBALANCING = "rebalance is expected"  # in the message of a Java worker with status 500

FIRST_DELAY_SECONDS = 0.1
MAX_DELAY_SECONDS = 2.0
_GROWTH = 1.5


class ConnectClient:
    """One Connect worker."""

    def __init__(
        self, endpoint: WorkerEndpoint, *, busy_seconds: float = REBALANCE_RETRY_SECONDS
    ) -> None:
        """`busy_seconds` is how long requests are retried during a rebalance."""
        self._http = HttpClient(endpoint)
        self._busy_seconds = busy_seconds
        self.url = endpoint.url

    def connector_names(self) -> list[str]:
        """Return the names of all connectors, sorted."""
        return sorted(self._get("/connectors", "the connectors", responses.parse_names))

    def list_connectors(self) -> dict[str, responses.ListedConnector]:
        """Return all connectors with configuration and state, sorted by name.

        Connect's own list lacks connectors that no worker has started yet.
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
        return self._get_of_connector(name, "", responses.parse_connector_info)

    def config(self, name: str) -> dict[str, str | None] | None:
        """Return a connector's configuration; None if the connector does not exist."""
        return self._none_if_not_found(
            lambda: self._get_of_connector(name, "/config", responses.parse_config)
        )

    def status(self, name: str) -> responses.ConnectorStateInfo | None:
        """Return a connector's status; None if it does not exist or has not been started yet."""
        return self._none_if_not_found(
            lambda: self._get_of_connector(name, "/status", responses.parse_status)
        )

    def lag(self, name: str, *, with_partitions: bool = False) -> responses.ConnectorLag | None:
        """Return a connector's lag; None if it copies nothing, or a worker of Java runs it.

        Is not retried while workers rebalance: an unknown lag is an answer, too.
        """
        path = f"{_connector_path(name)}/lag{'?partitions=true' if with_partitions else ''}"
        subject = f"the lag of {_connector(name)}"
        response = self._http.request("GET", path)
        if response.status <= _LAST_SUCCESS:
            return self._parse(response, subject, responses.parse_lag)
        if response.status == NOT_FOUND:
            return None
        raise self._error(response, _message(response), subject, path)

    def topics(self, name: str) -> list[str]:
        """Return the topics that a connector has used."""
        return self._get_of_connector(
            name, "/topics", lambda found: responses.parse_topics(found, name)
        )

    def offsets(self, name: str) -> list[responses.ConnectorOffset]:
        return self._get_of_connector(name, "/offsets", responses.parse_offsets)

    def reset_offsets(self, name: str, wish: Mapping[str, object]) -> list[dict[str, Any]]:
        """Plan or request an offset reset; only sparkmirror's workers know the request."""
        subject = _connector(name)
        response = self._change("POST", name, "/offsets/reset", dict(wish))
        return self._parse(response, subject, lambda found: list(found["partitions"]))

    def pending_resets(self, name: str) -> list[dict[str, Any]]:
        """Return the offset resets that are not carried out, and refused ones."""
        return self._get_of_connector(name, "/offsets/reset", lambda found: list(found["resets"]))

    def plugins(self) -> list[responses.PluginInfo]:
        """Return the connector classes of the worker."""
        return self._get("/connector-plugins", "the plugins", responses.parse_plugins)

    def plugin_config(self, plugin: str) -> list[responses.ConfigKeyInfo]:
        """Return the keys of a plugin."""
        path = f"/connector-plugins/{_path_segment(plugin, 'plugin')}/config"
        return self._get(path, f"plugin '{plugin}'", responses.parse_config_keys)

    def validate(self, config: Mapping[str, str | None]) -> list[responses.ConfigProblem]:
        """Return the errors of a configuration, which must have a connector.class."""
        plugin = config["connector.class"] or ""
        path = f"/connector-plugins/{_path_segment(plugin, 'connector.class')}/config/validate"
        subject = f"plugin '{plugin}'"
        response = self._request("PUT", path, subject, dict(config))
        return self._parse(response, subject, responses.parse_config_problems)

    def loggers(self) -> list[responses.LoggerInfo]:
        return self._get("/admin/loggers", "the loggers", responses.parse_loggers)

    def logger(self, name: str) -> responses.LoggerInfo:
        return self._get(
            f"/admin/loggers/{_path_segment(name, 'logger')}",
            f"logger '{name}'",
            lambda found: responses.parse_logger(name, found),
        )

    def put_config(self, name: str, config: Mapping[str, str | None]) -> bool:
        """Create or change a connector. Returns whether it was created."""
        return self._change("PUT", name, "/config", dict(config)).status == _CREATED

    def create(self, name: str, config: Mapping[str, str | None], initial_state: str) -> None:
        """Create a connector with an initial state."""
        body = {"name": name, "config": dict(config), "initial_state": initial_state}
        self._request("POST", "/connectors", _connector(name), body)

    def delete(self, name: str) -> bool:
        """Delete a connector. Returns False if it does not exist."""
        return self._none_if_not_found(lambda: self._change("DELETE", name)) is not None

    def pause(self, name: str) -> None:
        self._change("PUT", name, "/pause")

    def resume(self, name: str) -> None:
        self._change("PUT", name, "/resume")

    def stop(self, name: str) -> None:
        self._change("PUT", name, "/stop")

    def restart(self, name: str, *, include_tasks: bool, only_failed: bool) -> None:
        query = f"includeTasks={str(include_tasks).lower()}&onlyFailed={str(only_failed).lower()}"
        self._change("POST", name, f"/restart?{query}")

    def _get(self, path: str, subject: str, parse: Callable[[Any], T]) -> T:
        return self._parse(self._request("GET", path, subject), subject, parse)

    def _get_of_connector(self, name: str, path: str, parse: Callable[[Any], T]) -> T:
        return self._get(f"{_connector_path(name)}{path}", _connector(name), parse)

    def _change(self, method: str, name: str, path: str = "", body: object = None) -> HttpResponse:
        return self._request(method, f"{_connector_path(name)}{path}", _connector(name), body)

    def _parse(self, response: HttpResponse, subject: str, parse: Callable[[Any], T]) -> T:
        try:
            return parse(response.json())
        except ValueError as error:
            raise WorkerError(
                f"{self.url} returned an unexpected response for {subject}: {error}. Check that "
                "--url is the address of a Connect worker.",
                url=self.url,
                status=response.status,
            ) from error

    def _request(self, method: str, path: str, subject: str, body: object = None) -> HttpResponse:
        deadline = time.monotonic() + self._busy_seconds
        for pause in poll_delays():
            response = self._http.request(method, path, body)
            if response.status <= _LAST_SUCCESS:
                return response
            message = _message(response)
            is_busy = _is_busy(method, response.status, message)
            if not is_busy or time.monotonic() + pause > deadline:
                break
            time.sleep(pause)
        raise self._error(response, message, subject, path)

    def _error(self, response: HttpResponse, message: str, subject: str, path: str) -> WorkerError:
        match response.status:
            case 401:
                sentence = (
                    f"{self.url} requires authentication, or rejects the credentials: set --user "
                    "NAME, and the password in SPARKMIRROR_PASSWORD."
                )
            case 404 if message:
                sentence = f"{subject} is not known to {self.url}: {message}"
            case 404:
                sentence = (
                    f"{self.url} has no resource for {subject}. Check that --url is the address "
                    "of a Connect worker."
                )
            case 409 if _EXISTS not in message:
                sentence = (
                    f"{subject}: the workers of {self.url} are still rebalancing after "
                    f"{self._busy_seconds:g} s. Try again later. {message}"
                )
            case 400 if not response.body and _AMBIGUOUS.search(path):
                sentence = (
                    f"{subject} on {self.url}: failed with status 400, without a message. Java "
                    "workers reject names with a slash, backslash or percent sign: choose another "
                    "name."
                )
            case status:
                reason = message or _page_text(response)
                sentence = f"{subject} on {self.url}: failed with status {status}: {reason}"
        return WorkerError(sentence, url=self.url, status=response.status)

    @staticmethod
    def _none_if_not_found(call: Callable[[], T]) -> T | None:
        try:
            return call()
        except WorkerError as error:
            if error.status == NOT_FOUND:
                return None
            raise


def _is_busy(method: str, status: int, message: str) -> bool:
    if status == _CONFLICT:
        return _EXISTS not in message
    return method == "GET" and status == _ERROR and _REBALANCING in message


def _message(response: HttpResponse) -> str:
    """Return Connect's message; empty if the response is not in Connect's error format."""
    try:
        message = response.json()["message"]
    except (ValueError, KeyError, TypeError):
        return ""
    return str(message)[:_MAX_MESSAGE]


def _page_text(response: HttpResponse) -> str:
    """Return the text of an HTML error page, for example of a proxy."""
    text = re.sub(r"<[^>]*>", " ", response.body[:_MAX_MESSAGE].decode(errors="replace"))
    return " ".join(text.split())[:_MAX_PAGE_TEXT] or "no message"


def _connector(name: str) -> str:
    return f"connector '{name}'"


def _connector_path(name: str) -> str:
    return f"/connectors/{_path_segment(name, 'connector')}"


def _path_segment(name: str, kind: str) -> str:
    """Escape a name for a path; reject names that change the path."""
    if name in {"", ".", ".."}:
        raise ConfigError(f"'{name}' cannot be the name of a {kind} in a URL.")
    return quote(name, safe="", errors="surrogatepass")


def poll_delays() -> Iterator[float]:
    """Yield growing delays in seconds, without end."""
    seconds = FIRST_DELAY_SECONDS
    while True:
        yield seconds
        seconds = min(seconds * _GROWTH, MAX_DELAY_SECONDS)
