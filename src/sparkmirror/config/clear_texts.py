# SPDX-License-Identifier: Apache-2.0
"""Warnings about logins that anybody on the way can read: they are allowed, as in Java."""

from __future__ import annotations

from urllib.parse import urlsplit

from sparkmirror.config.loopback import is_loopback
from sparkmirror.config.oauth_settings import ENDPOINT, ENDPOINT_KEYS
from sparkmirror.config.reading import Reader, Report
from sparkmirror.config.security_texts import PROTOCOL
from sparkmirror.security.settings import Mechanism, Protocol, Security

_READABLE = {Mechanism.PLAIN: "password", Mechanism.OAUTHBEARER: "token"}


def remark_clear_texts(security: Security, reader: Reader, report: Report) -> None:
    """Say what crosses the network as it is; not of what stays on this machine."""
    sasl = security.sasl
    if sasl is None:
        return
    what = _READABLE.get(sasl.mechanism)
    servers = (one.rpartition(":")[0] for one in reader.strings("bootstrap.servers"))
    if (
        what
        and security.protocol is Protocol.SASL_PLAINTEXT
        and not all(is_loopback(one.rpartition("/")[2]) for one in servers)
    ):
        origin = reader.origin(PROTOCOL)
        report.warn(
            origin,
            f"{origin.key} is SASL_PLAINTEXT: with {sasl.mechanism.value} the {what} goes to "
            "brokers unencrypted, for anybody on the way to read. Write SASL_SSL.",
        )
    if sasl.oauth is not None and sasl.oauth.token is None:
        parts = urlsplit(sasl.oauth.endpoint)
        if parts.scheme.lower() == "http" and not is_loopback(parts.hostname or ""):
            origin = reader.origin(next(filter(reader.is_given, ENDPOINT_KEYS), ENDPOINT))
            report.warn(
                origin,
                f"{origin.key}: the client's secret and its tokens go to and from the token "
                "endpoint unencrypted, for anybody on the way to read. Write https.",
            )
