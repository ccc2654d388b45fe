# SPDX-License-Identifier: Apache-2.0
"""Where tokens come from: Kafka's keys, Kafka's JAAS options, and Strimzi's names for both.

Kafka's keys win against options of the JAAS line, and options win against Strimzi's names as keys,
which only we read there.
"""

from __future__ import annotations

from collections.abc import Sequence
from urllib.parse import urlsplit

from sparkmirror.config.reading import Reader
from sparkmirror.config.security_texts import JAAS, JaasTexts, KeyTexts, Misfit, Texts
from sparkmirror.config.stores import read_identity, read_trust
from sparkmirror.model import Secret
from sparkmirror.security.settings import OAuthSettings, TlsSettings

ENDPOINT = "sasl.oauthbearer.token.endpoint.url"
_EXTENSION = ("extension_", "oauth.sasl.extension.")
_REFUSED = {
    "oauth.access.token": "a token that does not change would end with a flow that fails",
    "oauth.refresh.token": "a refresh token belongs to a person",
    "oauth.password.grant.username": "a password grant belongs to a person",
    "oauth.password.grant.password": "a password grant belongs to a person",
    "oauth.client.assertion": "only a client secret is known here",
    "oauth.client.assertion.location": "only a client secret is known here",
}
_DEFAULT_SECONDS = 10.0

# What an option of the JAAS line may be called, the strongest first.
_ID = ("clientId", "oauth.client.id")
_SECRET = ("clientSecret", "oauth.client.secret")
_SCOPE = ("scope", "oauth.scope")
_OPTIONS = frozenset(
    {
        *_ID,
        *_SECRET,
        *_SCOPE,
        "oauth.token.endpoint.uri",
        "oauth.audience",
        "oauth.connect.timeout.seconds",
        "oauth.read.timeout.seconds",
    }
)


def read_oauth(reader: Reader, line: JaasTexts | None) -> OAuthSettings:
    """The settings, or a Misfit about what is missing or wrong."""
    keys = KeyTexts(reader)
    places: tuple[Texts, ...] = (keys,) if line is None else (line, keys)
    for name, reason in _REFUSED.items():
        for place in places:
            if _has(place, name):
                raise place.misfit(
                    name, f"is not used here ({reason}): write a client's id and secret"
                )
    url = keys.text(ENDPOINT) or _first(places, ("oauth.token.endpoint.uri",))
    if not url:
        raise keys.misfit(ENDPOINT, "is missing: write where tokens are to be asked for")
    _check_url(keys, url)
    credentials = "sasl.oauthbearer.client.credentials.client"
    client_id = keys.text(f"{credentials}.id") or _first(places, _ID)
    secret = keys.secret(f"{credentials}.secret") or _first_secret(places, _SECRET)
    if not client_id or secret is None:
        raise Misfit(
            JAAS,
            f"{keys.called(JAAS)} must name clientId and clientSecret, with which tokens are asked "
            f"for, or {credentials}.id and {credentials}.secret must be set",
        )
    return OAuthSettings(
        endpoint=url,
        client_id=client_id,
        client_secret=secret,
        scope=keys.text("sasl.oauthbearer.scope") or _first(places, _SCOPE) or "",
        audience=_first(places, ("oauth.audience",)) or "",
        extensions={} if line is None else line.below(_EXTENSION),
        urlencodes_header=reader.boolean("sasl.oauthbearer.header.urlencode"),
        tls=_tls(places),
        connect_timeout_seconds=_seconds(reader, places, "connect"),
        read_timeout_seconds=_seconds(reader, places, "read"),
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


def _check_url(keys: KeyTexts, url: str) -> None:
    try:
        parts = urlsplit(url)
        is_url = parts.scheme.lower() in ("http", "https") and bool(parts.hostname)
        has_password = parts.password is not None
    except ValueError:
        is_url = has_password = False
    if not is_url or has_password:
        raise keys.misfit(
            ENDPOINT,
            "must be an address such as https://host/path, without a password in it"
            " (oauth.token.endpoint.uri means the same)",
        )


def _seconds(reader: Reader, places: Sequence[Texts], what: str) -> float:
    milliseconds = reader.optional_integer(f"sasl.login.{what}.timeout.ms")
    if milliseconds is not None:
        return milliseconds / 1000
    text = _first(places, (f"oauth.{what}.timeout.seconds",))
    return float(text) if text else _DEFAULT_SECONDS


def _has(place: Texts, name: str) -> bool:
    return place.secret(name) is not None or bool(place.text(name))


def _first(places: Sequence[Texts], names: Sequence[str]) -> str | None:
    return next((text for place in places for name in names if (text := place.text(name))), None)


def _first_secret(places: Sequence[Texts], names: Sequence[str]) -> Secret | None:
    found = (place.secret(name) for place in places for name in names)
    return next((one for one in found if one is not None), None)
