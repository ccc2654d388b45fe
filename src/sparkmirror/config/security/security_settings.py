# SPDX-License-Identifier: Apache-2.0
"""The security of one client: `security.protocol`, `ssl.*`, `sasl.*`, and the AWS login options.

Files are read here, on the driver; tasks need no file.
"""

from __future__ import annotations

import os
from functools import lru_cache
from importlib.util import find_spec

from sparkmirror.config.files.config_reader import ConfigReader
from sparkmirror.config.files.layering import default_value
from sparkmirror.config.files.notices import ConfigReport, NoticeLevel
from sparkmirror.config.keys.config_def import ConfigKey
from sparkmirror.config.keys.security_keys import ALL_SECURITY_KEYS
from sparkmirror.config.security.kerberos_settings import read_kerberos_settings
from sparkmirror.config.security.oauth_settings import (
    ENDPOINT_KEYS,
    LOGIN_KEYS,
    is_oauth_option,
    read_oauth_settings,
)
from sparkmirror.config.security.security_options import (
    CLIENT_SECTION,
    JAAS,
    PROTOCOL,
    ClientKeyOptions,
    JaasOptions,
    SecurityOptionError,
    read_jaas_sections,
    read_keystore_option,
    read_truststore_option,
)
from sparkmirror.config.security.security_warnings import (
    warn_cleartext_credentials,
    warn_weak_certificates,
)
from sparkmirror.errors import ConfigError
from sparkmirror.model import HIDDEN, Secret
from sparkmirror.security.jaas import (
    IAM_BEARER_HANDLER,
    SUPPORTED_JAVA_CLASSES,
    JaasEntry,
    expected_modules,
    is_supported_class,
    jaas_file_in_opts,
    mechanisms_of,
    module_fits,
    parse_jaas,
)
from sparkmirror.security.settings import (
    PLAINTEXT,
    AwsSettings,
    SaslMechanism,
    SaslSettings,
    SecurityKeyNames,
    SecurityProtocol,
    SecuritySettings,
    TlsSettings,
)
from sparkmirror.security.tls import client_context, unlisted_tls13_suites

_SPOKEN = ("TLSv1.2", "TLSv1.3")
_OUTDATED = ("SSLv2Hello", "SSLv3", "TLSv1", "TLSv1.1")
_LOGIN_HANDLER = "sasl.login.callback.handler.class"
_WITH_PASSWORD = (SaslMechanism.PLAIN, SaslMechanism.SCRAM_SHA_256, SaslMechanism.SCRAM_SHA_512)

_PROFILE = "awsProfileName"
_ROLE = "awsRoleArn"
_READ = frozenset(
    {
        *(_PROFILE, _ROLE, "awsRoleSessionName", "awsRoleExternalId", "awsStsRegion"),
        *("awsRoleAccessKeyId", "awsRoleSecretAccessKey", "awsRoleSessionToken"),
    }
)


def read_security(reader: ConfigReader, report: ConfigReport) -> SecuritySettings:
    """Read a client's security settings; errors go to the report."""
    protocol = SecurityProtocol(reader.string(PROTOCOL).upper())
    security = PLAINTEXT
    if any(
        reader.is_invalid(key.name) and applies_to_protocol(key, protocol)
        for key in ALL_SECURITY_KEYS
    ):
        return security  # already reported; errors that follow from the default would mislead
    try:
        tls = read_tls(reader, report) if protocol.has_tls else None
        sasl = _sasl(protocol, reader, report) if protocol.has_sasl else None
        security = SecuritySettings(protocol, tls, sasl, _names(reader))
        warn_cleartext_credentials(security, reader, report)
        warn_weak_certificates(security, reader, report)
    except SecurityOptionError as error:
        written = ClientKeyOptions(reader).display_name(error.name)
        value = (
            reader.value(error.name)
            if reader.is_configured(error.name)
            else default_value("", written)
        )
        report.error(value, written, f"{error}.")
    return security


def applies_to_protocol(key: ConfigKey, protocol: SecurityProtocol) -> bool:
    """Whether a key has an effect with this protocol."""
    if key.name.startswith("ssl."):
        return protocol.has_tls
    return protocol.has_sasl or not key.name.startswith(("sasl.", "oauth."))


