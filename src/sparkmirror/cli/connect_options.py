# SPDX-License-Identifier: Apache-2.0
"""Options, connection and exit codes of all commands for a Connect worker.

Exit codes: 0 success, 1 rejected or failed, 2 usage error (nothing was changed), 3 unreachable.
"""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from rich.console import Console

from sparkmirror.cli.connect_output import escape_control_characters
from sparkmirror.cli.console import print_error
from sparkmirror.cli.worker_address import worker_url
from sparkmirror.errors import ConfigError, WorkerError, WorkerUnreachableError
from sparkmirror.model import Secret
from sparkmirror.rest_client.connect_client import ConnectClient
from sparkmirror.rest_client.http_client import WorkerEndpoint, parse_worker_url
from sparkmirror.system.served_urls import DEFAULT_URL, all_published

OK, FAILED, USAGE_ERROR, UNREACHABLE = 0, 1, 2, 3

PASSWORD = "SPARKMIRROR_PASSWORD"  # noqa: S105 - the name of a variable
_DURATION = re.compile(r"(\d+(?:\.\d+)?) ?(ms|s|m|min|h)?")
_UNITS = {"ms": 0.001, "s": 1.0, "m": 60.0, "min": 60.0, "h": 3600.0, None: 1.0}


@dataclass(frozen=True, slots=True)
class ConnectOptions:
    """The options that select a worker."""

    url: str
    user: str | None
    timeout: float


def with_connect_client(connection: ConnectOptions, act: Callable[[ConnectClient], int]) -> int:
    """Run `act` with a client. Returns its exit code; prints an error as one line.

    With the default URL it also names the runs of this machine that serve at another address.
    """
    code = _run(connection, act)
    if connection.url == DEFAULT_URL and (code != OK or sys.stderr.isatty()):
        others = [one for one in all_published() if not one[0].rstrip("/").endswith(":8083")]
        for url, file in others:
            note = f"A run on this machine serves at {url}: use --url {file or url}"
            Console(stderr=True).print(note, markup=False, highlight=False, soft_wrap=True)
    return code


def _run(connection: ConnectOptions, act: Callable[[ConnectClient], int]) -> int:
    try:
        return act(ConnectClient(_access(connection)))
    except ConfigError as error:
        return _print_error(error, USAGE_ERROR)
    except WorkerUnreachableError as error:
        return _print_error(error, UNREACHABLE)
    except WorkerError as error:
        return _print_error(error, FAILED)


def for_each(names: Iterable[str], act: Callable[[str], None]) -> int:
    """Run `act` for every name, also after an error. Returns the exit code."""
    code = OK
    for name in names:
        try:
            act(name)
        except WorkerUnreachableError:
            raise
        except WorkerError as error:
            code = _print_error(error, FAILED)
    return code


def parse_duration(text: str) -> float:
    """Parse `90`, `90s`, `500ms`, `2m` or `1h` into seconds."""
    found = _DURATION.fullmatch(text.strip())
    if found is None:
        raise ConfigError(f"Invalid --wait {text}: use a duration such as 60s or 2m.")
    return float(found[1]) * _UNITS[found[2]]


def _access(connection: ConnectOptions) -> WorkerEndpoint:
    url = parse_worker_url(worker_url(connection.url))
    if connection.user is None:
        return WorkerEndpoint(url, seconds=connection.timeout)
    if ":" in connection.user:
        raise ConfigError(
            f"--user takes only a name, because command lines are visible to other users. "
            f"Set the password in {PASSWORD}."
        )
    password = os.environ.get(PASSWORD)
    if password is None:
        raise ConfigError(f"--user {connection.user} needs a password: set {PASSWORD}.")
    return WorkerEndpoint(url, connection.user, Secret(password), seconds=connection.timeout)


def _print_error(error: Exception, code: int) -> int:
    print_error(escape_control_characters(str(error)))
    return code
