# SPDX-License-Identifier: Apache-2.0
"""The table of keys of Connect's REST server, as a worker's file has them."""

from __future__ import annotations

import re

from sparkmirror.config.keys.config_def import (
    ConfigKey,
    ConfigType,
    Importance,
    InvalidValueError,
    between,
    one_of,
)
from sparkmirror.config.keys.security_keys import SSL_KEYS

_LAST_PORT = 65_535
HTTPS_PREFIX = "listeners.https."
LISTENER_PATTERN = re.compile(
    r"(?P<scheme>[a-zA-Z]+)://(?P<host>\[[0-9a-fA-F:.%]+\]|[0-9a-zA-Z%._-]*):(?P<port>[0-9]+)/?"
)


def listener_addresses(value: object) -> None:
    """Each item is `http://host:port`; the host may be left out."""
    for item in value if isinstance(value, tuple) else ():
        found = LISTENER_PATTERN.fullmatch(item)
        if found is None or int(found["port"]) > _LAST_PORT:
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


# Below `listeners.https.` or, if nothing stands there, as it is.
CLIENT_AUTH_KEY = ConfigKey(
    name="ssl.client.auth",
    type=ConfigType.STRING,
    default="none",
    doc="Whether https asks clients for a certificate (requested), refuses those without one "
    "(required), or does not ask (none).",
    importance=Importance.LOW,
    validators=(one_of("none", "requested", "required", ignore_case=True),),
)

HTTPS_KEYS = (*SSL_KEYS, CLIENT_AUTH_KEY)

REST_KEYS = (
    ConfigKey(
        name="listeners",
        type=ConfigType.LIST,
        default="http://127.0.0.1:8083",
        doc="Where the REST server listens. By default on this machine only, where other workers "
        "of a group do not reach it.",
        importance=Importance.LOW,
        validators=(not_empty_listeners, listeners),
        mm2_default="http://:8083",
        mm2_difference_reason="an API without passwords stays at home",
    ),
    ConfigKey(
        name="rest.advertised.host.name",
        type=ConfigType.STRING,
        default=None,
        doc="Host name given to other workers.",
        importance=Importance.LOW,
    ),
    ConfigKey(
        name="rest.advertised.port",
        type=ConfigType.INT,
        default=None,
        doc="Port given to other workers.",
        importance=Importance.LOW,
        validators=(between(1, _LAST_PORT),),
    ),
    ConfigKey(
        name="rest.advertised.listener",
        type=ConfigType.STRING,
        default=None,
        doc="Listener given to other workers.",
        importance=Importance.LOW,
        validators=(one_of("http", "https", ignore_case=True),),
    ),
    ConfigKey(
        name="access.control.allow.origin",
        type=ConfigType.STRING,
        default="",
        doc="Origins that browsers may use.",
        importance=Importance.LOW,
    ),
    ConfigKey(
        name="access.control.allow.methods",
        type=ConfigType.STRING,
        default="",
        doc="Methods that browsers may use.",
        importance=Importance.LOW,
    ),
    ConfigKey(
        name="response.http.headers.config",
        type=ConfigType.STRING,
        default="",
        doc="Headers of every REST answer.",
        importance=Importance.LOW,
    ),
    CLIENT_AUTH_KEY,
    ConfigKey(
        name="rest.extension.classes",
        type=ConfigType.LIST,
        default="",
        doc="Connect's BasicAuthSecurityRestExtension, if the REST API is to ask for a name and "
        "password; other Java classes are not run.",
        importance=Importance.MEDIUM,
    ),
    ConfigKey(
        name="rest.basic.auth.login.config",
        type=ConfigType.STRING,
        default=None,
        doc="JAAS file of that extension; if not set, what KAFKA_OPTS of the environment says "
        "with -Djava.security.auth.login.config.",
        importance=Importance.MEDIUM,
    ),
)

# Only a worker's file has these.
WORKER_REST_KEYS = (
    ConfigKey(
        name="admin.listeners",
        type=ConfigType.LIST,
        default=None,
        doc="Where the paths below /admin are served; not set: where all others are; empty: "
        "nowhere.",
        importance=Importance.LOW,
        validators=(listeners,),
    ),
    ConfigKey(
        name="rest.port",
        type=ConfigType.INT,
        default=None,
        doc="Port of the REST server in files older than listeners, which wins.",
        importance=Importance.LOW,
        validators=(between(0, _LAST_PORT),),
    ),
    ConfigKey(
        name="rest.host.name",
        type=ConfigType.STRING,
        default=None,
        doc="Address of the REST server in files older than listeners, which wins.",
        importance=Importance.LOW,
    ),
)
