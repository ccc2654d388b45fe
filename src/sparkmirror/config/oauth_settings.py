# SPDX-License-Identifier: Apache-2.0
"""Where tokens come from: Kafka's keys, Kafka's JAAS options, and Strimzi's names for both.

Kafka's keys win against options of the JAAS line, and options win against Strimzi's names as keys,
which only we read there. Of several ways to get a token, the first of these counts, as in Kafka and
in Strimzi's login: a token that is given, an assertion by Kafka's keys, a refresh token, a user's
password, a client's secret, an assertion by Strimzi's names.

Files are read here, once; a newer token in one is noticed as a newer trust store is.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from urllib.parse import SplitResult, unquote, urlsplit

from sparkmirror.config.assertion_settings import ASSERTION, read_assertion
from sparkmirror.config.login_classes import retriever
from sparkmirror.config.reading import Reader
from sparkmirror.config.security_texts import JAAS, JaasTexts, KeyTexts, Misfit, Texts
from sparkmirror.config.stores import read_identity, read_trust
from sparkmirror.config.token_files import read_token_file
from sparkmirror.model import Secret
from sparkmirror.security.settings import CLIENT_CREDENTIALS, OAuthSettings, TlsSettings
from sparkmirror.security.tokens import given_token

ENDPOINT = "sasl.oauthbearer.token.endpoint.url"
_STRIMZI_ENDPOINT = "oauth.token.endpoint.uri"
_RETRIEVER = "sasl.oauthbearer.jwt.retriever.class"
_CREDENTIALS = "sasl.oauthbearer.client.credentials.client"
_EXTENSION = ("extension_", "oauth.sasl.extension.")
_DEFAULT_SECONDS = 10.0
_WORD = re.compile(r"[\x21-\x7e]+")
_JWT_BEARER = "urn:ietf:params:oauth:grant-type:jwt-bearer"  # RFC 7523
_JWT_ASSERTION = "urn:ietf:params:oauth:client-assertion-type:jwt-bearer"

# What an option of the JAAS line may be called, the strongest first.
_ID = ("clientId", "oauth.client.id")
_SECRET = ("clientSecret", "oauth.client.secret")
_SCOPE = ("scope", "oauth.scope")
_TOKEN, _REFRESH = "oauth.access.token", "oauth.refresh.token"
_USERNAME, _PASSWORD = "oauth.password.grant.username", "oauth.password.grant.password"
_STRIMZI_ASSERTION = "oauth.client.assertion"
_GRANT = "oauth.client.credentials.grant.type"
_LONGEST = "oauth.max.token.expiry.seconds"
_LOCATED = (_TOKEN, _REFRESH, _STRIMZI_ASSERTION)  # each also as a file
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
# Whom to name when a login fails: the first that is set.
LOGIN_KEYS = (*_LOCATED, JAAS, f"{_CREDENTIALS}.secret")
ENDPOINT_KEYS = (f"{_TOKEN}.location", ENDPOINT, _STRIMZI_ENDPOINT, JAAS)


def read_oauth(reader: Reader, line: JaasTexts | None) -> OAuthSettings:
    """The settings, or a Misfit about what is missing or wrong."""
    keys = KeyTexts(reader)
    places: tuple[Texts, ...] = (keys,) if line is None else (line, keys)
    settings = _without_source(reader, keys, line, places)
    given = _find(places, _TOKEN)
    if given is not None:
        place, name, token = given
        return _given(settings, place, name, token)
    place, name, parts = _endpoint(keys, places)
    is_file, how = parts.scheme == "file", retriever(reader.string(_RETRIEVER))
    if how and is_file != (how == "FileJwtRetriever"):
        kind = "file:///path" if how == "FileJwtRetriever" else "https://host/path"
        raise place.misfit(name, f"must be {kind}, because {keys.called(_RETRIEVER)} is {how}")
    if is_file:
        return _given(settings, place, name, _word(place, name, unquote(parts.path)))
    asked = replace(settings, endpoint=parts.geturl())
    if how == "JwtBearerJwtRetriever":
        granted = replace(asked, fields={"grant_type": _JWT_BEARER})
        return _with_assertion(granted, reader, "assertion")
    return _asked(asked, reader, places)


def _given(settings: OAuthSettings, place: Texts, name: str, token: Secret) -> OAuthSettings:
    """With a token for which nobody is asked; the file that it is in may be said later."""
    try:
        given_token(token.reveal())
    except ValueError as error:
        raise place.misfit(name, f"gives {error}") from None
    is_fixed = name == _TOKEN
    return replace(settings, endpoint="" if is_fixed else place.shown(name), token=token)


def _asked(settings: OAuthSettings, reader: Reader, places: Sequence[Texts]) -> OAuthSettings:
    """With who asks, and the proof."""
    keys = KeyTexts(reader)
    client_id = keys.text(f"{_CREDENTIALS}.id") or _first(places, _ID) or ""
    secret = keys.secret(f"{_CREDENTIALS}.secret") or _first_secret(places, _SECRET)
    if any(keys.text(f"{ASSERTION}.{name}") for name in ("file", "claim.iss")):
        asserting = _asserting(settings, client_id, _JWT_ASSERTION)
        return _with_assertion(asserting, reader, "client_assertion")
    if not client_id:
        raise _nobody(keys)
    settings = replace(settings, client_id=client_id, client_secret=secret)
    if (refresh := _find(places, _REFRESH)) is not None:
        fields = {"grant_type": "refresh_token", "client_id": client_id}
        return replace(settings, fields=fields, secret_fields={"refresh_token": refresh[2]})
    if username := _first(places, (_USERNAME,)):
        password = _first_secret(places, (_PASSWORD,))
        if password is None:
            raise keys.misfit(_PASSWORD, f"is missing: {_USERNAME} names a user")
        return replace(
            settings,
            client_secret=secret or Secret(""),  # as Strimzi
            fields={"grant_type": "password", "username": username},
            secret_fields={"password": password},
        )
    if secret is not None:
        grant = _first(places, (_GRANT,)) or CLIENT_CREDENTIALS
        return replace(settings, fields={"grant_type": grant})
    if (assertion := _find(places, _STRIMZI_ASSERTION)) is not None:
        kind = _first(places, (f"{_STRIMZI_ASSERTION}.type",)) or _JWT_ASSERTION
        asserting = _asserting(settings, client_id, kind)
        return replace(asserting, secret_fields={"client_assertion": assertion[2]})
    raise _nobody(keys)


def _asserting(settings: OAuthSettings, client_id: str, kind: str) -> OAuthSettings:
    fields = {"grant_type": CLIENT_CREDENTIALS, "client_assertion_type": kind}
    fields |= {"client_id": client_id} if client_id else {}
    return replace(settings, client_id=client_id, fields=fields)


def _with_assertion(settings: OAuthSettings, reader: Reader, sent_as: str) -> OAuthSettings:
    """Kafka's way: with the one that is in a file, or else one that is signed here."""
    keys, name = KeyTexts(reader), f"{ASSERTION}.file"
    if path := keys.text(name):
        return replace(settings, secret_fields={sent_as: _word(keys, name, path)})
    return replace(settings, assertion=read_assertion(reader, sent_as))


