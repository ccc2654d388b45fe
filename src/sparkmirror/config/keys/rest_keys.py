# SPDX-License-Identifier: Apache-2.0
"""The table of keys of Connect's REST server, as a worker's file has them."""

from __future__ import annotations

import re

from sparkmirror.config.keys.config_def import (
    Importance,
    ParsedValue,
    choice,
    field_of,
    integer,
    string,
    string_list,
)
from sparkmirror.config.keys.security_keys import SSL_KEYS
from sparkmirror.config.keys.value_types import MAX_PORT, InvalidValueError, between, one_of
from sparkmirror.config.worker_settings import RestSettings

HTTPS_PREFIX = "listeners.https."
LISTENER_PATTERN = re.compile(
    r"(?P<scheme>[a-zA-Z]+)://(?P<host>\[[0-9a-fA-F:.%]+\]|[0-9a-zA-Z%._-]*):(?P<port>[0-9]+)/?"
)


def listener_addresses(value: object) -> None:
    """Each item is `http://host:port`; the host may be left out."""
    for item in value if isinstance(value, tuple) else ():
        found = LISTENER_PATTERN.fullmatch(item)
        if found is None or int(found["port"]) > MAX_PORT:
            raise InvalidValueError("must list addresses such as http://:8083", item)


def listeners(value: object) -> None:
    """The same, and nothing but http and https."""
    listener_addresses(value)
    for item in value if isinstance(value, tuple) else ():
        if not item.lower().startswith(("http:", "https:")):
            raise InvalidValueError("may name http and https only", item)


def not_empty_listeners(value: object) -> None:
    """A server listens somewhere."""
    if value == ():
        raise InvalidValueError("must name at least one address, such as http://:8083")


def strip_quotes(text: str) -> str:
    """No host name has quotes; images that make files of environment variables leave them in."""
    return text.strip("\"'")


def _unquoted(parsed: ParsedValue) -> str:
    return strip_quotes(parsed.value)


def _lower(parsed: ParsedValue) -> str:
    return str(parsed.value).lower()


# Below `listeners.https.` or, if nothing stands there, as it is.
CLIENT_AUTH_KEY = choice(
    "ssl.client.auth",
    (
        "none",
        "requested",
        "required",
    ),
    "Whether https asks clients for a certificate (requested), refuses those without one "
    "(required), or does not ask (none).",
    ignore_case=True,
    importance=Importance.LOW,
)

HTTPS_KEYS = (*SSL_KEYS, CLIENT_AUTH_KEY)

REST_KEYS = (
    string_list(
        "listeners",
        "http://127.0.0.1:8083",
        "Where the REST server listens. By default on this machine only, where other workers "
        "of a group do not reach it.",
        not_empty_listeners,
        listeners,
        importance=Importance.LOW,
        mm2_default="http://:8083",
        mm2_difference_reason="an API without passwords stays at home",
    ),
    string(
        "rest.advertised.host.name",
        None,
        "Host name given to other workers.",
        fills=field_of(RestSettings, "advertised_host", _unquoted),
        importance=Importance.LOW,
    ),
    integer(
        "rest.advertised.port",
        None,
        "Port given to other workers.",
        between(1, MAX_PORT),
        fills=field_of(RestSettings, "advertised_port"),
        importance=Importance.LOW,
    ),
    string(
        "rest.advertised.listener",
        None,
        "Listener given to other workers.",
        one_of("http", "https", ignore_case=True),
        fills=field_of(RestSettings, "advertised_scheme", _lower),
        importance=Importance.LOW,
    ),
    string(
        "access.control.allow.origin",
        "",
        "Origins that browsers may use.",
        fills=field_of(RestSettings, "allow_origin"),
        importance=Importance.LOW,
    ),
    string(
        "access.control.allow.methods",
        "",
        "Methods that browsers may use.",
        fills=field_of(RestSettings, "allow_methods"),
        importance=Importance.LOW,
    ),
    string(
        "response.http.headers.config",
        "",
        "Headers of every REST answer.",
        fills=field_of(RestSettings, "response_headers"),
        importance=Importance.LOW,
    ),
    CLIENT_AUTH_KEY,
    string_list(
        "rest.extension.classes",
        "",
        "Connect's BasicAuthSecurityRestExtension, if the REST API is to ask for a name and "
        "password; other Java classes are not run.",
    ),
    string(
        "rest.basic.auth.login.config",
        None,
        "JAAS file of that extension; if not set, what KAFKA_OPTS of the environment says "
        "with -Djava.security.auth.login.config.",
    ),
)

# Only a worker's file has these.
WORKER_REST_KEYS = (
    string_list(
        "admin.listeners",
        None,
        "Where the paths below /admin are served; not set: where all others are; empty: nowhere.",
        listeners,
        importance=Importance.LOW,
    ),
    integer(
        "rest.port",
        None,
        "Port of the REST server in files older than listeners, which wins.",
        between(0, MAX_PORT),
        importance=Importance.LOW,
    ),
    string(
        "rest.host.name",
        None,
        "Address of the REST server in files older than listeners, which wins.",
        importance=Importance.LOW,
    ),
)
