# SPDX-License-Identifier: Apache-2.0
"""Reads the options of Java's Krb5LoginModule: the source of Kerberos tickets.

useTicketCache (ticketCache) has precedence over useKeyTab (keyTab) for the principal. Options that
the module refuses are errors here, too. The keytab is read here. A ticket cache is read for each
connection, because tickets expire soon.
"""

from __future__ import annotations

import base64
import os
from collections.abc import Mapping
from pathlib import Path

from sparkmirror.config.files.config_reader import ConfigReader
from sparkmirror.config.files.notices import ConfigReport
from sparkmirror.config.files.tracked_files import read_bounded
from sparkmirror.config.security.security_options import (
    JAAS,
    PROTOCOL,
    ClientKeyOptions,
    JaasOptions,
)
from sparkmirror.model import Secret
from sparkmirror.quantities import format_bytes
from sparkmirror.security.jaas import krb5_conf_in_opts
from sparkmirror.security.keytab import MAX_BYTES, has_key, read_principals
from sparkmirror.security.settings import KerberosSettings

SERVICE = "sasl.kerberos.service.name"
_DEFAULT_SERVICE = "kafka"
_HOME_KEYTAB = "krb5.keytab"  # Java's default if neither keyTab nor krb5.conf names one
_PREFIXES = ("FILE:", "ANY:FILE:", "SRVTAB:")  # Java uses the rest as the path
# Option -> the option that Java requires with it.
_SWITCHES = {"keyTab": "useKeyTab", "ticketCache": "useTicketCache", "renewTGT": "useTicketCache"}
_READ = frozenset({*_SWITCHES, *_SWITCHES.values(), "principal", "serviceName"})
# Accepted without effect: prompts, logs, servers, or the default behaviour.
_NO_EFFECT = frozenset(
    {
        *("storeKey", "doNotPrompt", "debug", "refreshKrb5Config", "isInitiator", "client"),
        *("tryFirstPass", "useFirstPass", "storePass", "clearPass"),
    }
)


def read_kerberos_settings(
    reader: ConfigReader, line: JaasOptions | None, report: ConfigReport
) -> KerberosSettings:
    """Read the settings. Raises SecurityOptionError for invalid combinations."""
    texts = JaasOptions(reader, {}) if line is None else line
    for option, switch in _SWITCHES.items():
        wanted = _is_true(texts, option) if option == "renewTGT" else texts.text(option) is not None
        if wanted and not _is_true(texts, switch):
            raise texts.error(option, f"needs {switch}=true, as in Java")
    _warn_unused_options(reader, texts, report)
    principal = texts.text("principal") or ""
    uses_keytab, uses_cache = _is_true(texts, "useKeyTab"), _is_true(texts, "useTicketCache")
    if uses_keytab and not uses_cache and not principal:
        raise texts.error("useKeyTab", 'needs principal="...", the principal in the keytab')
    return KerberosSettings(
        service=_service(ClientKeyOptions(reader), texts),
        principal=principal,
        keytab=_keytab(texts, principal) if uses_keytab else None,
        uses_ticket_cache=uses_cache or not uses_keytab,
        ticket_cache=_path(texts.text("ticketCache") or ""),
    )


def _is_true(texts: JaasOptions, option: str) -> bool:
    return (texts.text(option) or "").lower() == "true"


def _service(keys: ClientKeyOptions, texts: JaasOptions) -> str:
    by_key, by_option = keys.text(SERVICE), texts.text("serviceName")
    if by_key and by_option and by_key != by_option:
        raise keys.error(SERVICE, f"differs from {texts.display_name('serviceName')}: remove one")
    return by_key or by_option or _DEFAULT_SERVICE


def _keytab(texts: JaasOptions, principal: str) -> Secret:
    given = _path(texts.text("keyTab") or "")
    if given:
        option, shown = "keyTab", texts.display_value("keyTab")
    else:
        option = "useKeyTab"
        shown = (
            f"{_HOME_KEYTAB} in the home directory, without keyTab (default_keytab_name in "
            "krb5.conf, which Java reads first, is not read: set keyTab to its path)"
        )
    path = Path(given) if given else Path.home() / _HOME_KEYTAB
    try:
        data = read_bounded(path, MAX_BYTES, only_files=True)
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise texts.error(
            option,
            f"names {shown}, which cannot be read ({reason}): it must exist on this machine and be "
            "readable",
        ) from error
    if data is None:
        raise texts.error(option, f"names {shown}, which is larger than {format_bytes(MAX_BYTES)}")
    try:
        principals = read_principals(data)
    except ValueError as error:
        raise texts.error(option, f"names {shown}, which cannot be used: {error}") from error
    if principal and not has_key(principals, principal):
        raise texts.error(
            option, f"names {shown}, which has no key for {texts.display_value('principal')}"
        )
    return Secret(base64.b64encode(data).decode())


def _path(text: str) -> str:
    for prefix in _PREFIXES:
        if text.upper().startswith(prefix):
            return text[len(prefix) :]
    return text


def _warn_unused_options(reader: ConfigReader, texts: JaasOptions, report: ConfigReport) -> None:
    origin = reader.origin(JAAS if reader.is_configured(JAAS) else PROTOCOL)
    unused = texts.unused(_READ | _NO_EFFECT)
    if unused:
        report.warn(origin, f"{texts.display_name(unused)} is not used here.")
    if _is_true(texts, "renewTGT"):
        report.warn(
            origin,
            f"{texts.display_name('renewTGT')} does nothing: the program that fills the ticket "
            "cache must renew the ticket.",
        )
    _warn_krb5_conf(reader, report, os.environ)


def _warn_krb5_conf(
    reader: ConfigReader, report: ConfigReport, environment: Mapping[str, str]
) -> None:
    """Warn about Java's option for krb5.conf, which the system's library does not read."""
    named = krb5_conf_in_opts(environment.get("KAFKA_OPTS", ""))
    if named and environment.get("KRB5_CONFIG") != named:
        report.warn(
            reader.origin(PROTOCOL),
            f"KAFKA_OPTS names {named} for Kerberos, which only Java reads: set "
            f"KRB5_CONFIG={named}, here and where tasks run.",
        )