def _nobody(keys: KeyTexts) -> Misfit:
    return Misfit(
        JAAS,
        f"{keys.called(JAAS)} must name clientId and clientSecret, with which tokens are asked "
        f"for, or {_CREDENTIALS}.id and {_CREDENTIALS}.secret must be set (a refresh token, a "
        "user's password and an assertion need oauth.client.id beside them)",
    )


def _find(places: Sequence[Texts], name: str) -> tuple[Texts, str, Secret] | None:
    """A secret, and where it was found: in the file that is named, or else as it is."""
    for place in places:
        location = f"{name}.location"
        if path := place.text(location):
            return place, location, _word(place, location, path)
        if (secret := place.secret(name)) is not None:
            return place, name, secret
    return None


def _word(place: Texts, name: str, path: str) -> Secret:
    """The one word that a file holds."""
    data = read_token_file(place, name, path)
    text = data.decode("ascii", "replace").strip()
    if not _WORD.fullmatch(text):
        raise place.misfit(
            name, f"names {place.shown(name)}, which must hold one word in one line, as tokens are"
        )
    return Secret(text)


def _without_source(
    reader: Reader, keys: KeyTexts, line: JaasTexts | None, places: Sequence[Texts]
) -> OAuthSettings:
    """All that has nothing to do with how a token is got."""
    longest = _number(reader, line, _LONGEST)
    return OAuthSettings(
        endpoint="",
        scope=keys.text("sasl.oauthbearer.scope") or _first(places, _SCOPE) or "",
        audience=_first(places, ("oauth.audience",)) or "",
        extensions={} if line is None else line.below(_EXTENSION),
        urlencodes_header=reader.boolean("sasl.oauthbearer.header.urlencode"),
        tls=_tls(places),
        longest_seconds=longest if longest is not None and longest > 0 else None,
        connect_timeout_seconds=_seconds(reader, line, "connect"),
        read_timeout_seconds=_seconds(reader, line, "read"),
        refresh_window_factor=reader.fraction("sasl.login.refresh.window.factor"),
        refresh_min_seconds=reader.integer("sasl.login.refresh.min.period.seconds"),
        refresh_buffer_seconds=reader.integer("sasl.login.refresh.buffer.seconds"),
    )


