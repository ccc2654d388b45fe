# SPDX-License-Identifier: Apache-2.0
"""An OAuth token endpoint for tests: returns signed JWTs, or fails in configurable ways.

POST /token     {"access_token": JWT, "token_type": "Bearer", "expires_in": seconds}
GET  /jwks      the signing key, for brokers
"""

from __future__ import annotations

import base64
import json
import ssl
import threading
import time
from collections.abc import Mapping
from enum import Enum
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType
from typing import Self
from urllib.parse import parse_qs

from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import padding, rsa

ISSUER = "tokens-of-a-test"
AUDIENCE = "kafka"
_KEY_ID = "1"
_JOIN_SECONDS = 10.0


class ResponseMode(Enum):
    """How the endpoint responds to token requests."""

    WILLING = "willing"
    BROKEN = "broken"  # 500
    SILENT = "silent"  # no answer while it lasts
    NONSENSE = "nonsense"  # 200, and no token


class TokenEndpoint:
    """Runs in its own thread; also a context manager."""

    def __init__(
        self,
        clients: Mapping[str, str],
        *,
        lifetime_seconds: float = 3600.0,
        context: ssl.SSLContext | None = None,
    ) -> None:
        self.clients = dict(clients)  # id to secret; may be changed while it runs
        self.lifetime_seconds = lifetime_seconds
        self.issued = 0
        self._mood = ResponseMode.WILLING
        self._mood_changes = threading.Condition()
        self._key = rsa.generate_private_key(public_exponent=65_537, key_size=2048)
        self._context = context
        self._address = ("127.0.0.1", 0)
        self._server: ThreadingHTTPServer | None = None
        self._thread: threading.Thread | None = None

    @property
    def mood(self) -> ResponseMode:
        """The current response mode."""
        return self._mood

    @mood.setter
    def mood(self, mood: ResponseMode) -> None:
        with self._mood_changes:
            self._mood = mood
            self._mood_changes.notify_all()

    @property
    def url(self) -> str:
        return f"{self._root}/token"

    @property
    def jwks_url(self) -> str:
        return f"{self._root}/jwks"

    @property
    def _root(self) -> str:
        scheme = "http" if self._context is None else "https"
        return f"{scheme}://127.0.0.1:{self._address[1]}"

    def start(self) -> Self:
        """Listen; after `stop()`, at the same address."""
        endpoint = self

        class Handler(_Handler):
            owner = endpoint

        server = ThreadingHTTPServer(self._address, Handler)
        server.daemon_threads = True
        if self._context is not None:
            server.socket = self._context.wrap_socket(server.socket, server_side=True)
        self._address = ("127.0.0.1", server.server_port)
        self._server = server
        self._thread = threading.Thread(
            target=server.serve_forever, args=(0.05,), name="token-endpoint"
        )
        self._thread.start()
        return self

    def stop(self) -> None:
        """Stop listening."""
        self.mood = ResponseMode.WILLING
        if self._server is not None and self._thread is not None:
            self._server.shutdown()
            self._thread.join(_JOIN_SECONDS)
            self._server.server_close()
            self._server = None

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(
        self,
        _kind: type[BaseException] | None,
        _error: BaseException | None,
        _traceback: TracebackType | None,
    ) -> None:
        self.stop()

    def token(self, subject: str) -> str:
        """Return a signed token for a subject."""
        now = time.time()
        header = {"alg": "RS256", "typ": "JWT", "kid": _KEY_ID}
        claims = {
            "sub": subject,
            "iss": ISSUER,
            "aud": AUDIENCE,
            "scope": "kafka",
            "iat": int(now),
            "exp": int(now + self.lifetime_seconds),
        }
        signed = f"{_encoded(json.dumps(header))}.{_encoded(json.dumps(claims))}"
        signature = self._key.sign(signed.encode(), padding.PKCS1v15(), hashes.SHA256())
        return f"{signed}.{_encoded(signature)}"

    def answer(self, client_id: str, secret: str) -> tuple[int, str]:
        """Return status and body for a token request."""
        with self._mood_changes:
            self._mood_changes.wait_for(lambda: self._mood is not ResponseMode.SILENT)
        if self._mood is ResponseMode.BROKEN:
            return 500, '{"error": "server_error"}'
        if self._mood is ResponseMode.NONSENSE:
            return 200, "<html>Please log in</html>"
        if self.clients.get(client_id) != secret:
            return 401, '{"error": "invalid_client"}'
        self.issued += 1
        token = {
            "access_token": self.token(client_id),
            "token_type": "Bearer",
            "expires_in": int(self.lifetime_seconds),
        }
        return 200, json.dumps(token)

    def keys(self) -> str:
        numbers = self._key.public_key().public_numbers()
        key = {
            "kty": "RSA",
            "use": "sig",
            "alg": "RS256",
            "kid": _KEY_ID,
            "n": _encoded(_unsigned(numbers.n)),
            "e": _encoded(_unsigned(numbers.e)),
        }
        return json.dumps({"keys": [key]})


class _Handler(BaseHTTPRequestHandler):
    owner: TokenEndpoint

    def do_POST(self) -> None:
        """Return a token; id and secret are in the header or in the body."""
        form = parse_qs(self.rfile.read(int(self.headers["Content-Length"])).decode())
        kind, _, encoded = self.headers.get("Authorization", "").partition(" ")
        if kind == "Basic":
            client_id, _, secret = base64.b64decode(encoded).decode().partition(":")
        else:
            client_id, secret = form.get("client_id", [""])[0], form.get("client_secret", [""])[0]
        if form.get("grant_type") != ["client_credentials"]:
            self._send(400, '{"error": "unsupported_grant_type"}')
            return
        self._send(*self.owner.answer(client_id, secret))

    def do_GET(self) -> None:
        self._send(200, self.owner.keys())

    def _send(self, status: int, body: str) -> None:
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body.encode())

    def log_message(self, *_: object) -> None: ...


def _unsigned(number: int) -> bytes:
    return number.to_bytes((number.bit_length() + 7) // 8, "big")


def _encoded(content: str | bytes) -> str:
    data = content.encode() if isinstance(content, str) else content
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()
