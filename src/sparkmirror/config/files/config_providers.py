# SPDX-License-Identifier: Apache-2.0
"""Config providers: `${file:/path:key}`, `${directory:/dir:name}` and `${env:NAME}`.

References are resolved when settings are made, not when the file is read. In a file the three
providers exist under these names without any `config.providers` line; a line that declares one of
the names, with its `allowed.paths` or `allowlist.pattern`, takes its place. What comes over REST is
not the operator's: there only declared providers count.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

from sparkmirror.config.files.properties import MAX_BYTES, PropertiesFile, Property, read_properties
from sparkmirror.config.files.tracked_files import read_bounded, record_file
from sparkmirror.config.keys.value_types import InvalidValueError, parse_list
from sparkmirror.errors import ConfigError

_CLASSES = {
    f"org.apache.kafka.common.config.provider.{name}": kind
    for name, kind in (
        ("FileConfigProvider", "file"),
        ("DirectoryConfigProvider", "directory"),
        ("EnvVarConfigProvider", "env"),
    )
}
BUILT_IN = ("file", "directory", "env")  # the names that need no line


@dataclass(frozen=True, slots=True)
class ResolvedText:
    """A text after resolution; `found` is what came through providers, piece by piece.

    `is_literal`: something in it looks like a reference and stands for itself.
    """

    text: str = field(repr=False)
    provided_parts: tuple[str, ...] = field(default=(), repr=False)
    is_literal: bool = False

    @property
    def from_provider(self) -> bool:
        """Whether any part of it is not the file's own."""
        return bool(self.provided_parts)


@dataclass(frozen=True, slots=True)
class Reference:
    """`${provider:[path:]key}` as it stands in a text; without a colon it names no provider."""

    whole: str

    @property
    def parts(self) -> tuple[str, str, str] | None:
        """Provider, path and key; a key may hold colons."""
        name, has_key, rest = self.whole[2:-1].partition(":")
        path, has_path, key = rest.partition(":")
        if not has_key:
            return None
        return (name, path, key) if has_path else (name, "", rest)


def split_references(text: str) -> Iterator[str | Reference]:
    """The text in pieces: what is between references, and the references."""
    at = 0
    while (start := text.find("${", at)) >= 0 and (end := text.find("}", start)) >= 0:
        yield text[at:start]
        yield Reference(text[start : end + 1])
        at = end + 1
    yield text[at:]


class ConfigProvider(Protocol):
    """Looks one reference up; LookupError says, as the end of a sentence, why there is nothing."""

    def get(self, path: str, key: str) -> str:
        """The value of `key` at `path`."""
        ...


@dataclass(frozen=True, slots=True)
class _AllowedPaths:
    """The directories a provider may read; empty means all."""

    paths: tuple[Path, ...] = ()

    @classmethod
    def parse(cls, text: str) -> _AllowedPaths:
        items = [Path(item) for item in parse_list(text)[0]]
        for item in items:
            if not item.is_absolute() or not item.exists():
                raise InvalidValueError("must list absolute paths that exist", str(item))
        return cls(tuple(item.resolve() for item in items))

    def check(self, path: Path) -> None:
        real = path.resolve()
        if self.paths and not any(real.is_relative_to(allowed) for allowed in self.paths):
            raise LookupError(f"{path} lies outside the provider's allowed.paths")


@dataclass(frozen=True, slots=True)
class FileConfigProvider:
    """Keys of properties files."""

    allowed: _AllowedPaths = _AllowedPaths()

    def get(self, path: str, key: str) -> str:
        """The value of `key` in the properties file at `path`."""
        if not path:
            raise LookupError("it names no file; write ${file:/path/of/file:key}")
        self.allowed.check(Path(path))
        record_file(Path(path))  # also one that will come later
        if Path(path).exists() and not Path(path).is_file():
            raise LookupError(f"{path} is not a file")
        try:
            entry = read_properties(Path(path)).entries.get(key)
        except ConfigError as error:
            raise LookupError(str(error)) from error
        if entry is None:
            raise LookupError(f"{path} has no key {key!r}")
        return entry.text


@dataclass(frozen=True, slots=True)
class DirectoryConfigProvider:
    """Files of a directory, each holding one value, as Kubernetes mounts secrets."""

    allowed: _AllowedPaths = _AllowedPaths()

    def get(self, path: str, key: str) -> str:
        """The whole content of the file `key` in the directory `path`."""
        if not path:
            raise LookupError("it names no directory; write ${directory:/path:file}")
        file = Path(path, key)
        self.allowed.check(file)
        record_file(file)
        if not Path(path).is_dir():
            raise LookupError(f"{path} is not a directory")
        if file.parent != Path(path) or not file.is_file():
            raise LookupError(f"{path} holds no file {key!r}")
        try:
            content = read_bounded(file, MAX_BYTES)
            text = None if content is None else content.decode()
        except (OSError, UnicodeDecodeError) as error:
            raise LookupError(f"{file} cannot be read ({error})") from error
        if text is None:
            raise LookupError(f"{file} is larger than {MAX_BYTES >> 20} MiB")
        return text


@dataclass(frozen=True, slots=True)
class EnvVarConfigProvider:
    """Environment variables."""

    allowed: re.Pattern[str] = re.compile(r".*")

    def get(self, path: str, key: str) -> str:
        """The variable `key`; a path makes no sense here."""
        if path:
            raise LookupError("an environment variable has no path; write ${env:NAME}")
        if not self.allowed.fullmatch(key):
            raise LookupError(f"the provider's allowlist.pattern does not allow {key}")
        if key not in os.environ:
            raise LookupError(f"the environment variable {key} is not set")
        return os.environ[key]