def warn_unused_security_keys(
    reader: ConfigReader, report: ConfigReport, *, has_other_tls: bool = False
) -> None:
    """Warn about keys without effect, because the connection may seem secure with them.

    `has_other_tls`: the `ssl.` keys also apply to a REST server.
    """
    protocol = SecurityProtocol(reader.string(PROTOCOL).upper())
    if reader.is_invalid(PROTOCOL):
        return
    for key in ALL_SECURITY_KEYS:
        if has_other_tls and key.name.startswith("ssl."):
            continue
        if (
            reader.is_in_file(key.name)
            and not applies_to_protocol(key, protocol)
            and not key.no_effect
        ):
            origin = reader.origin(key.name)
            protocol_key = ClientKeyOptions(reader).display_name(PROTOCOL)
            report.warn(origin, f"{origin.key} does nothing: {protocol_key} is {protocol.value}.")


def _names(reader: ConfigReader) -> SecurityKeyNames:
    texts = ClientKeyOptions(reader)

    def written(*names: str) -> str:
        return texts.display_name(next(filter(reader.is_configured, names), names[0]))

    return SecurityKeyNames(
        protocol=written(PROTOCOL),
        trust=written("ssl.truststore.location", "ssl.truststore.certificates"),
        identity=written("ssl.keystore.location", "ssl.keystore.key"),
        host_check=written("ssl.endpoint.identification.algorithm"),
        versions=written("ssl.enabled.protocols"),
        suites=written("ssl.cipher.suites"),
        mechanism=written("sasl.mechanism"),
        login=written(*LOGIN_KEYS),
        endpoint=written(*ENDPOINT_KEYS),
    )


# --- TLS


def read_tls(reader: ConfigReader, report: ConfigReport) -> TlsSettings:
    """Read the `ssl.*` keys of a client or listener. Raises SecurityOptionError."""
    texts = ClientKeyOptions(reader)
    _check_class(texts, reader, "ssl.engine.factory.class")
    trusted = read_truststore_option(texts, "ssl.")
    identity = read_keystore_option(texts, "ssl.")
    if identity is not None and identity.note:
        origin = reader.origin("ssl.keystore.location")
        report.warn(origin, f"{origin.key}: {identity.note}.", NoticeLevel.INFO)
    settings = TlsSettings(
        trusted=trusted,
        chain=identity.chain if identity else "",
        key=identity.key if identity else None,
        verifies_hostname=bool(reader.string("ssl.endpoint.identification.algorithm")),
        protocols=_protocols(texts, reader, report),
        ciphers=reader.strings("ssl.cipher.suites"),
    )
    _check_client_context(texts, settings)
    unlisted = unlisted_tls13_suites(settings)
    if unlisted:
        origin = reader.origin("ssl.cipher.suites")
        report.warn(
            origin,
            f"{origin.key}: with TLS 1.3 {' and '.join(unlisted)} may be used, too, because Python "
            "cannot restrict its suites. Enable only TLSv1.2 to use the list only.",
        )
    return settings


_context = lru_cache(maxsize=64)(client_context)  # many flows, few settings


def _check_client_context(texts: ClientKeyOptions, settings: TlsSettings) -> None:
    """Raise SecurityOptionError if OpenSSL refuses the settings, such as unknown suites."""
    try:
        _context(settings)
    except ValueError as error:
        name = "ssl.cipher.suites" if settings.ciphers else "ssl.keystore.location"
        reason = "OpenSSL refuses [hidden]" if texts.is_hidden(name) else error
        raise texts.error(name, f"cannot be used: {reason}") from error


def _protocols(
    texts: ClientKeyOptions, reader: ConfigReader, report: ConfigReport
) -> tuple[str, ...]:
    name = "ssl.enabled.protocols"
    listed = reader.strings(name)
    unknown = [one for one in listed if one not in (*_SPOKEN, *_OUTDATED)]
    spoken = tuple(one for one in listed if one in _SPOKEN)
    if unknown or not spoken:
        raise texts.error(name, f"must list one or both of {' and '.join(_SPOKEN)}")
    if len(spoken) < len(listed):
        origin = reader.origin(name)
        left_out = ", ".join(one for one in listed if one not in spoken)
        report.warn(origin, f"{origin.key}: {left_out} is not supported any more, as in Java.")
    return spoken


