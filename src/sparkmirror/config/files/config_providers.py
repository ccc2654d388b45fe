# SPDX-License-Identifier: Apache-2.0
"""Config providers: `${file:/path:key}`, `${directory:/dir:name}` and `${env:NAME}`.

References are resolved when settings are read, not when the file is parsed. In a file the three
providers are available under these names without a `config.providers` line. A line that declares
one of the names, with `allowed.paths` or `allowlist.pattern`, replaces it. Configurations that come
over REST may use declared providers only.
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
from sparkmirror.quantities import format_bytes

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
    """A text with its references resolved; `provided_parts` are the values of the references.

    `is_literal`: a part of the text looks like a reference and is kept as it is.
    """

    text: str = field(repr=False)
    provided_parts: tuple[str, ...] = field(default=(), repr=False)
    is_literal: bool = False

    @property
    def from_provider(self) -> bool:
        return bool(self.provided_parts)


@dataclass(frozen=True, slots=True)
class Reference:
    """`${provider:[path:]key}` in a text; without a colon it names no provider."""

    whole: str

    @property
    def parts(self) -> tuple[str, str, str] | None:
        """Provider, path and key; a key may contain colons."""
        name, has_key, rest = self.whole[2:-1].partition(":")
        path, has_path, key = rest.partition(":")
        if not has_key:
            return None
        return (name, path, key) if has_path else (name, "", rest)


def split_references(text: str) -> Iterator[str | Reference]:
    """Split a text into references and the text between them."""
    at = 0
    while (start := text.find("${", at)) >= 0 and (end := text.find("}", start)) >= 0:
        yield text[at:start]
        yield Reference(text[start : end + 1])
        at = end + 1
    yield text[at:]


class ConfigProvider(Protocol):
    """Looks up a reference. Raises LookupError with the reason, as the end of a sentence."""

    def get(self, path: str, key: str) -> str: ...


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
            raise LookupError(f"{path} is outside the provider's allowed.paths")


@dataclass(frozen=True, slots=True)
class FileConfigProvider:
    """Keys of properties files."""

    allowed: _AllowedPaths = _AllowedPaths()

    def get(self, path: str, key: str) -> str:
        """Return the value of `key` in the properties file at `path`."""
        if not path:
            raise LookupError("it names no file; write ${file:/path/of/file:key}")
        self.allowed.check(Path(path))
        record_file(Path(path))  # even if it does not exist yet
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
    """Files of a directory, one value in each, as Kubernetes mounts secrets."""

    allowed: _AllowedPaths = _AllowedPaths()

    def get(self, path: str, key: str) -> str:
        """Return the content of the file `key` in the directory `path`."""
        if not path:
            raise LookupError("it names no directory; write ${directory:/path:file}")
        file = Path(path, key)
        self.allowed.check(file)
        record_file(file)
        if not Path(path).is_dir():
            raise LookupError(f"{path} is not a directory")
        if file.parent != Path(path) or not file.is_file():
            raise LookupError(f"{path} has no file {key!r}")
        try:
            content = read_bounded(file, MAX_BYTES)
            text = None if content is None else content.decode()
        except (OSError, UnicodeDecodeError) as error:
            raise LookupError(f"{file} cannot be read ({error})") from error
        if text is None:
            raise LookupError(f"{file} is larger than {format_bytes(MAX_BYTES)}")
        return text


@dataclass(frozen=True, slots=True)
class EnvVarConfigProvider:
    """Environment variables."""

    allowed: re.Pattern[str] = re.compile(r".*")

    def get(self, path: str, key: str) -> str:
        """Return the variable `key`; `path` must be empty."""
        if path:
            raise LookupError("an environment variable has no path; write ${env:NAME}")
        if not self.allowed.fullmatch(key):
            raise LookupError(f"the provider's allowlist.pattern does not allow {key}")
        if key not in os.environ:
            raise LookupError(f"the environment variable {key} is not set")
        return os.environ[key]


class ReferenceResolver:
    """Resolves references with the built-in providers and those that a file declares."""

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
        """Replace every reference. Raises LookupError that names an invalid one.

        In a secret, a reference to an unknown provider is kept as it is, as in Java: it may be part
        of a password.
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
    """Whether the text can be literal: no known or built-in provider has the name."""
    return reference.parts is None or reference.parts[0] not in (*known, *BUILT_IN)


