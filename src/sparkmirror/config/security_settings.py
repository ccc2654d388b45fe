# SPDX-License-Identifier: Apache-2.0
"""The security of one client: `security.protocol`, `ssl.*`, `sasl.*` and what they lead to.

Files are read here, on the driver, and nowhere else: what comes out needs no file any more.
"""

from __future__ import annotations

import os
from functools import lru_cache
from importlib.util import find_spec

from sparkmirror.config.aws_settings import idle_options, read_aws
from sparkmirror.config.certificate_remarks import remark_certificates
from sparkmirror.config.clear_texts import remark_clear_texts
from sparkmirror.config.kerberos_settings import read_kerberos
from sparkmirror.config.key import Key
from sparkmirror.config.keys_security import REACH_KEYS
from sparkmirror.config.layering import default
from sparkmirror.config.login_classes import (
    IAM_BEARER_HANDLER,
    KNOWN_CLASSES,
    fits,
    is_known,
    mechanisms_of,
)
from sparkmirror.config.login_sections import CLIENT_SECTION, read_sections
from sparkmirror.config.notices import Level
from sparkmirror.config.oauth_settings import ENDPOINT_KEYS, LOGIN_KEYS, is_option, read_oauth
from sparkmirror.config.reading import Reader, Report
from sparkmirror.config.security_texts import JAAS, PROTOCOL, JaasTexts, KeyTexts, Misfit
from sparkmirror.config.stores import read_identity, read_trust
from sparkmirror.errors import ConfigError
from sparkmirror.model import Secret
from sparkmirror.security.jaas import JaasLine, expected_modules, parse_jaas
from sparkmirror.security.login_files import login_file_of
from sparkmirror.security.settings import (
    PLAINTEXT,
    KeyNames,
    Mechanism,
    Protocol,
    SaslSettings,
    Security,
    TlsSettings,
)
from sparkmirror.security.tls import client_context, unasked_suites

_SPOKEN = ("TLSv1.2", "TLSv1.3")
_OUTDATED = ("SSLv2Hello", "SSLv3", "TLSv1", "TLSv1.1")
_LOGIN_HANDLER = "sasl.login.callback.handler.class"
_WITH_PASSWORD = (Mechanism.PLAIN, Mechanism.SCRAM_SHA_256, Mechanism.SCRAM_SHA_512)


def read_security(reader: Reader, report: Report) -> Security:
    """What the keys say; whatever is wrong with them stands in the report."""
    protocol = Protocol(reader.string(PROTOCOL).upper())
    security = PLAINTEXT
    if any(reader.is_wrong(key.name) and in_use(key, protocol) for key in REACH_KEYS):
        return security  # that is said already, and what its default leads to is not meant
    try:
        tls = read_tls(reader, report) if protocol.has_tls else None
        sasl = _sasl(protocol, reader, report) if protocol.has_sasl else None
        security = Security(protocol, tls, sasl, _names(reader))
        remark_clear_texts(security, reader, report)
        remark_certificates(security, reader, report)
    except Misfit as error:
        written = KeyTexts(reader).called(error.name)
        value = reader.value(error.name) if reader.is_given(error.name) else default("", written)
        report.error(value, written, f"{error}.")
    return security


def in_use(key: Key, protocol: Protocol) -> bool:
    """Whether a key says anything with this protocol."""
    if key.name.startswith("ssl."):
        return protocol.has_tls
    return protocol.has_sasl or not key.name.startswith(("sasl.", "oauth."))


def remark_unused(reader: Reader, report: Report, *, has_other_tls: bool = False) -> None:
    """Name keys that do nothing: somebody who wrote them thinks that the connection is safe.

    In a Connect worker's file `ssl.` keys are about its REST server as well.
    """
    protocol = Protocol(reader.string(PROTOCOL).upper())
    if reader.is_wrong(PROTOCOL):
        return
    for key in REACH_KEYS:
        if has_other_tls and key.name.startswith("ssl."):
            continue
        if reader.is_set(key.name) and not in_use(key, protocol) and not key.no_effect:
            origin, decides = reader.origin(key.name), KeyTexts(reader).called(PROTOCOL)
            report.warn(origin, f"{origin.key} does nothing: {decides} is {protocol.value}.")


