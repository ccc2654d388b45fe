# SPDX-License-Identifier: Apache-2.0
"""Security settings as JSON: the only place where secrets leave the process as text.

The result is sent over the control channel only, which is encrypted and requires a token. It never
appears in a Spark closure, log, progress report or receipt.
"""

from __future__ import annotations

from typing import Any

from sparkmirror.model import Secret
from sparkmirror.security.settings import (
    AssertionSettings,
    AwsSettings,
    KerberosSettings,
    OAuthSettings,
    SaslMechanism,
    SaslSettings,
    SecurityKeyNames,
    SecurityProtocol,
    SecuritySettings,
    TlsSettings,
)


def security_to_json(security: SecuritySettings) -> dict[str, Any]:
    """Return JSON-ready lists and dicts, with secrets in clear text."""
    return {
        "protocol": security.protocol.value,
        "tls": None if security.tls is None else _tls_to_json(security.tls),
        "sasl": None if security.sasl is None else _sasl_to_json(security.sasl),
        "keys": _fields(security.keys),
    }


def security_from_json(raw: dict[str, Any]) -> SecuritySettings:
    """Decode the result of `security_to_json`."""
    return SecuritySettings(
        SecurityProtocol(raw["protocol"]),
        None if raw["tls"] is None else _tls_from_json(raw["tls"]),
        None if raw["sasl"] is None else _sasl_from_json(raw["sasl"]),
        SecurityKeyNames(**raw["keys"]),
    )


def _tls_to_json(tls: TlsSettings) -> dict[str, Any]:
    return _fields(tls) | {"key": _revealed(tls.key)}


def _tls_from_json(raw: dict[str, Any]) -> TlsSettings:
    lists = {name: tuple(raw[name]) for name in ("protocols", "ciphers")}
    return TlsSettings(**{**raw, **lists, "key": _secret(raw["key"])})


def _sasl_to_json(sasl: SaslSettings) -> dict[str, Any]:
    oauth = None
    if sasl.oauth is not None:
        oauth = _fields(sasl.oauth) | {
            "client_secret": _revealed(sasl.oauth.client_secret),
            "static_token": _revealed(sasl.oauth.static_token),
            "form_fields": dict(sasl.oauth.form_fields),
            "secret_form_fields": {
                name: one.reveal() for name, one in sasl.oauth.secret_form_fields.items()
            },
            "extensions": dict(sasl.oauth.extensions),
            "tls": _tls_to_json(sasl.oauth.tls),
            "assertion": None
            if sasl.oauth.assertion is None
            else _fields(sasl.oauth.assertion) | {"key": sasl.oauth.assertion.key.reveal()},
        }
    kerberos = None
    if sasl.kerberos is not None:
        kerberos = _fields(sasl.kerberos) | {"keytab": _revealed(sasl.kerberos.keytab)}
    aws = None
    if sasl.aws is not None:
        aws = _fields(sasl.aws) | {
            "secret_key": _revealed(sasl.aws.secret_key),
            "session_token": _revealed(sasl.aws.session_token),
        }
    return _fields(sasl) | {
        "mechanism": sasl.mechanism.value,
        "password": _revealed(sasl.password),
        "oauth": oauth,
        "kerberos": kerberos,
        "aws": aws,
    }


def _sasl_from_json(raw: dict[str, Any]) -> SaslSettings:
    oauth = raw["oauth"]
    if oauth is not None:
        hidden = {name: _secret(oauth[name]) for name in ("client_secret", "static_token")}
        fields = {name: Secret(text) for name, text in oauth["secret_form_fields"].items()}
        tls, assertion = _tls_from_json(oauth["tls"]), oauth["assertion"]
        if assertion is not None:
            assertion = AssertionSettings(**{**assertion, "key": Secret(assertion["key"])})
        parts = {"secret_form_fields": fields, "tls": tls, "assertion": assertion}
        oauth = OAuthSettings(**{**oauth, **hidden, **parts})
    kerberos = raw["kerberos"]
    if kerberos is not None:
        kerberos = KerberosSettings(**{**kerberos, "keytab": _secret(kerberos["keytab"])})
    aws = raw["aws"]
    if aws is not None:
        hidden = {name: _secret(aws[name]) for name in ("secret_key", "session_token")}
        aws = AwsSettings(**{**aws, **hidden})
    return SaslSettings(
        **{
            **raw,
            "mechanism": SaslMechanism(raw["mechanism"]),
            "password": _secret(raw["password"]),
            "oauth": oauth,
            "kerberos": kerberos,
            "aws": aws,
        }
    )


def _fields(value: object) -> dict[str, Any]:
    """Return the fields of one level; nested settings and secrets are converted explicitly."""
    return {name: getattr(value, name) for name in value.__slots__}  # type: ignore[attr-defined] # all of them have slots


def _revealed(secret: Secret | None) -> str | None:
    return None if secret is None else secret.reveal()


def _secret(text: str | None) -> Secret | None:
    return None if text is None else Secret(text)
