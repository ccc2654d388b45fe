# SPDX-License-Identifier: Apache-2.0
"""Reads the source of OAuth tokens: Kafka's keys, options of the JAAS line, and Strimzi's names.

Kafka's keys win over options of the JAAS line, and options win over Strimzi's names as keys, which
only sparkmirror reads. If several ways to get a token are configured, the first of these is used,
as in Kafka and in Strimzi's login: a static token, an assertion by Kafka's keys, a refresh token, a
user's password, a client's secret, an assertion by Strimzi's names.

Files are read here, once; changes are detected as for truststores. For assertions
(`sasl.oauthbearer.assertion.*`) claims of the template win over claims in keys, as in Kafka.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import replace
from typing import Any
from urllib.parse import SplitResult, unquote, urlsplit

from sparkmirror.config.files.config_reader import ConfigReader
from sparkmirror.config.security.security_options import (
    JAAS,
    ClientKeyOptions,
    JaasOptions,
    OptionSource,
    SecurityOptionError,
    read_keystore_option,
    read_token_file,
    read_truststore_option,
)
from sparkmirror.model import Secret
from sparkmirror.security.jaas import jwt_retriever
from sparkmirror.security.jwt_assertions import load_signing_key
from sparkmirror.security.settings import (
    CLIENT_CREDENTIALS,
    AssertionSettings,
    OAuthSettings,
    TlsSettings,
)
from sparkmirror.security.tokens import parse_static_token

ENDPOINT = "sasl.oauthbearer.token.endpoint.url"
_STRIMZI_ENDPOINT = "oauth.token.endpoint.uri"
_RETRIEVER = "sasl.oauthbearer.jwt.retriever.class"
_CREDENTIALS = "sasl.oauthbearer.client.credentials.client"
_EXTENSION = ("extension_", "oauth.sasl.extension.")
_DEFAULT_SECONDS = 10.0
_WORD = re.compile(r"[\x21-\x7e]+")
_JWT_BEARER = "urn:ietf:params:oauth:grant-type:jwt-bearer"  # RFC 7523
_JWT_ASSERTION = "urn:ietf:params:oauth:client-assertion-type:jwt-bearer"

# Names of options of the JAAS line, by descending precedence.
_ID = ("clientId", "oauth.client.id")
_SECRET = ("clientSecret", "oauth.client.secret")
_SCOPE = ("scope", "oauth.scope")
_TOKEN, _REFRESH = "oauth.access.token", "oauth.refresh.token"
_USERNAME, _PASSWORD = "oauth.password.grant.username", "oauth.password.grant.password"
_STRIMZI_ASSERTION = "oauth.client.assertion"
_GRANT = "oauth.client.credentials.grant.type"
_LONGEST = "oauth.max.token.expiry.seconds"
_LOCATED = (_TOKEN, _REFRESH, _STRIMZI_ASSERTION)  # `<name>.location` names a file instead
_OPTIONS = frozenset(
    {
        *_ID,
        *_SECRET,
        *_SCOPE,
        *_LOCATED,
        *(f"{name}.location" for name in _LOCATED),
        _USERNAME,
        _PASSWORD,
        f"{_STRIMZI_ASSERTION}.type",
        _GRANT,
        _LONGEST,
        _STRIMZI_ENDPOINT,
        "oauth.audience",
        "oauth.connect.timeout.seconds",
        "oauth.read.timeout.seconds",
    }
)
# A failed login names the first of these that is set.
LOGIN_KEYS = (*_LOCATED, JAAS, f"{_CREDENTIALS}.secret")
ENDPOINT_KEYS = (f"{_TOKEN}.location", ENDPOINT, _STRIMZI_ENDPOINT, JAAS)

ASSERTION = "sasl.oauthbearer.assertion"
_KEY, _TEMPLATE = f"{ASSERTION}.private.key.file", f"{ASSERTION}.template.file"


def read_oauth_settings(reader: ConfigReader, line: JaasOptions | None) -> OAuthSettings:
    """Read the settings. Raises SecurityOptionError for missing or invalid options."""
    keys = ClientKeyOptions(reader)
    places: tuple[OptionSource, ...] = (keys,) if line is None else (line, keys)
    settings = _common_settings(reader, keys, line, places)
    given = _find(places, _TOKEN)
    if given is not None:
        place, name, token = given
        return _with_static_token(settings, place, name, token)
    place, name, parts = _endpoint(keys, places)
    is_file, how = parts.scheme == "file", jwt_retriever(reader.string(_RETRIEVER))
    if how and is_file != (how == "FileJwtRetriever"):
        kind = "file:///path" if how == "FileJwtRetriever" else "https://host/path"
        raise place.error(name, f"must be {kind}, because {keys.display_name(_RETRIEVER)} is {how}")
    if is_file:
        return _with_static_token(
            settings, place, name, _read_token(place, name, unquote(parts.path))
        )
    settings = replace(settings, endpoint=parts.geturl())
    if how == "JwtBearerJwtRetriever":
        settings = replace(settings, form_fields={"grant_type": _JWT_BEARER})
        return _with_assertion(settings, reader, "assertion")
    return _with_grant(settings, reader, places)


def _with_static_token(
    settings: OAuthSettings, place: OptionSource, name: str, token: Secret
) -> OAuthSettings:
    """Add a token that is used as it is, without a token endpoint."""
    try:
        parse_static_token(token.reveal())
    except ValueError as error:
        raise place.error(name, f"gives {error}") from None
    is_fixed = name == _TOKEN
    return replace(
        settings, endpoint="" if is_fixed else place.display_value(name), static_token=token
    )


def _with_grant(
    settings: OAuthSettings, reader: ConfigReader, places: Sequence[OptionSource]
) -> OAuthSettings:
    """Add the client's id and the grant with its credentials."""
    keys = ClientKeyOptions(reader)
    client_id = keys.text(f"{_CREDENTIALS}.id") or _first(places, _ID) or ""
    secret = keys.secret(f"{_CREDENTIALS}.secret") or _first_secret(places, _SECRET)
    if any(keys.text(f"{ASSERTION}.{name}") for name in ("file", "claim.iss")):
        asserting = _with_assertion_fields(settings, client_id, _JWT_ASSERTION)
        return _with_assertion(asserting, reader, "client_assertion")
    if not client_id:
        raise _missing_credentials(keys)
    settings = replace(settings, client_id=client_id, client_secret=secret)
    if (refresh := _find(places, _REFRESH)) is not None:
        fields = {"grant_type": "refresh_token", "client_id": client_id}
        return replace(
            settings, form_fields=fields, secret_form_fields={"refresh_token": refresh[2]}
        )
    if username := _first(places, (_USERNAME,)):
        password = _first_secret(places, (_PASSWORD,))
        if password is None:
            raise keys.error(_PASSWORD, f"is missing: {_USERNAME} is set")
        return replace(
            settings,
            client_secret=secret or Secret(""),  # as Strimzi
            form_fields={"grant_type": "password", "username": username},
            secret_form_fields={"password": password},
        )
    if secret is not None:
        grant = _first(places, (_GRANT,)) or CLIENT_CREDENTIALS
        return replace(settings, form_fields={"grant_type": grant})
    if (assertion := _find(places, _STRIMZI_ASSERTION)) is not None:
        kind = _first(places, (f"{_STRIMZI_ASSERTION}.type",)) or _JWT_ASSERTION
        asserting = _with_assertion_fields(settings, client_id, kind)
        return replace(asserting, secret_form_fields={"client_assertion": assertion[2]})
    raise _missing_credentials(keys)