def _names(reader: Reader) -> KeyNames:
    texts = KeyTexts(reader)

    def written(*names: str) -> str:
        return texts.called(next(filter(reader.is_given, names), names[0]))

    return KeyNames(
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


def read_tls(reader: Reader, report: Report) -> TlsSettings:
    """What the `ssl.*` keys say, whoever they are for; Misfit if they do not fit together."""
    texts = KeyTexts(reader)
    _check_class(texts, reader, "ssl.engine.factory.class")
    trusted = read_trust(texts, "ssl.")
    identity = read_identity(texts, "ssl.")
    if identity is not None and identity.note:
        origin = reader.origin("ssl.keystore.location")
        report.warn(origin, f"{origin.key}: {identity.note}.", Level.INFO)
    settings = TlsSettings(
        trusted=trusted,
        chain=identity.chain if identity else "",
        key=identity.key if identity else None,
        checks_host=bool(reader.string("ssl.endpoint.identification.algorithm")),
        protocols=_protocols(texts, reader, report),
        ciphers=reader.strings("ssl.cipher.suites"),
    )
    _try_out(texts, settings)
    unasked = unasked_suites(settings)
    if unasked:
        origin = reader.origin("ssl.cipher.suites")
        report.warn(
            origin,
            f"{origin.key}: with TLS 1.3 {' and '.join(unasked)} may be used, too, since Python "
            "cannot choose among its suites. Enable only TLSv1.2 to keep to the list.",
        )
    return settings


_context = lru_cache(maxsize=64)(client_context)  # many flows, few settings


def _try_out(texts: KeyTexts, settings: TlsSettings) -> None:
    """Whether OpenSSL takes it, before a flow depends on it; suites are what it may not know."""
    try:
        _context(settings)
    except ValueError as error:
        blame = "ssl.cipher.suites" if settings.ciphers else "ssl.keystore.location"
        reason = "OpenSSL does not take [hidden]" if texts.is_hidden(blame) else error
        raise texts.misfit(blame, f"cannot be used: {reason}") from error


def _protocols(texts: KeyTexts, reader: Reader, report: Report) -> tuple[str, ...]:
    name = "ssl.enabled.protocols"
    listed = reader.strings(name)
    unknown = [one for one in listed if one not in (*_SPOKEN, *_OUTDATED)]
    spoken = tuple(one for one in listed if one in _SPOKEN)
    if unknown or not spoken:
        raise texts.misfit(name, f"must list one or both of {' and '.join(_SPOKEN)}")
    if len(spoken) < len(listed):
        origin = reader.origin(name)
        left_out = ", ".join(one for one in listed if one not in spoken)
        report.warn(origin, f"{origin.key}: {left_out} is not spoken here any more, as in Java.")
    return spoken


# --- SASL


def _sasl(protocol: Protocol, reader: Reader, report: Report) -> SaslSettings:
    texts = KeyTexts(reader)
    mechanism = Mechanism(reader.string("sasl.mechanism"))
    for name in KNOWN_CLASSES:
        if name.startswith("sasl."):
            _check_class(texts, reader, name)
    line = _jaas(texts, mechanism, reader, report)
    options = None if line is None else JaasTexts(reader, line.options)
    is_iam = mechanism is Mechanism.AWS_MSK_IAM or _signs_token(mechanism, reader)
    if line is not None:
        _remark_options(line, mechanism, reader, report, is_iam=is_iam)
    if is_iam:
        _check_extra(texts, mechanism, reader)
        if protocol is not Protocol.SASL_SSL:
            raise texts.misfit(PROTOCOL, "must be SASL_SSL with the logins of Amazon MSK")
        return SaslSettings(mechanism, aws=read_aws(options))
    if mechanism is Mechanism.OAUTHBEARER:
        return SaslSettings(mechanism, oauth=read_oauth(reader, options))
    if mechanism in _WITH_PASSWORD:
        return _with_password(mechanism, texts, line)
    _check_extra(texts, mechanism, reader)
    return SaslSettings(mechanism, kerberos=read_kerberos(reader, options, report))


def _signs_token(mechanism: Mechanism, reader: Reader) -> bool:
    """Whether tokens are AWS's signatures, and no endpoint is asked for any."""
    is_amazons = reader.string(_LOGIN_HANDLER) == IAM_BEARER_HANDLER
    return mechanism is Mechanism.OAUTHBEARER and is_amazons


def _jaas(texts: KeyTexts, mechanism: Mechanism, reader: Reader, report: Report) -> JaasLine | None:
    text = reader.secret(JAAS)
    if text is None:
        return _jaas_of_java(texts, mechanism, reader, report)
    try:
        line = parse_jaas(text.reveal())
    except ValueError as error:
        raise texts.misfit(JAAS, f"is no JAAS line: {error}") from None
    if not fits(mechanism, line.module):
        names = "another login module" if reader.is_provided(JAAS) else line.module
        raise _other_module(texts, mechanism, line, f"names {names}")
    return line


def _jaas_of_java(
    texts: KeyTexts, mechanism: Mechanism, reader: Reader, report: Report
) -> JaasLine | None:
    """Where Java looks if there is no line: in the login file of the whole process."""
    file = login_file_of(os.environ.get("KAFKA_OPTS", ""))
    entries: list[JaasLine] = []
    if file:
        try:
            entries = read_sections(file, "KAFKA_OPTS").get(CLIENT_SECTION, [])
        except ConfigError as error:
            told = str(error).rstrip(".")
            raise texts.misfit(JAAS, f"is missing, and {told}") from error
    if not entries:
        if mechanism in _WITH_PASSWORD:
            looked = f" (KAFKA_OPTS names {file}, without a section {CLIENT_SECTION})"
            example = f'{expected_modules(mechanism)[0]} required username="..." password="...";'
            raise texts.misfit(JAAS, f"is missing{looked if file else ''}: write {example}")
        return None
    line = next((one for one in entries if fits(mechanism, one.module)), None)
    where = f"the section {CLIENT_SECTION} of {file} (KAFKA_OPTS)"
    if line is None:
        said = f"is missing, and {where} names {entries[0].module}"
        raise _other_module(texts, mechanism, entries[0], said)
    origin = reader.origin(PROTOCOL)
    report.warn(origin, f"{texts.called(JAAS)} is not set: {where} is used.", Level.INFO)
    return line


def _other_module(texts: KeyTexts, mechanism: Mechanism, line: JaasLine, said: str) -> Misfit:
    others = mechanisms_of(line.module)
    chosen = texts.called("sasl.mechanism")
    remedy = f"write {chosen}={others[0]}" if others else f"write {expected_modules(mechanism)[0]}"
    return texts.misfit(
        JAAS, f"{said}, which does not go with {chosen}={mechanism.value}: {remedy}"
    )


def _with_password(mechanism: Mechanism, texts: KeyTexts, line: JaasLine | None) -> SaslSettings:
    options = {} if line is None else line.options
    missing = [name for name in ("username", "password") if name not in options]
    if missing:
        raise texts.misfit(JAAS, f'must have the option {missing[0]}="..."')
    is_token = options.get("tokenauth", "").lower() == "true"
    password = Secret(options["password"])
    return SaslSettings(mechanism, options["username"], password, is_token=is_token)


def _check_extra(texts: KeyTexts, mechanism: Mechanism, reader: Reader) -> None:
    """Some ways to log in need packages that not everybody wants."""
    package, extra = _EXTRAS[mechanism]
    if find_spec(package) is None:
        how = "" if reader.is_given("sasl.mechanism") else ", because nothing is set"
        blamed, is_what = "sasl.mechanism", f"is {mechanism.value}{how}"
        if mechanism is Mechanism.OAUTHBEARER:
            blamed, is_what = _LOGIN_HANDLER, "names Amazon's class for tokens"
        raise texts.misfit(
            blamed,
            f"{is_what}, which needs another package: pip install 'sparkmirror[{extra}]', here "
            "and where tasks run, or write a mechanism that the brokers offer",
        )


_EXTRAS = {
    Mechanism.GSSAPI: ("gssapi", "kerberos"),
    Mechanism.AWS_MSK_IAM: ("botocore", "msk-iam"),
    Mechanism.OAUTHBEARER: ("botocore", "msk-iam"),  # only where we sign the tokens
}


def _check_class(texts: KeyTexts, reader: Reader, name: str) -> None:
    found = reader.string(name)
    if found and not is_known(name, found):
        raise texts.misfit(
            name,
            f"names {texts.shown(name)}, a Java class that cannot be run here; what the following "
            f"do is done without Java: {', '.join(KNOWN_CLASSES[name])}",
        )


_READ_OPTIONS = {
    Mechanism.PLAIN: frozenset({"username", "password"}),
    Mechanism.SCRAM_SHA_256: frozenset({"username", "password", "tokenauth"}),
    Mechanism.SCRAM_SHA_512: frozenset({"username", "password", "tokenauth"}),
}


def _remark_options(
    line: JaasLine, mechanism: Mechanism, reader: Reader, report: Report, *, is_iam: bool
) -> None:
    """Options by name only: their values may be secrets under a wrong name."""
    if is_iam:
        idle = idle_options(frozenset(line.options))
    elif mechanism is Mechanism.OAUTHBEARER:
        idle = [name for name in line.options if not is_option(name)]
    elif mechanism in _READ_OPTIONS:
        idle = [name for name in line.options if name not in _READ_OPTIONS[mechanism]]
    else:
        idle = []
    if idle:
        origin = reader.origin(JAAS)
        names = "[hidden]" if reader.is_provided(JAAS) else ", ".join(idle)
        report.warn(origin, f"{origin.key}: its option {names} has no effect.", Level.INFO)
