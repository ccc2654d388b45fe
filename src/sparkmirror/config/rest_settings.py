# SPDX-License-Identifier: Apache-2.0
"""How the REST API is served, of a worker's file as of a mirror's: addresses, TLS, who may use it.

TLS is Connect's: `listeners.https.ssl.*`, and if there is no such key at all, the `ssl.*` keys that
the file has for Kafka. It serves https listeners, and says whom to trust among other workers.
"""

from __future__ import annotations

import os
from collections.abc import Iterable

from sparkmirror.config.keys_rest import CLIENT_AUTH_KEY, HTTPS_KEYS, HTTPS_PREFIX, LISTENER
from sparkmirror.config.layering import Layered
from sparkmirror.config.notices import Level
from sparkmirror.config.providers import Resolver
from sparkmirror.config.reading import Reader, Report
from sparkmirror.config.rest_logins import EXTENSION, EXTENSION_NAMES, LOGIN_KEY, read_users
from sparkmirror.config.security_settings import read_tls
from sparkmirror.config.security_texts import KeyTexts, Misfit
from sparkmirror.config.worker_settings import Listener, RestSettings
from sparkmirror.errors import ConfigError
from sparkmirror.model import Secret
from sparkmirror.security.login_files import login_file_of
from sparkmirror.security.settings import TlsSettings
from sparkmirror.security.tls import server_context

_HTTPS = "https"
_EXTENSIONS = "rest.extension.classes"


def read_rest(
    values: Layered,
    reader: Reader,
    resolver: Resolver,
    report: Report,
    listeners: tuple[Listener, ...],
    admin_listeners: tuple[Listener, ...] | None = None,
) -> RestSettings:
    """All of it; what is wrong stands in the report."""
    tls, client_auth = TlsSettings(), "none"
    asking = _https_key(listeners, admin_listeners or ())
    if asking or _has_own(values):
        errors = _errors(report)
        tls, client_auth = _read_tls(tls_values(values), resolver, report)
        if asking and not tls.chain and _errors(report) == errors:
            report.error(
                reader.value(asking),
                asking,
                f"{asking} names https, and there is no certificate for it: set "
                f"{HTTPS_PREFIX}ssl.keystore.location and {HTTPS_PREFIX}ssl.keystore.password.",
            )
    return RestSettings(
        listeners=listeners,
        admin_listeners=admin_listeners,
        advertised_host=unquoted(reader.string("rest.advertised.host.name")),
        advertised_port=reader.optional_integer("rest.advertised.port"),
        advertised_scheme=reader.string("rest.advertised.listener").lower(),
        allow_origin=reader.string("access.control.allow.origin"),
        allow_methods=reader.string("access.control.allow.methods"),
        response_headers=reader.string("response.http.headers.config"),
        tls=tls,
        client_auth=client_auth,
        users=_read_users(reader, report, (*listeners, *(admin_listeners or ()))),
    )


def read_listeners(reader: Reader, name: str) -> tuple[Listener, ...]:
    """The addresses that a key lists."""
    found = (LISTENER.fullmatch(item) for item in reader.strings(name))
    return tuple(
        Listener(one["scheme"].lower(), one["host"].strip("[]"), int(one["port"]))
        for one in found
        if one is not None
    )


def unquoted(text: str) -> str:
    """No host name has quotes; images that make files of environment variables leave them in."""
    return text.strip("\"'")


def tls_values(values: Layered) -> Layered:
    """The keys that say how https is served, without Connect's prefix."""
    prefix = HTTPS_PREFIX if _has_own(values) else ""
    return Layered(
        (name.removeprefix(prefix), value)
        for name, value in values.items()
        if name.startswith(f"{prefix}ssl.")
    )


def _has_own(values: Layered) -> bool:
    return any(name.startswith(HTTPS_PREFIX) for name in values)


def _https_key(listeners: Iterable[Listener], admin_listeners: Iterable[Listener]) -> str:
    """The key that names https; empty if none does."""
    for key, found in (("listeners", listeners), ("admin.listeners", admin_listeners)):
        if any(one.scheme == _HTTPS for one in found):
            return key
    return ""


def _errors(report: Report) -> int:
    return sum(one.level is Level.ERROR for one in report.notices)


def _read_tls(values: Layered, resolver: Resolver, report: Report) -> tuple[TlsSettings, str]:
    reader = Reader("https", values, resolver, report)
    reader.read_all(HTTPS_KEYS)
    name = CLIENT_AUTH_KEY.name
    client_auth = reader.string(name).lower()
    if any(reader.is_wrong(key.name) for key in HTTPS_KEYS):
        return TlsSettings(), client_auth  # that is said already
    try:
        tls = read_tls(reader, report)
        _try_out(reader, tls, client_auth)
    except Misfit as error:
        report.error(reader.value(error.name), error.name, f"{error}.")
        return TlsSettings(), client_auth
    if client_auth != "none" and tls.trusted is None:
        key = reader.origin(name).key
        report.error(
            reader.value(name),
            key,
            f"{key}={client_auth} needs {key.removesuffix(name)}ssl.truststore.location, which "
            "says who vouches for clients.",
        )
    return tls, client_auth


def _try_out(reader: Reader, tls: TlsSettings, client_auth: str) -> None:
    """Whether a listener can use it: OpenSSL refuses weak certificates there."""
    if tls.chain:
        try:
            server_context(tls, client_auth)
        except ValueError as error:
            names = ("ssl.keystore.location", "ssl.keystore.key")
            blame = next(filter(reader.is_given, names), names[0])
            raise KeyTexts(reader).misfit(blame, f"cannot be used: {error}") from error


def _read_users(
    reader: Reader, report: Report, listeners: Iterable[Listener]
) -> dict[str, Secret] | None:
    listed = reader.strings(_EXTENSIONS)
    others = [one for one in listed if one not in EXTENSION_NAMES]
    origin = reader.origin(_EXTENSIONS)
    if others:
        sentence = (
            f"{_EXTENSIONS}: {', '.join(others)} is not run, there is no Java here: what it "
            f"guards is not guarded. Known is {EXTENSION}."
        )
        if all(one.is_loopback for one in listeners):
            report.warn(origin, sentence)
        else:
            remedy = "Take it out to serve without it, or let listeners name 127.0.0.1 only."
            report.error(reader.value(_EXTENSIONS), _EXTENSIONS, f"{sentence} {remedy}")
    if len(others) == len(listed):
        if reader.is_set(LOGIN_KEY):
            report.warn(
                reader.origin(LOGIN_KEY), f"{LOGIN_KEY} does nothing without {_EXTENSIONS}."
            )
        return None
    file = reader.string(LOGIN_KEY) or login_file_of(os.environ.get("KAFKA_OPTS", ""))
    key = LOGIN_KEY if reader.is_set(LOGIN_KEY) else _EXTENSIONS
    if not file:
        report.error(
            reader.value(key),
            key,
            f"{key} asks for passwords, and no file says which: set {LOGIN_KEY} to a JAAS file, or "
            "-Djava.security.auth.login.config in KAFKA_OPTS.",
        )
        return {}
    try:
        return read_users(file)
    except ConfigError as error:
        report.error(reader.value(key), key, f"{key}: {error}")
        return {}  # nobody, should anyone serve with this