def _with_assertion_fields(settings: OAuthSettings, client_id: str, kind: str) -> OAuthSettings:
    fields = {"grant_type": CLIENT_CREDENTIALS, "client_assertion_type": kind}
    fields |= {"client_id": client_id} if client_id else {}
    return replace(settings, client_id=client_id, form_fields=fields)


def _with_assertion(settings: OAuthSettings, reader: ConfigReader, sent_as: str) -> OAuthSettings:
    """Add an assertion as Kafka does: from a file, or else signed here."""
    keys, name = ClientKeyOptions(reader), f"{ASSERTION}.file"
    if path := keys.text(name):
        return replace(settings, secret_form_fields={sent_as: _read_token(keys, name, path)})
    return replace(settings, assertion=read_assertion_settings(reader, sent_as))


def _missing_credentials(keys: ClientKeyOptions) -> SecurityOptionError:
    return SecurityOptionError(
        JAAS,
        f"{keys.display_name(JAAS)} must have the options clientId and clientSecret, or "
        f"{_CREDENTIALS}.id and {_CREDENTIALS}.secret must be set (a refresh token, a user's "
        "password and an assertion also need oauth.client.id)",
    )


def _find(places: Sequence[OptionSource], name: str) -> tuple[OptionSource, str, Secret] | None:
    """Return a secret and its source: the file that `<name>.location` names, or the option."""
    for place in places:
        location = f"{name}.location"
        if path := place.text(location):
            return place, location, _read_token(place, location, path)
        if (secret := place.secret(name)) is not None:
            return place, name, secret
    return None


