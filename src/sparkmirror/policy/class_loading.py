# SPDX-License-Identifier: Apache-2.0
"""Imports classes by dotted name, subject to an allowlist.

Naming a class runs code: its module is imported and the class is called. The author of a mirror's
file may do that anyway. A connector's configuration arrives over REST or from a topic, so a
worker's file lists what connectors may name (`connector.python.allowlist`).
"""

from __future__ import annotations

import difflib
import importlib
from collections.abc import Callable
from dataclasses import dataclass
from typing import cast

from sparkmirror.errors import ConfigError

ALLOWLIST_KEY = "connector.python.allowlist"

_JAVA_PACKAGES = ("org.apache.", "com.", "io.", "net.", "java.")


@dataclass(frozen=True, slots=True)
class ClassAllowlist:
    """Modules, packages and classes that connectors may name."""

    items: tuple[str, ...] = ()

    def may_import(self, name: str) -> bool:
        """Whether the class, or a module or package that contains it, is listed."""
        return any(_is_below(name, item) for item in self.items)

    def may_call(self, name: str, found: object) -> bool:
        """Whether the class is defined in a listed module, not only imported there."""
        if not isinstance(found, type):
            return False
        return name in self.items or any(_is_below(found.__module__, item) for item in self.items)


def is_dotted(name: str) -> bool:
    """Whether this can be the name of a module or class."""
    return all(part.isidentifier() for part in name.split("."))


def instantiate(
    name: str, key: str, built_in: tuple[str, ...], allowed: ClassAllowlist | None = None
) -> object:
    """Create an object of the class that `key` names; `allowed` is None if any class may be."""
    known = " or ".join(built_in)
    if "." not in name or not is_dotted(name):
        raise ConfigError(
            f"{key}={name} is not a dotted path: use package.module.ClassName, or "
            f"one of MM2's classes: {known}.{_nearest(name, built_in)}",
            key=key,
        )
    if allowed is not None and not allowed.may_import(name):
        java = "Java classes cannot be loaded, and " if _is_java(name) else ""
        raise ConfigError(
            f"{key}={name}: {java}it is not among the Python classes that connectors may name. "
            f"Use {known}, or set {ALLOWLIST_KEY}={name} in the file of every worker."
            f"{_nearest(name, built_in)}",
            key=key,
        )
    found = _import_class(name, key, built_in)
    if allowed is not None and not allowed.may_call(name, found):
        raise ConfigError(
            f"{key}={name} is not defined in a module that {ALLOWLIST_KEY} lists "
            f"({', '.join(allowed.items)}): name a class where it is defined.",
            key=key,
        )
    try:
        return cast("Callable[[], object]", found)()
    except _ANY as error:
        raise ConfigError(
            f"{key}={name} cannot be created without arguments ({_format_error(error)}): read "
            "the options in configure(options).",
            key=key,
        ) from error


def _import_class(name: str, key: str, built_in: tuple[str, ...]) -> object:
    module_name, _, class_name = name.rpartition(".")
    try:
        return getattr(importlib.import_module(module_name), class_name)
    except _ANY as error:
        if _is_java(name):
            remedy = (
                f"Java classes cannot be loaded: use {' or '.join(built_in)}, or the dotted path "
                "of an equivalent Python class (package.module.ClassName)"
            )
        elif isinstance(error, (ImportError, AttributeError)):
            remedy = "use the dotted path of a class on the Python path (package.module.ClassName)"
        else:
            remedy = f"correct the import of {module_name}"
        raise ConfigError(
            f"{key}={name} cannot be loaded ({_format_error(error)}): {remedy}."
            f"{_nearest(name, built_in)}",
            key=key,
        ) from error


def _nearest(name: str, built_in: tuple[str, ...]) -> str:
    """Name the built-in class whose class name is most similar, in whatever package."""
    by_class = {one.rpartition(".")[2]: one for one in built_in}
    close = difflib.get_close_matches(name.rpartition(".")[2], by_class, n=1, cutoff=0.65)
    return f" Did you mean {by_class[close[0]]}?" if close else ""


# Users' code: a module that calls sys.exit must not end this process.
_ANY = (Exception, SystemExit)


def _format_error(error: BaseException) -> str:
    return f"{type(error).__name__}: {error}"


def _is_java(name: str) -> bool:
    return name.startswith(_JAVA_PACKAGES)


def _is_below(name: str, item: str) -> bool:
    return name == item or name.startswith(f"{item}.")