def is_option(name: str) -> bool:
    """Whether an option of the JAAS line is read here."""
    return name in _OPTIONS or name.startswith((*_EXTENSION, "oauth.ssl.", "ssl."))


def _tls(places: Sequence[Texts]) -> TlsSettings:
    """Of the token endpoint: Strimzi's keys, or Kafka's as options of the JAAS line.

    The keys of the brokers' TLS say nothing about the endpoint, in Java neither.
    """
    line = places[0] if len(places) > 1 else None
    for place, prefix in [(line, "ssl."), *((place, "oauth.ssl.") for place in places)]:
        if place is None:
            continue
        trusted = read_trust(place, prefix)
        identity = read_identity(place, prefix) if prefix == "ssl." else None
        algorithm = place.text(f"{prefix}endpoint.identification.algorithm")
        if trusted is None and identity is None and algorithm is None:
            continue
        return TlsSettings(
            trusted=trusted,
            chain=identity.chain if identity else "",
            key=identity.key if identity else None,
            checks_host=algorithm is None or bool(algorithm.strip()),
        )
    return TlsSettings()


def _endpoint(keys: KeyTexts, places: Sequence[Texts]) -> tuple[Texts, str, SplitResult]:
    """Where tokens are asked for, or the file that they are in, and what says so."""
    spots: list[tuple[Texts, str]] = [
        (keys, ENDPOINT),
        *((place, _STRIMZI_ENDPOINT) for place in places),
    ]
    for place, name in spots:
        if url := place.text(name):
            return place, name, _parts(place, name, url)
    raise keys.misfit(
        ENDPOINT,
        "is missing: write where tokens are to be asked for (https://host/path), or the file that "
        "they are in (file:///path)",
    )


def _parts(place: Texts, name: str, url: str) -> SplitResult:
    try:
        parts = urlsplit(url)
        is_file = parts.scheme == "file" and not parts.netloc and parts.path.startswith("/")
        is_address = parts.scheme in ("http", "https") and bool(parts.hostname)
        is_url = is_file or (is_address and parts.password is None)
    except ValueError:
        is_url = False
    if not is_url:
        raise place.misfit(
            name,
            "must be an address such as https://host/path, without a password in it, or a file "
            "such as file:///path",
        )
    return parts


def _seconds(reader: Reader, line: JaasTexts | None, what: str) -> float:
    milliseconds = reader.optional_integer(f"sasl.login.{what}.timeout.ms")
    if milliseconds is not None:
        return milliseconds / 1000
    return _number(reader, line, f"oauth.{what}.timeout.seconds") or _DEFAULT_SECONDS


def _number(reader: Reader, line: JaasTexts | None, name: str) -> float | None:
    """Of Strimzi's: as an option, or else as a key."""
    text = None if line is None else line.text(name)
    return float(text) if text else reader.optional_integer(name)


def _first(places: Sequence[Texts], names: Sequence[str]) -> str | None:
    return next((text for place in places for name in names if (text := place.text(name))), None)


def _first_secret(places: Sequence[Texts], names: Sequence[str]) -> Secret | None:
    found = (place.secret(name) for place in places for name in names)
    return next((one for one in found if one is not None), None)