def _read_token(place: OptionSource, name: str, path: str) -> Secret:
    """Read a token from a file."""
    data = read_token_file(place, name, path)
    text = data.decode("ascii", "replace").strip()
    if not _WORD.fullmatch(text):
        raise place.error(
            name,
            f"names {place.display_value(name)}, which must contain one token on one line",
        )
    return Secret(text)


def _common_settings(
    reader: ConfigReader,
    keys: ClientKeyOptions,
    line: JaasOptions | None,
    places: Sequence[OptionSource],
) -> OAuthSettings:
    """Read the settings that do not depend on the grant."""
    longest = _number(reader, line, _LONGEST)
    return OAuthSettings(
        endpoint="",
        scope=keys.text("sasl.oauthbearer.scope") or _first(places, _SCOPE) or "",
        audience=_first(places, ("oauth.audience",)) or "",
        extensions={} if line is None else line.with_prefixes(_EXTENSION),
        urlencodes_header=reader.boolean("sasl.oauthbearer.header.urlencode"),
        tls=_tls(places),
        max_token_seconds=longest if longest is not None and longest > 0 else None,
        connect_timeout_seconds=_seconds(reader, line, "connect"),
        read_timeout_seconds=_seconds(reader, line, "read"),
        refresh_window_factor=reader.double("sasl.login.refresh.window.factor"),
        refresh_min_seconds=reader.integer("sasl.login.refresh.min.period.seconds"),
        refresh_buffer_seconds=reader.integer("sasl.login.refresh.buffer.seconds"),
    )


def is_oauth_option(name: str) -> bool:
    return name in _OPTIONS or name.startswith((*_EXTENSION, "oauth.ssl.", "ssl."))


def _tls(places: Sequence[OptionSource]) -> TlsSettings:
    """Read the TLS settings of the token endpoint: Strimzi's keys, or Kafka's as JAAS options.

    The `ssl.` keys of brokers do not apply to the endpoint, as in Java.
    """
    line = places[0] if len(places) > 1 else None
    for place, prefix in [(line, "ssl."), *((place, "oauth.ssl.") for place in places)]:
        if place is None:
            continue
        trusted = read_truststore_option(place, prefix)
        identity = read_keystore_option(place, prefix) if prefix == "ssl." else None
        algorithm = place.text(f"{prefix}endpoint.identification.algorithm")
        if trusted is None and identity is None and algorithm is None:
            continue
        return TlsSettings(
            trusted=trusted,
            chain=identity.chain if identity else "",
            key=identity.key if identity else None,
            verifies_hostname=algorithm is None or bool(algorithm.strip()),
        )
    return TlsSettings()


def _endpoint(
    keys: ClientKeyOptions, places: Sequence[OptionSource]
) -> tuple[OptionSource, str, SplitResult]:
    """Return the URL of the token endpoint or token file, with its source."""
    candidates: list[tuple[OptionSource, str]] = [
        (keys, ENDPOINT),
        *((place, _STRIMZI_ENDPOINT) for place in places),
    ]
    for place, name in candidates:
        if url := place.text(name):
            return place, name, _parts(place, name, url)
    raise keys.error(
        ENDPOINT,
        "is missing: set it to the URL of the token endpoint (https://host/path) or of a token "
        "file (file:///path)",
    )


