# SPDX-License-Identifier: Apache-2.0
"""Passwords are not shown, whatever kind of connector has them."""

from __future__ import annotations

import pytest

from sparkmirror.rest_client.responses import ConfigKeyInfo, redact_secrets

PASSWORD = ConfigKeyInfo(
    "database.pin", "PASSWORD", required=True, default=None, importance="", documentation=""
)


@pytest.mark.parametrize(
    "key",
    [
        "source.cluster.sasl.jaas.config",
        "producer.override.ssl.key.password",
        "connection.password",
        "transforms.t.api.key",
        "auth.bearer.token",
        "database.pin",
    ],
)
def test_what_is_secret_is_hidden(key: str) -> None:
    """By Kafka's list, by the plugin's own word, or by its sound."""
    assert redact_secrets({key: "1234"}, [PASSWORD]) == {key: "[hidden]"}


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("topics", "orders"),
        ("database.pin.retries", "3"),
        ("connection.password", "${file:/etc/secret:key}"),
        ("connection.password", ""),
        ("connection.password", None),
        ("sasl.oauthbearer.token.endpoint.url", "https://login.example"),
    ],
)
def test_what_is_no_secret_is_shown(key: str, value: str | None) -> None:
    """References and addresses among them."""
    assert redact_secrets({key: value}, [PASSWORD]) == {key: value}