# --- SASL


def _sasl(protocol: SecurityProtocol, reader: ConfigReader, report: ConfigReport) -> SaslSettings:
    texts = ClientKeyOptions(reader)
    mechanism = SaslMechanism(reader.string("sasl.mechanism"))
    for name in SUPPORTED_JAVA_CLASSES:
        if name.startswith("sasl."):
            _check_class(texts, reader, name)
    line = _jaas(texts, mechanism, reader, report)
    options = None if line is None else JaasOptions(reader, line.options)
    is_iam = mechanism is SaslMechanism.AWS_MSK_IAM or _is_msk_iam_token(mechanism, reader)
    if line is not None:
        _report_unused_options(line, mechanism, reader, report, is_iam=is_iam)
    if is_iam:
        _check_extra(texts, mechanism, reader)
        if protocol is not SecurityProtocol.SASL_SSL:
            raise texts.error(PROTOCOL, "must be SASL_SSL for IAM authentication of Amazon MSK")
        return SaslSettings(mechanism, aws=read_aws_settings(options))
    if mechanism is SaslMechanism.OAUTHBEARER:
        return SaslSettings(mechanism, oauth=read_oauth_settings(reader, options))
    if mechanism in _WITH_PASSWORD:
        return _password_settings(mechanism, texts, line)
    _check_extra(texts, mechanism, reader)
    return SaslSettings(mechanism, kerberos=read_kerberos_settings(reader, options, report))


def _is_msk_iam_token(mechanism: SaslMechanism, reader: ConfigReader) -> bool:
    """Whether tokens are signed with AWS credentials, without a token endpoint."""
    is_amazons = reader.string(_LOGIN_HANDLER) == IAM_BEARER_HANDLER
    return mechanism is SaslMechanism.OAUTHBEARER and is_amazons


def _jaas(
    texts: ClientKeyOptions, mechanism: SaslMechanism, reader: ConfigReader, report: ConfigReport
) -> JaasEntry | None:
    text = reader.secret(JAAS)
    if text is None:
        return _jaas_from_kafka_opts(texts, mechanism, reader, report)
    try:
        line = parse_jaas(text.reveal())
    except ValueError as error:
        raise texts.error(JAAS, f"is not a JAAS line: {error}") from None
    if not module_fits(mechanism, line.module):
        names = "another login module" if reader.came_from_provider(JAAS) else line.module
        raise _other_module(texts, mechanism, line, f"names {names}")
    return line


def _jaas_from_kafka_opts(
    texts: ClientKeyOptions, mechanism: SaslMechanism, reader: ConfigReader, report: ConfigReport
) -> JaasEntry | None:
    """Read the login file of the process, as Java does if `sasl.jaas.config` is not set."""
    file = jaas_file_in_opts(os.environ.get("KAFKA_OPTS", ""))
    entries: list[JaasEntry] = []
    if file:
        try:
            entries = read_jaas_sections(file, "KAFKA_OPTS").get(CLIENT_SECTION, [])
        except ConfigError as error:
            reason = str(error).rstrip(".")
            raise texts.error(JAAS, f"is missing, and {reason}") from error
    if not entries:
        if mechanism in _WITH_PASSWORD:
            note = f" (KAFKA_OPTS names {file}, without a section {CLIENT_SECTION})"
            example = f'{expected_modules(mechanism)[0]} required username="..." password="...";'
            raise texts.error(JAAS, f"is missing{note if file else ''}: set it to {example}")
        return None
    line = next((one for one in entries if module_fits(mechanism, one.module)), None)
    where = f"the section {CLIENT_SECTION} of {file} (KAFKA_OPTS)"
    if line is None:
        problem = f"is missing, and {where} names {entries[0].module}"
        raise _other_module(texts, mechanism, entries[0], problem)
    origin = reader.origin(PROTOCOL)
    report.warn(
        origin, f"{texts.display_name(JAAS)} is not set: {where} is used.", NoticeLevel.INFO
    )
    return line


def _other_module(
    texts: ClientKeyOptions, mechanism: SaslMechanism, line: JaasEntry, problem: str
) -> SecurityOptionError:
    others = mechanisms_of(line.module)
    key = texts.display_name("sasl.mechanism")
    remedy = f"set {key}={others[0]}" if others else f"use {expected_modules(mechanism)[0]}"
    return texts.error(JAAS, f"{problem}, which does not fit {key}={mechanism.value}: {remedy}")


