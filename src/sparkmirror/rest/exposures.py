# SPDX-License-Identifier: Apache-2.0
"""What an operator should know about who can use the API, said once at the start."""

from __future__ import annotations

from sparkmirror.config.worker_settings import RestSettings


def exposures(rest: RestSettings) -> list[str]:
    """What an operator should know about who can use the API."""
    asks = rest.users is not None
    sentences = []
    for one in (*rest.listeners, *(rest.admin_listeners or ())):
        needs_certificate = one.scheme == "https" and rest.client_auth == "required"
        if one.is_loopback:
            continue
        if not asks and not needs_certificate:
            sentences.append(
                f"Whoever reaches {one} can change connectors and read their configurations: the "
                "REST API asks nobody for a password. See rest.extension.classes and "
                "ssl.client.auth, or listen on 127.0.0.1."
            )
        elif asks and one.scheme == "http":
            sentences.append(
                f"Passwords for {one} travel readable for everybody on the way; use https."
            )
    return sentences
