# SPDX-License-Identifier: Apache-2.0
"""Reads the REST server's settings, of a worker or a mirror: listeners, TLS, basic authentication.

TLS is configured by `listeners.https.ssl.*`, or by the file's `ssl.*` keys if there is none of
these, as in Connect. It applies to https listeners and to requests to other workers.

Basic authentication reads the files of Connect's BasicAuthSecurityRestExtension. A JAAS login file
has a section KafkaConnect, whose PropertyFileLoginModule names a properties file with a line
`user=password` for each user. KAFKA_OPTS or `rest.basic.auth.login.config` names the login file.
An empty properties file is an error; Java accepts every request then.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path

from sparkmirror.config.files.config_providers import ReferenceResolver
from sparkmirror.config.files.config_reader import ConfigReader
from sparkmirror.config.files.layering import LayeredConfig
from sparkmirror.config.files.notices import ConfigReport, NoticeLevel
from sparkmirror.config.files.properties import read_properties
from sparkmirror.config.keys.rest_keys import (
    CLIENT_AUTH_KEY,
    HTTPS_KEYS,
    HTTPS_PREFIX,
    LISTENER_PATTERN,
)
from sparkmirror.config.security.security_options import (
    ClientKeyOptions,
    SecurityOptionError,
    read_jaas_sections,
)
from sparkmirror.config.security.security_settings import read_tls
from sparkmirror.config.worker_settings import RestListener, RestSettings
from sparkmirror.errors import ConfigError
from sparkmirror.model import Secret
from sparkmirror.security.jaas import jaas_file_in_opts
from sparkmirror.security.settings import TlsSettings
from sparkmirror.security.tls import server_context

_HTTPS = "https"
_EXTENSIONS = "rest.extension.classes"

EXTENSION = "org.apache.kafka.connect.rest.basic.auth.extension.BasicAuthSecurityRestExtension"
EXTENSION_NAMES = frozenset({EXTENSION, EXTENSION.rpartition(".")[2]})
JAAS_FILE_KEY = "rest.basic.auth.login.config"
_MODULE = "org.apache.kafka.connect.rest.basic.auth.extension.PropertyFileLoginModule"
_SECTION = "KafkaConnect"


def read_rest(
    values: LayeredConfig,
    reader: ConfigReader,
    resolver: ReferenceResolver,
    report: ConfigReport,
    listeners: tuple[RestListener, ...],
    admin_listeners: tuple[RestListener, ...] | None = None,
) -> RestSettings:
    """Read the REST server's settings; errors go to the report."""
    tls, client_auth = TlsSettings(), "none"
    https_key = _https_key(listeners, admin_listeners or ())
    if https_key or _has_https_keys(values):
        errors = _count_errors(report)
        tls, client_auth = _read_tls(https_tls_keys(values), resolver, report)
        if https_key and not tls.chain and _count_errors(report) == errors:
            report.error(
                reader.value(https_key),
                https_key,
                f"{https_key} names https, and there is no certificate for it: set "
                f"{HTTPS_PREFIX}ssl.keystore.location and {HTTPS_PREFIX}ssl.keystore.password.",
            )
    return RestSettings(
        listeners=listeners,
        admin_listeners=admin_listeners,
        **reader.filled(RestSettings),
        tls=tls,
        client_auth=client_auth,
        users=_read_users(reader, report, (*listeners, *(admin_listeners or ()))),
    )


def read_listeners(reader: ConfigReader, name: str) -> tuple[RestListener, ...]:
    found = (LISTENER_PATTERN.fullmatch(item) for item in reader.strings(name))
    return tuple(
        RestListener(one["scheme"].lower(), one["host"].strip("[]"), int(one["port"]))
        for one in found
        if one is not None
    )


def https_tls_keys(values: LayeredConfig) -> LayeredConfig:
    """Return the `ssl.` keys of https listeners, without Connect's prefix."""
    prefix = HTTPS_PREFIX if _has_https_keys(values) else ""
    return LayeredConfig(
        (name.removeprefix(prefix), value)
        for name, value in values.items()
        if name.startswith(f"{prefix}ssl.")
    )


def _has_https_keys(values: LayeredConfig) -> bool:
    return any(name.startswith(HTTPS_PREFIX) for name in values)


def _https_key(listeners: Iterable[RestListener], admin_listeners: Iterable[RestListener]) -> str:
    """Return the key that names https; empty if none does."""
    for key, found in (("listeners", listeners), ("admin.listeners", admin_listeners)):
        if any(one.scheme == _HTTPS for one in found):
            return key
    return ""