def _password_settings(
    mechanism: SaslMechanism, texts: ClientKeyOptions, line: JaasEntry | None
) -> SaslSettings:
    options = {} if line is None else line.options
    missing = [name for name in ("username", "password") if name not in options]
    if missing:
        raise texts.error(JAAS, f'must have the option {missing[0]}="..."')
    is_token = options.get("tokenauth", "").lower() == "true"
    password = Secret(options["password"])
    return SaslSettings(mechanism, options["username"], password, is_token=is_token)


def _check_extra(texts: ClientKeyOptions, mechanism: SaslMechanism, reader: ConfigReader) -> None:
    """Raise SecurityOptionError if the optional package of a mechanism is not installed."""
    package, extra = _EXTRAS[mechanism]
    if find_spec(package) is None:
        by_default = "" if reader.is_configured("sasl.mechanism") else " by default"
        name, state = "sasl.mechanism", f"is {mechanism.value}{by_default}"
        if mechanism is SaslMechanism.OAUTHBEARER:
            name, state = _LOGIN_HANDLER, "names Amazon's class for tokens"
        raise texts.error(
            name,
            f"{state}, which needs another package: pip install 'sparkmirror[{extra}]', here "
            "and where tasks run, or set a mechanism that the brokers support",
        )


_EXTRAS = {
    SaslMechanism.GSSAPI: ("gssapi", "kerberos"),
    SaslMechanism.AWS_MSK_IAM: ("botocore", "msk-iam"),
    SaslMechanism.OAUTHBEARER: ("botocore", "msk-iam"),  # only for tokens signed here
}


def _check_class(texts: ClientKeyOptions, reader: ConfigReader, name: str) -> None:
    found = reader.string(name)
    if found and not is_supported_class(name, found):
        raise texts.error(
            name,
            f"names {texts.display_value(name)}, a Java class that cannot run here; supported "
            f"are {', '.join(SUPPORTED_JAVA_CLASSES[name])}",
        )


_READ_OPTIONS = {
    SaslMechanism.PLAIN: frozenset({"username", "password"}),
    SaslMechanism.SCRAM_SHA_256: frozenset({"username", "password", "tokenauth"}),
    SaslMechanism.SCRAM_SHA_512: frozenset({"username", "password", "tokenauth"}),
}


def _report_unused_options(
    line: JaasEntry,
    mechanism: SaslMechanism,
    reader: ConfigReader,
    report: ConfigReport,
    *,
    is_iam: bool,
) -> None:
    """Report unused options by name; values may be secrets with a misspelt name."""
    if is_iam:
        unused = unused_aws_options(frozenset(line.options))
    elif mechanism is SaslMechanism.OAUTHBEARER:
        unused = [name for name in line.options if not is_oauth_option(name)]
    elif mechanism in _READ_OPTIONS:
        unused = [name for name in line.options if name not in _READ_OPTIONS[mechanism]]
    else:
        unused = []
    if unused:
        origin = reader.origin(JAAS)
        names = HIDDEN if reader.came_from_provider(JAAS) else ", ".join(unused)
        report.warn(origin, f"{origin.key}: its option {names} has no effect.", NoticeLevel.INFO)


def read_aws_settings(line: JaasOptions | None) -> AwsSettings:
    """Read profile or role from the JAAS line; without them botocore's default chain applies."""
    if line is None:
        return AwsSettings()
    return AwsSettings(
        profile=line.text(_PROFILE),
        role=line.text(_ROLE),
        session_name=line.text("awsRoleSessionName"),
        external_id=line.text("awsRoleExternalId"),
        sts_region=line.text("awsStsRegion"),
        access_key=line.text("awsRoleAccessKeyId"),
        secret_key=line.secret("awsRoleSecretAccessKey"),
        session_token=line.secret("awsRoleSessionToken"),
    )


def unused_aws_options(names: frozenset[str]) -> list[str]:
    """Return the options without effect; a profile overrides a role, as in Amazon's library."""
    overridden = {_ROLE} if _PROFILE in names else set()
    return sorted(names - _READ | (names & overridden))
