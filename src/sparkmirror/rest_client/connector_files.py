# SPDX-License-Identifier: Apache-2.0
"""Connectors in JSON files, in the two shapes that Connect accepts.

    {"name": "m", "config": {"connector.class": ..., ...}, "initial_state": "PAUSED"}
    {"name": "m", "connector.class": ..., ...}

Booleans and numbers become strings, with the digits as written, as in Connect. A file can then be
compared with the stored configuration.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sparkmirror.config.files.tracked_files import read_bounded
from sparkmirror.errors import ConfigError

MAX_BYTES = 10 * 1024 * 1024

_INITIAL_STATES = ("RUNNING", "PAUSED", "STOPPED")
_PARTS = frozenset({"name", "config", "initial_state"})
_CLASS = "connector.class"


@dataclass(frozen=True, slots=True)
class ConnectorFile:
    """The connector of a file."""

    path: str
    name: str
    config: Mapping[str, str | None]  # its name included, as workers store it
    initial_state: str | None = None


def load_connector_files(paths: Sequence[Path]) -> list[ConnectorFile]:
    """Return the connectors of files and folders, in their order; ConfigError lists all errors."""
    found: list[ConnectorFile] = []
    errors: list[str] = []
    for path in _files(paths, errors):
        try:
            found.append(parse_connector_file(_read_text(path), str(path)))
        except ConfigError as error:
            errors.append(str(error))
    errors += _duplicate_names(found)
    if errors:
        raise ConfigError("\n".join(errors))
    return found


def parse_connector_file(text: str, path: str) -> ConnectorFile:
    """Parse the text of a file; ConfigError if it is invalid."""
    try:
        document = json.loads(
            text,
            parse_int=str,
            parse_float=str,
            parse_constant=str,
            object_pairs_hook=_reject_duplicate_keys,
        )
        json.dumps(document, ensure_ascii=False).encode()  # a lone surrogate cannot be sent
    except UnicodeEncodeError as error:
        raise ConfigError(
            f"{path} has half of a surrogate pair as a \\uXXXX escape: write both halves.",
            where=path,
        ) from error
    except (ValueError, RecursionError) as error:
        raise ConfigError(f"{path} is not valid JSON: {error}.", where=path) from error
    if not isinstance(document, dict):
        raise ConfigError(f"{path} is not a connector: write one JSON object.", where=path)
    is_nested = isinstance(document.get("config"), dict)
    if is_nested and (others := sorted(document.keys() - _PARTS)):
        raise ConfigError(
            f"{path} has '{others[0]}' outside of 'config': move it into 'config'.", where=path
        )
    config = _strings(document["config"] if is_nested else document, path)
    name = _name(document.get("name", config.get("name")), path)
    if (config.setdefault("name", name) or "").strip() != name:
        raise ConfigError(
            f"{path} has two names: '{name}', and '{config['name']}' in 'config'. Use one name.",
            where=path,
        )
    if not config.get(_CLASS):
        raise ConfigError(f"{path}: connector '{name}' has no '{_CLASS}'.", key=_CLASS, where=path)
    state = document.get("initial_state") if is_nested else None
    return ConnectorFile(path, name, {**config, "name": name}, _initial_state(state, path))


def _name(found: Any, path: str) -> str:
    name = found.strip() if isinstance(found, str) else ""
    if not name:
        raise ConfigError(f'{path} has no connector name: add "name".', key="name", where=path)
    return name


def _initial_state(found: Any, path: str) -> str | None:
    if found is None:
        return None
    state = str(found).upper()
    if state not in _INITIAL_STATES:
        raise ConfigError(
            f"{path}: 'initial_state' must be one of {', '.join(_INITIAL_STATES)}, not '{found}'.",
            where=path,
        )
    return state


def _strings(config: Mapping[str, Any], path: str) -> dict[str, str | None]:
    strings: dict[str, str | None] = {}
    for key, value in config.items():
        match value:
            case bool():
                strings[key] = str(value).lower()
            case str() | None:
                strings[key] = value
            case _:
                raise ConfigError(
                    f"{path}: the value of '{key}' is an object or a list; Connect accepts "
                    "strings, numbers and booleans.",
                    key=key,
                    where=path,
                )
    return strings


def _reject_duplicate_keys(pairs: Iterable[tuple[str, Any]]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for key, value in pairs:
        if key in found:
            raise ValueError(f"duplicate key '{key}'")
        found[key] = value
    return found


def _files(paths: Sequence[Path], errors: list[str]) -> list[Path]:
    files: list[Path] = []
    for path in paths:
        if not path.is_dir():
            files.append(path)
            continue
        inside = sorted(path.glob("*.json"))
        if not inside:
            errors.append(f"Folder {path} has no .json file.")
        files += inside
    return files


def _read_text(path: Path) -> str:
    try:
        content = read_bounded(path, MAX_BYTES)
    except OSError as error:
        raise ConfigError(f"{path} cannot be read: {error.strerror}.", where=str(path)) from error
    if content is None:
        raise ConfigError(f"{path} is larger than {MAX_BYTES:,} bytes.", where=str(path))
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise ConfigError(f"{path} is not encoded in UTF-8.", where=str(path)) from error


def _duplicate_names(found: Iterable[ConnectorFile]) -> list[str]:
    first: dict[str, str] = {}
    return [
        f"Connector '{one.name}' is in {first[one.name]} and in {one.path}: remove one of them."
        for one in found
        if first.setdefault(one.name, one.path) != one.path
    ]