def _look_up(reference: Reference, known: Mapping[str, ConfigProvider]) -> str:
    if reference.parts is None or reference.parts[0] not in known:
        raise LookupError(
            f"{reference.whole} cannot be resolved: {_unknown_provider(reference, known)}"
        )
    name, path, key = reference.parts
    try:
        return known[name].get(path, key)
    except LookupError as error:
        reason = str(error.args[0]).rstrip(".")
        raise LookupError(f"{reference.whole} cannot be resolved: {reason}") from error
    except (OSError, ValueError) as error:  # an invalid name of a file or variable
        reason = getattr(error, "strerror", None) or str(error)
        raise LookupError(f"{reference.whole} cannot be resolved: {reason}") from error


def _unknown_provider(reference: Reference, known: Mapping[str, ConfigProvider]) -> str:
    """Return why a reference has no provider, and the remedy."""
    if reference.parts is None:
        bare = reference.whole[2:-1]
        return f"it names no config provider; an environment variable is written ${{env:{bare}}}"
    name = reference.parts[0]
    if name in BUILT_IN:
        java = next(java for java, kind in _CLASSES.items() if kind == name)
        limit = "allowlist.pattern" if name == "env" else "allowed.paths"
        return (
            "over REST only config providers that the file of this process declares may be used: "
            f"set config.providers={name} there, config.providers.{name}.class={java} and, as "
            f"its limit, config.providers.{name}.param.{limit}"
        )
    there_are = f"there are {', '.join(sorted(known))}" if known else "none is declared"
    return f"there is no config provider {name!r} ({there_are})"


def create_resolver(raw: Mapping[str, Property]) -> tuple[ReferenceResolver, list[ConfigError]]:
    """Return a resolver with the providers that a file declares, and errors of declarations."""
    providers: dict[str, ConfigProvider] = {}
    errors: list[ConfigError] = []
    declared = raw.get("config.providers")
    names: tuple[str, ...] = ()
    if declared is not None:
        try:
            names = parse_list(declared.text)[0]
        except InvalidValueError as error:
            errors.append(_line_error(declared, str(error)))
    # A limit on a built-in provider applies even if config.providers does not list it. MM2 ignores
    # such a limit.
    limited = (n for n in BUILT_IN if any(k.startswith(f"config.providers.{n}.") for k in raw))
    for name in dict.fromkeys((*names, *limited)):
        prefix = f"config.providers.{name}."
        class_entry = raw.get(f"{prefix}class")
        kind = _CLASSES.get(class_entry.text.strip()) if class_entry else name
        if kind not in _CLASSES.values():
            entry = class_entry or declared
            if entry is not None:
                known = ", ".join(_CLASSES)
                errors.append(_line_error(entry, f"names no known provider: use one of {known}"))
            continue
        params = {
            key.removeprefix(f"{prefix}param."): entry
            for key, entry in raw.items()
            if key.startswith(f"{prefix}param.")
        }
        try:
            providers[name] = _make(str(kind), params)
        except InvalidValueError as error:
            limit = params.get("allowed.paths") or params["allowlist.pattern"]
            errors.append(_line_error(limit, str(error)))
    return ReferenceResolver(providers), errors


def undeclared_provider_warning(file: PropertiesFile, key: str) -> str:
    """Return a warning if `config.providers.<name>.…` has an undeclared name; else empty."""
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


def _line_error(entry: Property, sentence: str) -> ConfigError:
    return ConfigError(
        f"line {entry.line}: {entry.key} {sentence}.", key=entry.key, where=f"line {entry.line}"
    )
