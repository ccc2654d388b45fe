# SPDX-License-Identifier: Apache-2.0
"""`response.http.headers.config` is read as Connect documents it."""

from __future__ import annotations

from email.utils import parsedate_to_datetime

import pytest
from starlette.datastructures import MutableHeaders

from sparkmirror.errors import ConfigError
from sparkmirror.rest.response_headers import parse_header_rules


def test_rules_set_and_add() -> None:
    """A rule with a comma stands in quotes."""
    headers = MutableHeaders({"X-A": "old"})
    for rule in parse_header_rules('set X-A: new, add X-B:1,"add X-B: 2, 3"'):
        rule.apply_to(headers)
    assert (headers.getlist("X-A"), headers.getlist("X-B")) == (["new"], ["1", "2, 3"])


def test_dates_are_counted_from_now() -> None:
    """In milliseconds."""
    headers = MutableHeaders()
    for rule in parse_header_rules("setDate Expires: 3600000, setDate Last-Modified: 0"):
        rule.apply_to(headers)
    later, now = (parsedate_to_datetime(headers[name]) for name in ("Expires", "Last-Modified"))
    assert abs((later - now).total_seconds() - 3600) <= 1


def test_no_text_is_no_rule() -> None:
    """The default."""
    assert parse_header_rules("") == ()


@pytest.mark.parametrize(
    "text", ["X-A: b", "put X-A: b", "set X-A", "setDate E: soon", "set a b: c"]
)
def test_what_is_no_rule_is_refused(text: str) -> None:
    """Naming the key and the rule."""
    with pytest.raises(ConfigError) as refused:
        parse_header_rules(text)
    assert refused.value.key == "response.http.headers.config"
    assert text in str(refused.value)
