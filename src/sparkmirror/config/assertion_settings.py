# SPDX-License-Identifier: Apache-2.0
"""Assertions that Kafka's clients sign: `sasl.oauthbearer.assertion.*`, save the file with one.

Claims of the template win against those that are keys, as in Kafka.
"""

from __future__ import annotations

import json
from typing import Any

from sparkmirror.config.reading import Reader
from sparkmirror.config.security_texts import KeyTexts
from sparkmirror.config.token_files import read_token_file
from sparkmirror.security.assertions import read_key
from sparkmirror.security.settings import AssertionSettings

ASSERTION = "sasl.oauthbearer.assertion"
_KEY, _TEMPLATE = f"{ASSERTION}.private.key.file", f"{ASSERTION}.template.file"


def read_assertion(reader: Reader, sent_as: str) -> AssertionSettings:
    """What is to be signed, and sent as that field; Misfit about what is missing or wrong."""
    keys = KeyTexts(reader)
    path = keys.text(_KEY)
    if not path:
        raise keys.misfit(
            _KEY, f"is missing: write where the key is that signs assertions, or {ASSERTION}.file"
        )
    algorithm = reader.string(f"{ASSERTION}.algorithm").upper()
    data = read_token_file(keys, _KEY, path)
    try:
        key = read_key(data, reader.secret(f"{ASSERTION}.private.key.passphrase"), algorithm)
    except ValueError as error:
        raise keys.misfit(_KEY, f"({keys.shown(_KEY)}) cannot be used: {error}") from error
    template = _template(keys)
    named = {name: keys.text(f"{ASSERTION}.claim.{name}") for name in ("aud", "iss", "sub")}
    return AssertionSettings(
        sent_as=sent_as,
        key=key,
        algorithm=algorithm,
        header=template["header"],
        claims={name: text for name, text in named.items() if text} | template["payload"],
        lifetime_seconds=reader.integer(f"{ASSERTION}.claim.exp.seconds"),
        early_seconds=reader.integer(f"{ASSERTION}.claim.nbf.seconds"),
        has_id=reader.boolean(f"{ASSERTION}.claim.jti.include"),
    )


def _template(keys: KeyTexts) -> dict[str, dict[str, Any]]:
    path = keys.text(_TEMPLATE)
    if not path:
        return parse_template(b"{}")
    data = read_token_file(keys, _TEMPLATE, path)
    try:
        return parse_template(data)
    except ValueError as error:
        raise keys.misfit(_TEMPLATE, f"names {keys.shown(_TEMPLATE)}, which {error}") from None


def parse_template(data: bytes) -> dict[str, dict[str, Any]]:
    """Its header and payload, empty where there are none; ValueError if it is no template."""
    try:
        content = json.loads(data)
    except (ValueError, RecursionError):
        content = None
    if isinstance(content, dict):
        parts = {name: content.get(name, {}) for name in ("header", "payload")}
        if all(isinstance(part, dict) for part in parts.values()):
            return parts
    raise ValueError("must be a JSON object with header and payload")
