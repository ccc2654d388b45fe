# SPDX-License-Identifier: Apache-2.0
"""Web pages of strangers in a browser that reaches us: they neither read nor change anything.

A page can have its own name lead to 127.0.0.1, and its browser takes our answers for its own. So
where only this machine is served, only this machine's names are answered. And a browser sends a
POST without a body for any page, without a question before it; but it says whose page it is. So
only pages of our own, and those that the file lists, may change anything. Programs say nothing of
pages and notice none of this.
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
    """By which names, beside those of loopback, ports may be asked that only this machine reaches.

    Ports that others reach are known by names that nobody could list.
    """

    names: frozenset[str] = frozenset()
    ports: frozenset[int] = frozenset()

    @classmethod
    def from_settings(cls, rest: RestSettings, bound: Iterable[tuple[str, int]]) -> Self:
        """From the file, and the addresses that are bound for it."""
        hosts = (one.host for one in (*rest.listeners, *(rest.admin_listeners or ())))
        names = map(_name, filter(None, (*hosts, rest.advertised_host)))
        return cls(frozenset(names), frozenset(port for host, port in bound if is_loopback(host)))

    def allows(self, host: str, server: tuple[str, int]) -> bool:
        """Whether an address of ours may be asked by this `Host`; HTTP/1.0 has none."""
        address, port = server
        name = _name(host)
        is_own = not name or name in self.names or is_loopback(name)
        return is_own or port not in self.ports or not is_loopback(address)


def rejection_reason(
    scope: Scope, headers: Headers, own: AllowedHosts, cross_origin: CorsPolicy | None
) -> str | None:
    """Why a request is not answered, with what to set if it should be; None if it is."""
    host, origin = headers.get("host", ""), headers.get("origin")
    server = scope.get("server")
    if server is not None and not own.allows(host, server):
        return (
            f"Only this machine is served here, and {loggable(host)} is none of the names it is "
            f"known "
            "by; rest.advertised.host.name in the file makes it one"
        )
    if origin is None or scope["method"] in _CHANGES_NOTHING:
        return None
    is_listed = cross_origin is not None and cross_origin.allows(origin)
    if is_listed or _is_own(origin, scope["scheme"], host):
        return None
    return (
        f"A page of {loggable(origin)} may not change anything here; access.control.allow.origin "
        f"in "
        "the file lists those that may"
    )


def _is_own(origin: str, scheme: str, host: str) -> bool:
    """Whether it is the address that was asked, perhaps with TLS by somebody before us."""
    return bool(host) and origin.lower() in (
        f"{scheme}://{host}".lower(),
        f"https://{host}".lower(),
    )


def _name(host: str) -> str:
    """Without a port."""
    try:
        return (urlsplit(f"//{host}").hostname or "").rstrip(".")
    except ValueError:  # brackets that are none
        return host
