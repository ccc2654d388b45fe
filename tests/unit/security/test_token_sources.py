# SPDX-License-Identifier: Apache-2.0
"""How a client's id and secret are sent to a token endpoint, and who shares a token."""

from __future__ import annotations

import base64
from dataclasses import replace

import pytest

from sparkmirror.model import Secret
from sparkmirror.security.settings import OAuthSettings
from sparkmirror.security.token_sources import token_source
from sparkmirror.security.tokens import basic_credentials

SETTINGS = OAuthSettings("http://127.0.0.1:1/", "me too", Secret("a+b:c~*é"), extensions={"a": "b"})


@pytest.mark.parametrize(
    ("encodes", "sent"), [(False, "me too:a+b:c~*é"), (True, "me+too:a%2Bb%3Ac%7E*%C3%A9")]
)
def test_the_header_is_encoded_as_java_does(encodes: bool, sent: str) -> None:
    """`sasl.oauthbearer.header.urlencode`; the expected texts are those of Java's URLEncoder."""
    found = basic_credentials(replace(SETTINGS, urlencodes_header=encodes))
    assert base64.b64decode(found).decode() == sent


def test_equal_settings_share_a_source() -> None:
    """Connections of all flows; another secret is another source."""
    assert token_source(SETTINGS) is token_source(replace(SETTINGS))
    other = replace(SETTINGS, client_secret=Secret("x"))
    assert token_source(other) is not token_source(SETTINGS)
