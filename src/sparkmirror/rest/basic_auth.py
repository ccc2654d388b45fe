# SPDX-License-Identifier: Apache-2.0
"""Basic authentication of the REST API, as in Connect's BasicAuthSecurityRestExtension.

It covers all paths, also those that do not exist. Requests between workers are exempt: they are
signed with the group's key instead.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
import logging
import re
import secrets
from collections.abc import Mapping

from starlette.datastructures import Headers
from starlette.responses import JSONResponse

from sparkmirror.connect.signatures import is_wellformed_signature
from sparkmirror.model import Secret
from sparkmirror.rest.errors import close_if_body_unread, error_response
from sparkmirror.rest.throttled_log import ThrottledLog, loggable

log = logging.getLogger(__name__)

_SCHEME = "basic"
_INTERNAL = {
    "POST": re.compile(r"/connectors/[^/]+/tasks"),
    "PUT": re.compile(r"/connectors/[^/]+/fence"),
}
_SIGNATURE = "x-connect-authorization"
_ALGORITHM = "x-connect-request-signature-algorithm"


class UserCredentials:
    """Salted digests of the users' passwords."""

    def __init__(self, users: Mapping[str, Secret]) -> None:
        self._salt = secrets.token_bytes(32)
        self._digests = {name: self._digest(secret.reveal()) for name, secret in users.items()}
        self._unknown = secrets.token_bytes(32)

    def verify(self, name: str, password: Secret) -> bool:
        """Whether the password is correct; takes the same time for an unknown user."""
        given = self._digest(password.reveal())
        return hmac.compare_digest(given, self._digests.get(name, self._unknown))

    def _digest(self, text: str) -> bytes:
        return hashlib.blake2b(text.encode("utf-8", "surrogatepass"), key=self._salt).digest()


class BasicAuth:
    """Authenticates requests; shared by all applications of a server."""

    def __init__(self, users: Mapping[str, Secret]) -> None:
        self._credentials = UserCredentials(users)
        self._rejected_log = ThrottledLog(log)

    def set_users(self, users: Mapping[str, Secret]) -> None:
        """Replace the users, from the next request on."""
        self._credentials = UserCredentials(users)

    def challenge(
        self, method: str, path: str | None, headers: Headers, client: str
    ) -> JSONResponse | None:
        """Return a 401 response, or None if the request is allowed; `path` None: not UTF-8."""
        if path is not None and is_internal_request(method, path, headers):
            return None
        sent = headers.get("authorization")
        found = None if sent is None else parse_authorization(sent)
        if found is not None and self._credentials.verify(*found):
            return None
        if sent is not None:  # the first request of a browser has none
            who = "without a name and password" if found is None else f"as {loggable(found[0])}"
            self._rejected_log.warn(f"A REST request from {client} {who} was refused.")
        response = error_response(401, "User cannot access the resource.")
        response.headers["WWW-Authenticate"] = 'Basic realm="connect", charset="UTF-8"'
        return close_if_body_unread(response, headers)


def is_internal_request(method: str, path: str, headers: Headers) -> bool:
    """Whether a request is between workers; its signature is verified later."""
    pattern = _INTERNAL.get(method)
    return (
        pattern is not None
        and bool(pattern.fullmatch(path))
        and is_wellformed_signature(headers.get(_SIGNATURE, ""), headers.get(_ALGORITHM, ""))
    )


def parse_authorization(header: str) -> tuple[str, Secret] | None:
    """Return name and password as Connect parses them; None if the header has none."""
    scheme, _, rest = header.partition(" ")
    if scheme.lower() != _SCHEME:
        return None
    try:
        text = base64.b64decode(rest.encode("ascii"), validate=True).decode("utf-8", "replace")
    except (UnicodeEncodeError, binascii.Error):
        return None
    name, colon, password = text.partition(":")
    return (name, Secret(password)) if colon and name else None