class ReferenceResolver:
    """All providers of a file by name."""

    def __init__(self, declared: Mapping[str, ConfigProvider]) -> None:
        self._declared = dict(declared)
        self._known: dict[str, ConfigProvider] = {
            "file": FileConfigProvider(),
            "directory": DirectoryConfigProvider(),
            "env": EnvVarConfigProvider(),
            **declared,
        }

    def resolve(
        self, text: str, *, is_secret: bool = False, from_request: bool = False
    ) -> ResolvedText:
        """`text` with every reference replaced; LookupError names the one that leads nowhere.

        In a secret, what names no provider stands for itself, as in Java: it may be part of a
        password.
        """
        known = self._declared if from_request else self._known
        found: list[str] = []
        pieces: list[str] = []
        is_literal = False
        for piece in split_references(text):
            if isinstance(piece, str):
                pieces.append(piece)
            elif is_secret and _names_no_provider(piece, known):
                is_literal = True
                pieces.append(piece.whole)
            else:
                found.append(_look_up(piece, known))
                pieces.append(found[-1])
        return ResolvedText("".join(pieces), tuple(found), is_literal)


def _names_no_provider(reference: Reference, known: Mapping[str, ConfigProvider]) -> bool:
    """Whether it may be meant as it stands: no provider here has the name, nor anywhere."""
    return reference.parts is None or reference.parts[0] not in (*known, *BUILT_IN)


def _look_up(reference: Reference, known: Mapping[str, ConfigProvider]) -> str:
    if reference.parts is None or reference.parts[0] not in known:
        raise LookupError(f"{reference.whole} leads nowhere: {_unknown(reference, known)}")
    name, path, key = reference.parts
    try:
        return known[name].get(path, key)
    except LookupError as error:
        reason = str(error.args[0]).rstrip(".")
        raise LookupError(f"{reference.whole} leads nowhere: {reason}") from error
    except (OSError, ValueError) as error:  # a name that no file and no variable can have
        reason = getattr(error, "strerror", None) or str(error)
        raise LookupError(f"{reference.whole} leads nowhere: {reason}") from error


def _unknown(reference: Reference, known: Mapping[str, ConfigProvider]) -> str:
    """Why there is no provider for a reference, and what to do."""
    if reference.parts is None:
        bare = reference.whole[2:-1]
        return f"it names no config provider; an environment variable is written ${{env:{bare}}}"
    name = reference.parts[0]
    if name in BUILT_IN:
        java = next(java for java, kind in _CLASSES.items() if kind == name)
        limit = "allowlist.pattern" if name == "env" else "allowed.paths"
        return (
            "over REST only those config providers count that the file of this process declares: "
            f"write config.providers={name} there, config.providers.{name}.class={java} and, as "
            f"its limit, config.providers.{name}.param.{limit}"
        )
    there_are = f"there are {', '.join(sorted(known))}" if known else "none is declared"
    return f"there is no config provider {name!r} ({there_are})"


def create_resolver(raw: Mapping[str, Property]) -> tuple[ReferenceResolver, list[ConfigError]]:
    """The providers that a file declares, with what is wrong about the declarations."""
    providers: dict[str, ConfigProvider] = {}
    errors: list[ConfigError] = []
    declared = raw.get("config.providers")
    names: tuple[str, ...] = ()
    if declared is not None:
        try:
            names = parse_list(declared.text)[0]
        except InvalidValueError as error:
            errors.append(_about(declared, str(error)))
    # A limit on a built-in name counts even if the name is not listed: better safe than MM2's way.
    limited = (n for n in BUILT_IN if any(k.startswith(f"config.providers.{n}.") for k in raw))
    for name in dict.fromkeys((*names, *limited)):
        prefix = f"config.providers.{name}."
        class_entry = raw.get(f"{prefix}class")
        kind = _CLASSES.get(class_entry.text.strip()) if class_entry else name
        if kind not in _CLASSES.values():
            blame = class_entry or declared
            if blame is not None:
                errors.append(_about(blame, f"names no known provider: write one of {_known()}"))
            continue
        params = {
            key.removeprefix(f"{prefix}param."): entry
            for key, entry in raw.items()
            if key.startswith(f"{prefix}param.")
        }
        try:
            providers[name] = _make(str(kind), params)
        except InvalidValueError as error:
            entry = params.get("allowed.paths") or params["allowlist.pattern"]
            errors.append(_about(entry, str(error)))
    return ReferenceResolver(providers), errors


def undeclared_provider_warning(file: PropertiesFile, key: str) -> str:
    """A sentence about `config.providers.<name>.…` of a name that no line declares; else empty."""
    name = key.removeprefix("config.providers.").partition(".")[0]
    listed = file.entries.get("config.providers")
    names = [item.strip() for item in listed.text.split(",")] if listed else []
    if name in (*names, *BUILT_IN):
        return ""
    return f"{key} does nothing: the line config.providers does not name {name}."


def _make(kind: str, params: Mapping[str, Property]) -> ConfigProvider:
    if kind == "env":
        pattern = params.get("allowlist.pattern")
        try:
            return EnvVarConfigProvider(re.compile(pattern.text.strip() if pattern else ".*"))
        except (re.error, OverflowError, RecursionError) as error:
            raise InvalidValueError(f"must be a regular expression ({error})") from error
    paths = params.get("allowed.paths")
    allowed = _AllowedPaths.parse(paths.text) if paths else _AllowedPaths()
    return FileConfigProvider(allowed) if kind == "file" else DirectoryConfigProvider(allowed)


def _known() -> str:
    return ", ".join(_CLASSES)


def _about(entry: Property, sentence: str) -> ConfigError:
    return ConfigError(
        f"line {entry.line}: {entry.key} {sentence}.", key=entry.key, where=f"line {entry.line}"
    )
