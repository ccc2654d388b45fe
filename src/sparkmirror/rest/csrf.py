# SPDX-License-Identifier: Apache-2.0
"""Protects against DNS rebinding and cross-site requests from web pages.

DNS rebinding: a page can make its own host name resolve to 127.0.0.1 and read the responses. So a
port that is bound to loopback accepts only names of this machine in `Host`.

Cross-site requests: for any page, a browser sends a POST without a body and without a preflight,
with the page in `Origin`. So only the worker's own origin and those in the file may change
anything. Clients other than browsers send no `Origin` and are not affected.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Self
from urllib.parse import urlsplit

from starlette.datastructures import Headers
from starlette.types import Scope

from sparkmirror.config.worker_settings import RestSettings, is_loopback
from sparkmirror.rest.cors import CorsPolicy
from sparkmirror.rest.throttled_log import loggable

_CHANGES_NOTHING = ("GET", "HEAD", "OPTIONS")


@dataclass(frozen=True, slots=True)
class AllowedHosts:
    """The `Host` names that ports on loopback accept, besides those of loopback.

    Ports that other machines reach accept any name: a proxy or DNS may define it.
    """

    names: frozenset[str] = frozenset()
    ports: frozenset[int] = frozenset()

    @classmethod
    def from_settings(cls, rest: RestSettings, bound: Iterable[tuple[str, int]]) -> Self:
        hosts = (one.host for one in (*rest.listeners, *(rest.admin_listeners or ())))
        names = map(_name, filter(None, (*hosts, rest.advertised_host)))
        return cls(frozenset(names), frozenset(port for host, port in bound if is_loopback(host)))

    def allows(self, host: str, server: tuple[str, int]) -> bool:
        """Whether a bound address accepts this `Host`; HTTP/1.0 sends none."""
        address, port = server
        name = _name(host)
        is_own = not name or name in self.names or is_loopback(name)
        return is_own or port not in self.ports or not is_loopback(address)


def rejection_reason(
    scope: Scope, headers: Headers, own: AllowedHosts, cross_origin: CorsPolicy | None
) -> str | None:
    """Return why a request is rejected, and the setting that allows it; None if it is safe."""
    host, origin = headers.get("host", ""), headers.get("origin")
    server = scope.get("server")
    if server is not None and not own.allows(host, server):
        return (
            f"This port serves only this machine, and {loggable(host)} is not one of its names; "
            "set rest.advertised.host.name in the file to allow it"
        )
    if origin is None or scope["method"] in _CHANGES_NOTHING:
        return None
    is_listed = cross_origin is not None and cross_origin.allows(origin)
    if is_listed or _is_own(origin, scope["scheme"], host):
        return None
    return (
        f"A page of {loggable(origin)} may not change anything here; add it to "
        "access.control.allow.origin in the file to allow it"
    )


def _is_own(origin: str, scheme: str, host: str) -> bool:
    """Whether the origin is the requested address, perhaps behind a proxy that terminates TLS."""
    return bool(host) and origin.lower() in (
        f"{scheme}://{host}".lower(),
        f"https://{host}".lower(),
    )


def _name(host: str) -> str:
    """Return the host without its port."""
    try:
        return (urlsplit(f"//{host}").hostname or "").rstrip(".")
    except ValueError:  # unbalanced brackets
        return host