def _parts(place: OptionSource, name: str, url: str) -> SplitResult:
    try:
        parts = urlsplit(url)
        is_file = parts.scheme == "file" and not parts.netloc and parts.path.startswith("/")
        is_address = parts.scheme in ("http", "https") and bool(parts.hostname)
        is_url = is_file or (is_address and parts.password is None)
    except ValueError:
        is_url = False
    if not is_url:
        raise place.error(
            name,
            "must be a URL such as https://host/path, without a password, or a file such as "
            "file:///path",
        )
    return parts


def _seconds(reader: ConfigReader, line: JaasOptions | None, what: str) -> float:
    milliseconds = reader.optional_integer(f"sasl.login.{what}.timeout.ms")
    if milliseconds is not None:
        return milliseconds / 1000
    return _number(reader, line, f"oauth.{what}.timeout.seconds") or _DEFAULT_SECONDS


def _number(reader: ConfigReader, line: JaasOptions | None, name: str) -> float | None:
    """Return a number of Strimzi's: an option of the JAAS line, or else a key."""
    text = None if line is None else line.text(name)
    return float(text) if text else reader.optional_integer(name)


def _first(places: Sequence[OptionSource], names: Sequence[str]) -> str | None:
    return next((text for place in places for name in names if (text := place.text(name))), None)


def _first_secret(places: Sequence[OptionSource], names: Sequence[str]) -> Secret | None:
    found = (place.secret(name) for place in places for name in names)
    return next((one for one in found if one is not None), None)


def read_assertion_settings(reader: ConfigReader, sent_as: str) -> AssertionSettings:
    """Read how assertions are signed and sent as the form field `sent_as`.

    Raises SecurityOptionError for missing or invalid options.
    """
    keys = ClientKeyOptions(reader)
    path = keys.text(_KEY)
    if not path:
        raise keys.error(
            _KEY, f"is missing: set it to the key that signs assertions, or set {ASSERTION}.file"
        )
    algorithm = reader.string(f"{ASSERTION}.algorithm").upper()
    data = read_token_file(keys, _KEY, path)
    try:
        key = load_signing_key(
            data, reader.secret(f"{ASSERTION}.private.key.passphrase"), algorithm
        )
    except ValueError as error:
        raise keys.error(_KEY, f"({keys.display_value(_KEY)}) cannot be used: {error}") from error
    template = _template(keys)
    named = {name: keys.text(f"{ASSERTION}.claim.{name}") for name in ("aud", "iss", "sub")}
    return AssertionSettings(
        form_field=sent_as,
        key=key,
        algorithm=algorithm,
        header=template["header"],
        claims={name: text for name, text in named.items() if text} | template["payload"],
        lifetime_seconds=reader.integer(f"{ASSERTION}.claim.exp.seconds"),
        not_before_skew_seconds=reader.integer(f"{ASSERTION}.claim.nbf.seconds"),
        includes_jti=reader.boolean(f"{ASSERTION}.claim.jti.include"),
    )


def _template(keys: ClientKeyOptions) -> dict[str, dict[str, Any]]:
    path = keys.text(_TEMPLATE)
    if not path:
        return parse_template(b"{}")
    data = read_token_file(keys, _TEMPLATE, path)
    try:
        return parse_template(data)
    except ValueError as error:
        raise keys.error(
            _TEMPLATE, f"names {keys.display_value(_TEMPLATE)}, which {error}"
        ) from None


def parse_template(data: bytes) -> dict[str, dict[str, Any]]:
    """Return header and payload, each empty if absent. Raises ValueError for another structure."""
    try:
        content = json.loads(data)
    except (ValueError, RecursionError):
        content = None
    if isinstance(content, dict):
        parts = {name: content.get(name, {}) for name in ("header", "payload")}
        if all(isinstance(part, dict) for part in parts.values()):
            return parts
    raise ValueError("must be a JSON object with header and payload")
