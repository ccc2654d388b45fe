# SPDX-License-Identifier: Apache-2.0
"""The table of keys of Connect's REST server, as a worker's file has them."""

from __future__ import annotations

import re

from sparkmirror.config.key import Importance, Key
from sparkmirror.config.keys_security import SSL_KEYS
from sparkmirror.config.value_types import Rejected, Type, between, one_of

_LAST_PORT = 65_535
HTTPS_PREFIX = "listeners.https."
LISTENER = re.compile(
    r"(?P<scheme>[a-zA-Z]+)://(?P<host>\[[0-9a-fA-F:.%]+\]|[0-9a-zA-Z%._-]*):(?P<port>[0-9]+)/?"
)


def addresses(value: object) -> None:
    """Each item is `http://host:port`; the host may be left out."""
    for item in value if isinstance(value, tuple) else ():
        found = LISTENER.fullmatch(item)
        if found is None or int(found["port"]) > _LAST_PORT:
            raise Rejected("must list addresses such as http://:8083", item)


def listeners(value: object) -> None:
    """The same, and nothing but http and https."""
    addresses(value)
    for item in value if isinstance(value, tuple) else ():
        if not item.lower().startswith(("http:", "https:")):
            raise Rejected("may name http and https only", item)


def not_without(value: object) -> None:
    """A server listens somewhere."""
    if value == ():
        raise Rejected("must name at least one address, such as http://:8083")


# Below `listeners.https.` or, if nothing stands there, as it is.
CLIENT_AUTH_KEY = Key(
    name="ssl.client.auth",
    type=Type.STRING,
    default="none",
    doc="Whether https asks clients for a certificate (requested), refuses those without one "
    "(required), or does not ask (none).",
    importance=Importance.LOW,
    checks=(one_of("none", "requested", "required", ignore_case=True),),
)

HTTPS_KEYS = (*SSL_KEYS, CLIENT_AUTH_KEY)

REST_KEYS = (
    Key(
        name="listeners",
        type=Type.LIST,
        default="http://127.0.0.1:8083",
        doc="Where the REST server listens. By default on this machine only, where other workers "
        "of a group do not reach it.",
        importance=Importance.LOW,
        checks=(not_without, listeners),
        mm2_default="http://:8083",
        reason="an API without passwords stays at home",
    ),
    Key(
        name="rest.advertised.host.name",
        type=Type.STRING,
        default=None,
        doc="Host name given to other workers.",
        importance=Importance.LOW,
    ),
    Key(
        name="rest.advertised.port",
        type=Type.INT,
        default=None,
        doc="Port given to other workers.",
        importance=Importance.LOW,
        checks=(between(1, _LAST_PORT),),
    ),
    Key(
        name="rest.advertised.listener",
        type=Type.STRING,
        default=None,
        doc="Listener given to other workers.",
        importance=Importance.LOW,
        checks=(one_of("http", "https", ignore_case=True),),
    ),
    Key(
        name="access.control.allow.origin",
        type=Type.STRING,
        default="",
        doc="Origins that browsers may use.",
        importance=Importance.LOW,
    ),
    Key(
        name="access.control.allow.methods",
        type=Type.STRING,
        default="",
        doc="Methods that browsers may use.",
        importance=Importance.LOW,
    ),
    Key(
        name="response.http.headers.config",
        type=Type.STRING,
        default="",
        doc="Headers of every REST answer.",
        importance=Importance.LOW,
    ),
    CLIENT_AUTH_KEY,
    Key(
        name="rest.extension.classes",
        type=Type.LIST,
        default="",
        doc="Connect's BasicAuthSecurityRestExtension, if the REST API is to ask for a name and "
        "password; other Java classes are not run.",
        importance=Importance.MEDIUM,
    ),
    Key(
        name="rest.basic.auth.login.config",
        type=Type.STRING,
        default=None,
        doc="JAAS file of that extension; if not set, what KAFKA_OPTS of the environment says "
        "with -Djava.security.auth.login.config.",
        importance=Importance.MEDIUM,
    ),
)

# Only a worker's file has these.
WORKER_REST_KEYS = (
    Key(
        name="admin.listeners",
        type=Type.LIST,
        default=None,
        doc="Where the paths below /admin are served; not set: where all others are; empty: "
        "nowhere.",
        importance=Importance.LOW,
        checks=(listeners,),
    ),
    Key(
        name="rest.port",
        type=Type.INT,
        default=None,
        doc="Port of the REST server in files older than listeners, which wins.",
        importance=Importance.LOW,
        checks=(between(0, _LAST_PORT),),
    ),
    Key(
        name="rest.host.name",
        type=Type.STRING,
        default=None,
        doc="Address of the REST server in files older than listeners, which wins.",
        importance=Importance.LOW,
    ),
)
