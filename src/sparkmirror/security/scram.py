# SPDX-License-Identifier: Apache-2.0
"""SCRAM (RFC 5802, 7677) as in Kafka's clients: no channel binding, no SASLprep.

    client   n,,n=<user>,r=<nonce>[,tokenauth=true]
    server   r=<nonce and more>,s=<salt>,i=<iterations>
    client   c=biws,r=<nonce and more>,p=<proof>
    server   v=<signature>   or   e=<error>

The server's signature proves that it also knows the password. kafka-python's client is not used,
because it does not escape `,` and `=` in names.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
import re
import secrets
from typing import ClassVar

from sparkmirror.errors import AuthenticationError
from sparkmirror.model import Secret
from sparkmirror.security.settings import SaslMechanism

MIN_ITERATIONS = 4096
MAX_ITERATIONS = 1_000_000  # a limit for hostile servers

_SERVER_FIRST = re.compile(
    rb"r=([\x21-\x2b\x2d-\x7e]{1,1024}),s=([A-Za-z0-9/+=]{1,1024}),i=(\d{1,9})(?:,.*)?", re.DOTALL
)
_SERVER_FINAL = re.compile(rb"([ve])=([^,]{1,1024})(?:,.*)?", re.DOTALL)


class ScramClient:
    """One authentication."""

    DIGESTS: ClassVar = {
        SaslMechanism.SCRAM_SHA_256: "sha256",
        SaslMechanism.SCRAM_SHA_512: "sha512",
    }

    def __init__(
        self, mechanism: SaslMechanism, username: str, password: Secret, *, is_token: bool = False
    ) -> None:
        self._mechanism = mechanism
        self._digest = self.DIGESTS[mechanism]
        self._password = password
        name = username.replace("=", "=3D").replace(",", "=2C")
        self._nonce = secrets.token_hex(16).encode()
        extension = b",tokenauth=true" if is_token else b""
        self._first = b"n=" + name.encode("utf-8", "replace") + b",r=" + self._nonce + extension
        self._signature: bytes | None = None
        self._is_done = False

    def initial_response(self) -> bytes:
        return b"n,," + self._first

    def evaluate_challenge(self, challenge: bytes) -> bytes | None:
        if self._signature is None:
            return self._proof(challenge)
        if not self._is_done:
            self._check(challenge, self._signature)
            self._is_done = True
        return None

    def _proof(self, challenge: bytes) -> bytes:
        found = _SERVER_FIRST.fullmatch(challenge)
        if found is None:
            raise self._protocol_error("a first message that is not SCRAM")
        nonce, salt, iterations = found[1], _decoded(found[2]), int(found[3])
        if not nonce.startswith(self._nonce):
            raise self._protocol_error("a nonce that does not start with the client's")
        if salt is None:
            raise self._protocol_error("a salt that is not base64")
        if not MIN_ITERATIONS <= iterations <= MAX_ITERATIONS:
            raise self._protocol_error(f"an iteration count of {iterations}")
        salted = hashlib.pbkdf2_hmac(
            self._digest, self._password.reveal().encode("utf-8", "replace"), salt, iterations
        )
        client_key = self._hmac(salted, b"Client Key")
        stored_key = hashlib.new(self._digest, client_key).digest()
        without_proof = b"c=biws,r=" + nonce
        message = self._first + b"," + challenge + b"," + without_proof
        client_signature = self._hmac(stored_key, message)
        proof = bytes(a ^ b for a, b in zip(client_key, client_signature, strict=True))
        self._signature = self._hmac(self._hmac(salted, b"Server Key"), message)
        return without_proof + b",p=" + base64.b64encode(proof)

    def _check(self, challenge: bytes, signature: bytes) -> None:
        found = _SERVER_FINAL.fullmatch(challenge)
        if found is None:
            raise self._protocol_error("a final message that is not SCRAM")
        if found[1] == b"e":
            raise AuthenticationError(
                f"The broker rejected {self._mechanism.value}. Check username and password."
            )
        given = _decoded(found[2])
        if given is None or not hmac.compare_digest(given, signature):
            raise AuthenticationError(
                f"The broker did not prove that it knows the password ({self._mechanism.value}). "
                "It may be an impostor: check bootstrap.servers. No records were sent."
            )

    def _hmac(self, key: bytes, message: bytes) -> bytes:
        return hmac.digest(key, message, self._digest)

    def _protocol_error(self, what: str) -> AuthenticationError:
        return AuthenticationError(
            f"The broker sent {what} ({self._mechanism.value}). Is it a Kafka broker?"
        )


def _decoded(text: bytes) -> bytes | None:
    try:
        return base64.b64decode(text, validate=True)
    except binascii.Error:
        return None
