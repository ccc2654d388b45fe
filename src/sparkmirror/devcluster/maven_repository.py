# SPDX-License-Identifier: Apache-2.0
"""How this machine reaches Maven Central: the settings other tools already use, read once.

A mirror comes from DEFAULT_ARTIFACT_REPOSITORY (Spark's variable) or from Maven's settings.xml, a
proxy from HTTPS_PROXY/HTTP_PROXY/NO_PROXY. Without any of them Ivy's own default address is used.
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
    """A mirror's root address (None: Ivy's default) and the JVM options that lead to it."""

    root: str | None
    java_options: tuple[str, ...]


def maven_repository() -> MavenRepository:
    """What the environment and Maven's settings say about reaching Maven Central."""
    root = os.environ.get("DEFAULT_ARTIFACT_REPOSITORY") or _mirror(_settings_file())
    return MavenRepository(root=root, java_options=_proxy_options())


def _settings_file() -> Path:
    return Path.home() / ".m2" / "settings.xml"


def _mirror(settings: Path) -> str | None:
    """The url of the mirror that stands for "central" in a settings.xml, if there is one."""
    if not settings.is_file():
        return None
    try:
        # The file is the user's own and Maven trusts it as well.
        tree = ET.parse(settings)  # noqa: S314
    except (OSError, ET.ParseError) as error:
        raise SetupError(
            f"{settings} cannot be read ({error}).",
            remedy="Repair it, or set DEFAULT_ARTIFACT_REPOSITORY to your mirror of Maven Central.",
        ) from error
    for mirror in tree.iterfind("{*}mirrors/{*}mirror"):
        mirror_of = [part.strip() for part in mirror.findtext("{*}mirrorOf", "").split(",")]
        stands_for_central = {"*", "external:*", "central"}.intersection(mirror_of)
        url = mirror.findtext("{*}url", "").strip()
        if stands_for_central and "!central" not in mirror_of and url:
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
        # A bare suffix in NO_PROXY covers its subdomains; Java wants the star written out.
        patterns = [f"*{entry}" if entry.startswith(".") else entry for entry in direct]
        options.append(f"-Dhttp.nonProxyHosts={'|'.join(patterns)}")
    return tuple(options)
