# SPDX-License-Identifier: Apache-2.0
"""How to reach Maven Central: the settings that other tools already use.

A mirror comes from DEFAULT_ARTIFACT_REPOSITORY (Spark's variable) or from Maven's settings.xml, a
proxy from HTTPS_PROXY/HTTP_PROXY/NO_PROXY. Otherwise Ivy uses its default URL.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import unquote, urlsplit
from urllib.request import getproxies_environment
from xml.etree import ElementTree as ET

from sparkmirror.errors import SetupError

_DEFAULT_PROXY_PORTS = {"http": 80, "https": 443}


@dataclass(frozen=True, slots=True)
class MavenRepository:
    """A mirror's root URL (None: Ivy's default) and JVM options for proxies."""

    root: str | None
    java_options: tuple[str, ...]


def maven_repository() -> MavenRepository:
    """Read the environment and Maven's settings."""
    root = os.environ.get("DEFAULT_ARTIFACT_REPOSITORY") or _mirror(_settings_file())
    return MavenRepository(root=root, java_options=_proxy_options())


def _settings_file() -> Path:
    return Path.home() / ".m2" / "settings.xml"


def _mirror(settings: Path) -> str | None:
    """Return the URL of the mirror of "central" in a settings.xml, if any."""
    if not settings.is_file():
        return None
    try:
        # The user's own file; Maven trusts it as well.
        tree = ET.parse(settings)  # noqa: S314
    except (OSError, ET.ParseError) as error:
        raise SetupError(
            f"Cannot read {settings} ({error}).",
            remedy="Correct it, or set DEFAULT_ARTIFACT_REPOSITORY to a mirror of Maven Central.",
        ) from error
    for mirror in tree.iterfind("{*}mirrors/{*}mirror"):
        mirror_of = [part.strip() for part in mirror.findtext("{*}mirrorOf", "").split(",")]
        is_mirror_of_central = {"*", "external:*", "central"}.intersection(mirror_of)
        url = mirror.findtext("{*}url", "").strip()
        if is_mirror_of_central and "!central" not in mirror_of and url:
            return url
    return None


def _proxy_options() -> tuple[str, ...]:
    proxies = getproxies_environment()
    options: list[str] = []
    for scheme in ("http", "https"):
        if scheme not in proxies:
            continue
        address = urlsplit(proxies[scheme] if "://" in proxies[scheme] else f"//{proxies[scheme]}")
        if not address.hostname:
            continue
        port = address.port or _DEFAULT_PROXY_PORTS[scheme]
        options += [f"-D{scheme}.proxyHost={address.hostname}", f"-D{scheme}.proxyPort={port}"]
        if address.username:
            options.append(f"-D{scheme}.proxyUser={unquote(address.username)}")
    direct = [entry.strip() for entry in proxies.get("no", "").split(",") if entry.strip()]
    if options and direct:
        # A bare suffix in NO_PROXY covers its subdomains; Java needs an explicit star.
        patterns = [f"*{entry}" if entry.startswith(".") else entry for entry in direct]
        options.append(f"-Dhttp.nonProxyHosts={'|'.join(patterns)}")
    return tuple(options)
