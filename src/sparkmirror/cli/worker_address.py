# SPDX-License-Identifier: Apache-2.0
"""The URL of the REST API for `--url`, which may also be a properties file."""

from __future__ import annotations

from pathlib import Path

from sparkmirror.config.files.properties import read_properties
from sparkmirror.config.mirror_config import MirrorConfig
from sparkmirror.config.worker_config import WorkerConfig, is_worker_file
from sparkmirror.config.worker_settings import RestListener, RestSettings
from sparkmirror.errors import ConfigError
from sparkmirror.system.served_urls import published_url

_EVERYWHERE = ("", "0.0.0.0", "::")  # noqa: S104 - compared, not bound


def worker_url(url_or_file: str) -> str:
    """Return a URL unchanged; for a file the URL of the process on this machine that runs it.

    ConfigError if the file is invalid, or if its process cannot be found.
    """
    path = Path(url_or_file)
    if "://" in url_or_file or not path.is_file():
        return url_or_file
    published = published_url(path)
    if published is not None:
        return published
    file = read_properties(path)
    if is_worker_file(file):
        return _first(WorkerConfig(file).settings.rest)
    rest = MirrorConfig(file).rest
    if rest is None:
        raise ConfigError(f"{path} serves no REST API: its listeners are empty.")
    if rest.allows_any_port:
        raise ConfigError(
            f"No run of {path} was found on this machine, and the file has no listeners: start "
            "it, or pass its URL with --url."
        )
    return _first(rest.settings)


def _first(rest: RestSettings) -> str:
    found = rest.listeners[0]
    host = "localhost" if found.host in _EVERYWHERE else found.host
    return str(RestListener(found.scheme, host, found.port))
