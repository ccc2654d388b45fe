# SPDX-License-Identifier: Apache-2.0
"""Checks whether Spark encrypts what it sends to executors, including control channel tokens.

A client with an epoch's token that reaches the control port gets what a task gets: the credentials
for Kafka. Spark encrypts nothing by default.
"""

from __future__ import annotations

from collections.abc import Mapping

from sparkmirror.security.settings import SecurityProtocol
from sparkmirror.task.messages import TaskSettings

_AUTHENTICATES = "spark.authenticate"
_ENCRYPTS = "spark.network.crypto.enabled"
_TLS = "spark.ssl.rpc.enabled"


def encryption_warning(options: Mapping[str, str], settings: TaskSettings) -> str:
    """Return a warning if the token crosses a network unencrypted; else an empty string."""
    clients = (settings.consumer, settings.producer)
    if all(one.security.protocol is SecurityProtocol.PLAINTEXT for one in clients):
        return ""  # the token gives access to no credentials
    if options.get("spark.master", "local").startswith("local"):
        return ""
    if _is_on(options, _TLS) or (_is_on(options, _AUTHENTICATES) and _is_on(options, _ENCRYPTS)):
        return ""
    return (
        "Spark does not encrypt what it sends to executors. An eavesdropper can use the epoch's "
        "token to request this flow's credentials from the control port. "
        f"Set {_AUTHENTICATES}=true and {_ENCRYPTS}=true, or {_TLS}=true with its keys."
    )


def _is_on(options: Mapping[str, str], name: str) -> bool:
    return options.get(name, "").strip().lower() == "true"
