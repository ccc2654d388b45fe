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
    """Check that each item is `http://host:port`; the host may be missing."""
    for item in value if isinstance(value, tuple) else ():
        found = LISTENER_PATTERN.fullmatch(item)
        if found is None or int(found["port"]) > MAX_PORT:
            raise InvalidValueError("must list addresses such as http://:8083", item)


def listeners(value: object) -> None:
    """As `addresses`, with http and https only."""
    listener_addresses(value)
    for item in value if isinstance(value, tuple) else ():
        if not item.lower().startswith(("http:", "https:")):
            raise InvalidValueError("may name http and https only", item)


def not_empty_listeners(value: object) -> None:
    """As `listeners`, with at least one address."""
    if value == ():
        raise InvalidValueError("must name at least one address, such as http://:8083")


def strip_quotes(text: str) -> str:
    """Remove quotes, which images leave in files that they create from environment variables."""
    return text.strip("\"'")


def _unquoted(parsed: ParsedValue) -> str:
    return strip_quotes(parsed.value)


def _lower(parsed: ParsedValue) -> str:
    return str(parsed.value).lower()


# With the prefix `listeners.https.`; without it only if no key has the prefix.
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
        "Where the REST server listens. By default on this machine only; workers on other "
        "machines cannot reach it then.",
        not_empty_listeners,
        listeners,
        importance=Importance.LOW,
        mm2_default="http://:8083",
        mm2_difference_reason="an API without passwords should not be reachable from outside",
    ),
    string(
        "rest.advertised.host.name",
        None,
        "Host name advertised to other workers.",
        fills=field_of(RestSettings, "advertised_host", _unquoted),
        importance=Importance.LOW,
    ),
    integer(
        "rest.advertised.port",
        None,
        "Port advertised to other workers.",
        between(1, MAX_PORT),
        fills=field_of(RestSettings, "advertised_port"),
        importance=Importance.LOW,
    ),
    string(
        "rest.advertised.listener",
        None,
        "Listener advertised to other workers: http or https.",
        one_of("http", "https", ignore_case=True),
        fills=field_of(RestSettings, "advertised_scheme", _lower),
        importance=Importance.LOW,
    ),
    string(
        "access.control.allow.origin",
        "",
        "Allowed origins of cross-origin requests (CORS).",
        fills=field_of(RestSettings, "allow_origin"),
        importance=Importance.LOW,
    ),
    string(
        "access.control.allow.methods",
        "",
        "Allowed methods of cross-origin requests (CORS).",
        fills=field_of(RestSettings, "allow_methods"),
        importance=Importance.LOW,
    ),
    string(
        "response.http.headers.config",
        "",
        "Headers of every REST response.",
        fills=field_of(RestSettings, "response_headers"),
        importance=Importance.LOW,
    ),
    CLIENT_AUTH_KEY,
    string_list(
        "rest.extension.classes",
        "",
        "Connect's BasicAuthSecurityRestExtension enables basic authentication; other Java "
        "classes do not run.",
    ),
    string(
        "rest.basic.auth.login.config",
        None,
        "JAAS file of that extension; by default the one that "
        "-Djava.security.auth.login.config in the environment's KAFKA_OPTS names.",
    ),
)

# Keys of a worker's file only.
WORKER_REST_KEYS = (
    string_list(
        "admin.listeners",
        None,
        "Where /admin is served; not set: at listeners; empty: not served.",
        listeners,
        importance=Importance.LOW,
    ),
    integer(
        "rest.port",
        None,
        "Deprecated port of the REST server; listeners wins.",
        between(0, MAX_PORT),
        importance=Importance.LOW,
    ),
    string(
        "rest.host.name",
        None,
        "Deprecated address of the REST server; listeners wins.",
        importance=Importance.LOW,
    ),
)
