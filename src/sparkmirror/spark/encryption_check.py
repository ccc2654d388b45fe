# SPDX-License-Identifier: Apache-2.0
"""Whether others can read what Spark carries to executors: a token of the control channel, too.

Whoever has an epoch's token, and reaches the control port, is given what a task is given: the keys
and passwords with which Kafka is reached. Spark encrypts nothing unless it is told to.
"""

from __future__ import annotations

from collections.abc import Mapping

from sparkmirror.security.settings import SecurityProtocol
from sparkmirror.task.messages import TaskSettings

_AUTHENTICATES = "spark.authenticate"
_ENCRYPTS = "spark.network.crypto.enabled"
_TLS = "spark.ssl.rpc.enabled"


def encryption_warning(options: Mapping[str, str], settings: TaskSettings) -> str:
    """A sentence if the token crosses a network for anybody to read; empty if all is well."""
    clients = (settings.consumer, settings.producer)
    if all(one.security.protocol is SecurityProtocol.PLAINTEXT for one in clients):
        return ""  # there is nothing to be had with it
    if options.get("spark.master", "local").startswith("local"):
        return ""
    if _is_on(options, _TLS) or (_is_on(options, _AUTHENTICATES) and _is_on(options, _ENCRYPTS)):
        return ""
    return (
        "Spark does not encrypt what it sends to executors. Whoever reads it on the way can ask "
        "the control port for the logins of this flow. "
        f"Set {_AUTHENTICATES}=true and {_ENCRYPTS}=true, or {_TLS}=true with its keys."
    )


def _is_on(options: Mapping[str, str], name: str) -> bool:
    return options.get(name, "").strip().lower() == "true"
