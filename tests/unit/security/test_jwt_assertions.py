# SPDX-License-Identifier: Apache-2.0
"""Assertions are JWTs that the owner of the public key can verify."""

from __future__ import annotations

import base64
import json
from typing import Any

import pytest
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec, padding, rsa
from cryptography.hazmat.primitives.asymmetric.utils import encode_dss_signature

from sparkmirror.model import Secret
from sparkmirror.security.jwt_assertions import ES256, RS256, load_signing_key, sign_assertion
from sparkmirror.security.settings import AssertionSettings

NOW = 1_000_000
RSA = rsa.generate_private_key(public_exponent=65_537, key_size=2048)
CURVE = ec.generate_private_key(ec.SECP256R1())
PKCS8 = serialization.PrivateFormat.PKCS8


def pem(key: rsa.RSAPrivateKey | ec.EllipticCurvePrivateKey, word: str = "") -> bytes:
    """A key as people have it in a file."""
    encryption = (
        serialization.BestAvailableEncryption(word.encode())
        if word
        else serialization.NoEncryption()
    )
    return key.private_bytes(serialization.Encoding.PEM, PKCS8, encryption)


def parts(assertion: Secret) -> tuple[dict[str, Any], dict[str, Any], bytes, bytes]:
    """Header, claims, what is signed, and the signature."""
    content, _, signature = assertion.reveal().rpartition(".")
    decoded = [base64.urlsafe_b64decode(f"{one}==") for one in (*content.split("."), signature)]
    return json.loads(decoded[0]), json.loads(decoded[1]), content.encode(), decoded[2]


def test_an_assertion_has_the_claims_of_kafkas() -> None:
    """Those of the settings, and those that depend on the time, which win."""
    settings = AssertionSettings(
        "assertion",
        load_signing_key(pem(RSA), None, RS256),
        header={"kid": "k", "alg": "none"},
        claims={"iss": "me", "iat": 1, "list": [1, "a"]},
    )
    header, claims, content, signature = parts(sign_assertion(settings, NOW))
    assert header == {"kid": "k", "alg": "RS256", "typ": "JWT"}
    times = {"iat": NOW, "exp": NOW + 300, "nbf": NOW - 60}
    assert claims == {"iss": "me", "list": [1, "a"], **times}
    RSA.public_key().verify(signature, content, padding.PKCS1v15(), hashes.SHA256())


def test_es256_is_two_numbers() -> None:
    """JWTs have raw ECDSA signatures, not DER; with jti every assertion has another id."""
    settings = AssertionSettings(
        "assertion",
        load_signing_key(pem(CURVE), None, ES256),
        ES256,
        includes_jti=True,
        lifetime_seconds=5,
    )
    _, claims, content, signature = parts(sign_assertion(settings, NOW))
    numbers = [int.from_bytes(half, "big") for half in (signature[:32], signature[32:])]
    assert len(signature) == 64
    der = encode_dss_signature(*numbers)
    CURVE.public_key().verify(der, content, ec.ECDSA(hashes.SHA256()))
    assert claims["exp"] == NOW + 5
    assert claims["jti"] != parts(sign_assertion(settings, NOW))[1]["jti"]


def test_a_key_may_have_a_passphrase_or_no_lines_around_it() -> None:
    """As Kafka takes them."""
    plain = load_signing_key(pem(RSA), None, RS256)
    assert load_signing_key(pem(RSA, "word"), Secret("word"), RS256) == plain
    inner = b"".join(pem(RSA).splitlines()[1:-1])
    assert load_signing_key(inner, None, RS256) == plain


@pytest.mark.parametrize(
    ("data", "word", "algorithm", "part"),
    [
        pytest.param(b"%%", None, RS256, "not a private key in PEM", id="no PEM"),
        pytest.param(b"aGFsbG8=", None, RS256, "not PKCS #8", id="no key"),
        pytest.param(pem(RSA, "word"), None, RS256, "is encrypted", id="encrypted"),
        pytest.param(pem(RSA, "word"), "x", RS256, "password does not open", id="wrong"),
        pytest.param(pem(RSA), None, ES256, "ES256 needs a key on the curve P-256", id="RSA"),
        pytest.param(pem(CURVE), None, RS256, "RS256 needs an RSA key", id="curve"),
    ],
)
def test_a_key_that_cannot_sign_is_an_error_message(
    data: bytes, word: str | None, algorithm: str, part: str
) -> None:
    """When the file is read, not when a token is needed."""
    with pytest.raises(ValueError, match=part):
        load_signing_key(data, None if word is None else Secret(word), algorithm)
