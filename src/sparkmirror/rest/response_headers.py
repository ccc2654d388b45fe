# SPDX-License-Identifier: Apache-2.0
"""`response.http.headers.config`: headers of every response.

    add Cache-Control: no-cache, "add Allow: GET, PUT", setDate Expires: 31540000000

A rule is `action name:value`; a rule with a comma is quoted. `set` replaces a header, `add` adds
one; with `Date` the value is milliseconds from now.
"""

from __future__ import annotations

import csv
import re
import time
from dataclasses import dataclass
from email.utils import formatdate

from starlette.datastructures import MutableHeaders

from sparkmirror.errors import ConfigError

KEY = "response.http.headers.config"
_DELAY = re.compile(r"\d{1,14}|-\d{1,13}")  # milliseconds: within the years that HTTP can write
_RULE = re.compile(r"(?P<action>set|add|setDate|addDate)\s+(?P<name>[!-9;-~]+):(?P<value>[ -~]*)")


@dataclass(frozen=True, slots=True)
class HeaderRule:
    """One header of every response."""

    name: str
    value: str
    replaces: bool
    is_date: bool

    def apply_to(self, headers: MutableHeaders) -> None:
        value = self.value
        if self.is_date:
            value = formatdate(time.time() + int(self.value) / 1000, usegmt=True)
        if self.replaces:
            headers[self.name] = value
        else:
            headers.append(self.name, value)


def parse_header_rules(text: str) -> tuple[HeaderRule, ...]:
    """Parse the value of the key; ConfigError names an invalid rule."""
    try:
        items = next(csv.reader([text], skipinitialspace=True), [])
    except csv.Error as error:
        raise ConfigError(f"{KEY} is not a list of rules: {error}.", key=KEY) from error
    return tuple(_rule(item.strip()) for item in items if item.strip())


def _rule(text: str) -> HeaderRule:
    found = _RULE.fullmatch(text)
    value = found["value"].strip() if found else ""
    is_date = found is not None and found["action"].endswith("Date")
    if found is None or (is_date and _DELAY.fullmatch(value) is None):
        raise ConfigError(
            f"{KEY}: invalid rule {text!r}; write a rule such as 'set X-Frame-Options: DENY'. The "
            "actions are set, add, setDate and addDate; dates are milliseconds from now.",
            key=KEY,
        )
    return HeaderRule(found["name"], value, found["action"].startswith("set"), is_date)