def _count_errors(report: ConfigReport) -> int:
    return sum(one.level is NoticeLevel.ERROR for one in report.notices)


def _read_tls(
    values: LayeredConfig, resolver: ReferenceResolver, report: ConfigReport
) -> tuple[TlsSettings, str]:
    reader = ConfigReader("https", values, resolver, report)
    reader.read_all(HTTPS_KEYS)
    name = CLIENT_AUTH_KEY.name
    client_auth = reader.string(name).lower()
    if any(reader.is_invalid(key.name) for key in HTTPS_KEYS):
        return TlsSettings(), client_auth  # already reported
    try:
        tls = read_tls(reader, report)
        _check_server_context(reader, tls, client_auth)
    except SecurityOptionError as error:
        report.error(reader.value(error.name), error.name, f"{error}.")
        return TlsSettings(), client_auth
    if client_auth != "none" and tls.trusted is None:
        key = reader.origin(name).key
        report.error(
            reader.value(name),
            key,
            f"{key}={client_auth} needs {key.removesuffix(name)}ssl.truststore.location with the "
            "certificate authorities of clients.",
        )
    return tls, client_auth


def _check_server_context(reader: ConfigReader, tls: TlsSettings, client_auth: str) -> None:
    """Raise SecurityOptionError if a listener cannot use it: OpenSSL refuses weak certificates."""
    if tls.chain:
        try:
            server_context(tls, client_auth)
        except ValueError as error:
            names = ("ssl.keystore.location", "ssl.keystore.key")
            blame = next(filter(reader.is_configured, names), names[0])
            raise ClientKeyOptions(reader).error(blame, f"cannot be used: {error}") from error


def _read_users(
    reader: ConfigReader, report: ConfigReport, listeners: Iterable[RestListener]
) -> dict[str, Secret] | None:
    listed = reader.strings(_EXTENSIONS)
    others = [one for one in listed if one not in EXTENSION_NAMES]
    origin = reader.origin(_EXTENSIONS)
    if others:
        sentence = (
            f"{_EXTENSIONS}: {', '.join(others)} does not run, because it is Java: the REST API "
            f"is served without it. Supported is {EXTENSION}."
        )
        if all(one.is_loopback for one in listeners):
            report.warn(origin, sentence)
        else:
            remedy = "Remove it to serve without it, or set listeners to 127.0.0.1 only."
            report.error(reader.value(_EXTENSIONS), _EXTENSIONS, f"{sentence} {remedy}")
    if len(others) == len(listed):
        if reader.is_in_file(JAAS_FILE_KEY):
            report.warn(
                reader.origin(JAAS_FILE_KEY), f"{JAAS_FILE_KEY} does nothing without {_EXTENSIONS}."
            )
        return None
    file = reader.string(JAAS_FILE_KEY) or jaas_file_in_opts(os.environ.get("KAFKA_OPTS", ""))
    key = JAAS_FILE_KEY if reader.is_in_file(JAAS_FILE_KEY) else _EXTENSIONS
    if not file:
        report.error(
            reader.value(key),
            key,
            f"{key} requires passwords, and no file lists them: set {JAAS_FILE_KEY} to a JAAS "
            "file, or -Djava.security.auth.login.config in KAFKA_OPTS.",
        )
        return {}
    try:
        return read_basic_auth_users(file)
    except ConfigError as error:
        report.error(reader.value(key), key, f"{key}: {error}")
        return {}  # no user, in case the settings are used despite the error


def read_basic_auth_users(login_file: str) -> dict[str, Secret]:
    """Return passwords by user. Raises ConfigError that names the invalid file."""
    file = _credentials_file(login_file)
    found = read_properties(Path(file)).entries
    users = {name: Secret(entry.text) for name, entry in found.items() if name}
    if not users:
        raise ConfigError(
            f"{file} names no user, so every request would fail: write a line user=password "
            "for each, or remove the extension from rest.extension.classes."
        )
    return users


def _credentials_file(login_file: str) -> str:
    sections = read_jaas_sections(login_file, "the REST API")
    entries = sections.get(_SECTION)
    if entries is None:
        raise ConfigError(f"{login_file} has no section {_SECTION}, which the REST API needs.")
    if len(entries) != 1 or entries[0].module != _MODULE:
        raise ConfigError(
            f"The section {_SECTION} of {login_file} must contain one login module, {_MODULE}: "
            "other Java classes cannot run here."
        )
    file = entries[0].options.get("file", "").strip()
    if not file:
        raise ConfigError(
            f'The section {_SECTION} of {login_file} names no file: write file="/path/to/users".'
        )
    return file
