# SPDX-License-Identifier: Apache-2.0
"""The table of connection keys of a cluster: addresses, TLS, SASL, tokens.

MM2 copies `KAFKA_SECURITY_KEYS` from a cluster's level to its clients. `STRIMZI_OAUTH_KEYS` are
options of Strimzi's JAAS line; here they may also be keys.
"""

from __future__ import annotations

from sparkmirror.config.keys.config_def import ConfigKey, Importance
from sparkmirror.config.keys.value_types import (
    ConfigType,
    Validator,
    at_least,
    between,
    bootstrap_addresses,
    one_of,
)
from sparkmirror.security.settings import SaslMechanism, SecurityProtocol

_OPENSSL = "OpenSSL does this, not Java"
_BROKERS_VALIDATE = "brokers validate tokens, clients do not"
_NO_KINIT = "tickets are fetched with the keytab when needed, and kinit is not run"
_OWN_RETRIES = "logins are retried with a fixed backoff"


def _key(
    name: str,
    doc: str,
    value_type: ConfigType = ConfigType.STRING,
    default: str | None = None,
    *checks: Validator,
    importance: Importance = Importance.LOW,
    no_effect: str = "",
) -> ConfigKey:
    return ConfigKey(
        name=name,
        type=value_type,
        default=default,
        doc=doc,
        importance=importance,
        validators=checks,
        no_effect=no_effect,
    )


def _store_keys(prefix: str) -> tuple[ConfigKey, ...]:
    """Return the truststore keys for brokers or for a token endpoint."""
    whose = "the token endpoint" if prefix.startswith("oauth.") else "brokers"
    return (
        _key(
            f"{prefix}truststore.location",
            f"File with the trusted certificates for {whose}; without one, those that the system "
            "trusts.",
            importance=Importance.HIGH,
        ),
        _key(
            f"{prefix}truststore.password",
            "Password of that file; a JKS file is read without one, unverified.",
            ConfigType.PASSWORD,
            importance=Importance.HIGH,
        ),
        _key(
            f"{prefix}truststore.type",
            "What kind of file it is: JKS, PKCS12 or PEM.",
            ConfigType.STRING,
            "JKS",
            _STORE,
        ),
        _key(
            f"{prefix}truststore.certificates",
            "The certificates as PEM, instead of a file.",
            ConfigType.PASSWORD,
        ),
        _key(
            f"{prefix}endpoint.identification.algorithm",
            f"Whether the host name in the certificate of {whose} is verified (https) or not "
            "(empty).",
            ConfigType.STRING,
            "https",
            one_of("https", "", ignore_case=True),
        ),
    )


_STORE = one_of("JKS", "PKCS12", "PEM", ignore_case=True)

SSL_KEYS = (
    *_store_keys("ssl."),
    _key(
        "ssl.keystore.location",
        "File with this client's certificate and key.",
        importance=Importance.HIGH,
    ),
    _key("ssl.keystore.password", "Password of that file.", ConfigType.PASSWORD),
    _key("ssl.key.password", "Password of the key in it, if it differs.", ConfigType.PASSWORD),
    _key(
        "ssl.keystore.type",
        "What kind of file it is: JKS, PKCS12 or PEM.",
        ConfigType.STRING,
        "JKS",
        _STORE,
    ),
    _key(
        "ssl.keystore.key",
        "The key as PEM (PKCS #8), instead of a file.",
        ConfigType.PASSWORD,
    ),
    _key(
        "ssl.keystore.certificate.chain",
        "The certificate chain of that key as PEM.",
        ConfigType.PASSWORD,
    ),
    _key(
        "ssl.enabled.protocols",
        "Enabled versions of TLS: TLSv1.2, TLSv1.3; older ones are ignored.",
        ConfigType.LIST,
        "TLSv1.2,TLSv1.3",
    ),
    _key(
        "ssl.cipher.suites",
        "Enabled cipher suites by Java's names; empty: those of Java 17 (listeners: those of "
        "OpenSSL).",
        ConfigType.LIST,
    ),
    _key(
        "ssl.protocol",
        "The version of TLS of Java's SSLContext.",
        no_effect="ssl.enabled.protocols decides, as in Java",
    ),
    _key("ssl.engine.factory.class", "A Java class that creates TLS engines.", ConfigType.CLASS),
    *(
        _key(name, "A part of Java's TLS.", no_effect=_OPENSSL)
        for name in (
            "ssl.provider",
            "ssl.keymanager.algorithm",
            "ssl.trustmanager.algorithm",
            "ssl.secure.random.implementation",
        )
    ),
)

_MECHANISMS = one_of(*(one.value for one in SaslMechanism))

_SASL_KEYS = (
    _key(
        "sasl.mechanism",
        "SASL mechanism: PLAIN, SCRAM-SHA-256, SCRAM-SHA-512, OAUTHBEARER, GSSAPI (Kerberos) or "
        "AWS_MSK_IAM.",
        ConfigType.STRING,
        "GSSAPI",
        _MECHANISMS,
        importance=Importance.HIGH,
    ),
    _key(
        "sasl.jaas.config",
        "User and password, or the source of tokens, as a JAAS line: a login module that fits "
        "the mechanism, required, options, and a semicolon.",
        ConfigType.PASSWORD,
        importance=Importance.HIGH,
    ),
    _key(
        "sasl.oauthbearer.token.endpoint.url",
        "URL of the token endpoint, http or https, or of a file with a token: file:///path.",
        importance=Importance.HIGH,
    ),
    _key(
        "sasl.oauthbearer.client.credentials.client.id",
        "Client id at the token endpoint; wins over clientId of the JAAS line.",
    ),
    _key(
        "sasl.oauthbearer.client.credentials.client.secret",
        "Client secret; wins over clientSecret of the JAAS line.",
        ConfigType.PASSWORD,
    ),
    _key(
        "sasl.oauthbearer.scope",
        "Requested scope of tokens; wins over scope of the JAAS line.",
    ),
    _key(
        "sasl.oauthbearer.header.urlencode",
        "Whether client id and secret are URL-encoded before they are sent to the token endpoint.",
        ConfigType.BOOLEAN,
        "false",
    ),
    _key(
        "sasl.login.connect.timeout.ms",
        "Timeout of connections to the token endpoint; 10 s if not set.",
        ConfigType.INT,
    ),
    _key(
        "sasl.login.read.timeout.ms",
        "Timeout of its response; 10 s if not set.",
        ConfigType.INT,
    ),
    _key(
        "sasl.login.refresh.window.factor",
        "A token is refreshed after this part of its lifetime.",
        ConfigType.DOUBLE,
        "0.8",
    ),
    _key(
        "sasl.login.refresh.min.period.seconds",
        "Minimum time before a token is refreshed.",
        ConfigType.SHORT,
        "60",
        at_least(0),
    ),
    _key(
        "sasl.login.refresh.buffer.seconds",
        "Minimum time between the refresh of a token and its expiry.",
        ConfigType.SHORT,
        "300",
        at_least(0),
    ),
    _key(
        "sasl.login.callback.handler.class",
        "Class that fetches tokens: Kafka's, Strimzi's and Amazon's handlers are supported, other "
        "Java classes are rejected.",
        ConfigType.CLASS,
    ),
    _key(
        "sasl.client.callback.handler.class",
        "Callback handler of a mechanism: Kafka's and Amazon's handlers are supported, other Java "
        "classes are rejected.",
        ConfigType.CLASS,
    ),
    _key("sasl.login.class", "Login class; only Kafka's are supported.", ConfigType.CLASS),
    _key(
        "sasl.oauthbearer.jwt.retriever.class",
        "Class that retrieves tokens: Kafka's classes are supported, other Java classes are "
        "refused.",
        ConfigType.CLASS,
    ),
    _key(
        "sasl.kerberos.service.name",
        "Service name in the brokers' Kerberos principal; kafka if neither this nor serviceName "
        "of the JAAS line is set.",
    ),
    _key("sasl.kerberos.kinit.cmd", "Command with which Java renews tickets.", no_effect=_NO_KINIT),
    *(
        _key(name, "When Java renews Kerberos tickets.", value_type, no_effect=_NO_KINIT)
        for name, value_type in (
            ("sasl.kerberos.ticket.renew.window.factor", ConfigType.DOUBLE),
            ("sasl.kerberos.ticket.renew.jitter", ConfigType.DOUBLE),
            ("sasl.kerberos.min.time.before.relogin", ConfigType.LONG),
        )
    ),
    _key(
        "sasl.login.refresh.window.jitter",
        "Jitter of Java's token refresh.",
        ConfigType.DOUBLE,
        no_effect="a process shares one token among all connections, and requests the next once",
    ),
    *(
        _key(name, "Java's backoff between failed logins.", ConfigType.LONG, no_effect=reason)
        for name, reason in (
            ("sasl.login.retry.backoff.ms", _OWN_RETRIES),
            ("sasl.login.retry.backoff.max.ms", _OWN_RETRIES),
        )
    ),
    _key(
        "sasl.oauthbearer.jwt.validator.class",
        "Class that validates tokens.",
        ConfigType.CLASS,
        no_effect=_BROKERS_VALIDATE,
    ),
    _key(
        "sasl.oauthbearer.assertion.file",
        "File with a signed assertion (JWT), which is sent to the token endpoint instead of a "
        "secret.",
    ),
    _key(
        "sasl.oauthbearer.assertion.private.key.file",
        "File with the key (PEM, PKCS #8) that signs assertions, if "
        "sasl.oauthbearer.assertion.file is not set.",
    ),
    _key(
        "sasl.oauthbearer.assertion.private.key.passphrase",
        "Passphrase of that key, if it has one.",
        ConfigType.PASSWORD,
    ),
    _key(
        "sasl.oauthbearer.assertion.algorithm",
        "Signature algorithm of assertions: RS256 or ES256.",
        ConfigType.STRING,
        "RS256",
        one_of("RS256", "ES256", ignore_case=True),
    ),
    _key(
        "sasl.oauthbearer.assertion.template.file",
        "File with further claims of assertions: JSON, with header and payload.",
    ),
    *(
        _key(f"sasl.oauthbearer.assertion.claim.{name}", f"The claim {name} of assertions: {what}.")
        for name, what in (
            ("aud", "the audience"),
            ("iss", "the issuer; with client credentials, it enables assertions"),
            ("sub", "the subject"),
        )
    ),
    _key(
        "sasl.oauthbearer.assertion.claim.exp.seconds",
        "Lifetime of an assertion.",
        ConfigType.INT,
        "300",
        between(0, 86400),
    ),
    _key(
        "sasl.oauthbearer.assertion.claim.nbf.seconds",
        "How long before its creation an assertion becomes valid, because clocks differ.",
        ConfigType.INT,
        "60",
        between(0, 3600),
    ),
    _key(
        "sasl.oauthbearer.assertion.claim.jti.include",
        "Whether every assertion has a unique id (the claim jti).",
        ConfigType.BOOLEAN,
        "false",
    ),
    *(
        _key(
            f"sasl.oauthbearer.{name}",
            "A detail of token validation.",
            value_type,
            no_effect=_BROKERS_VALIDATE,
        )
        for name, value_type in (
            ("scope.claim.name", ConfigType.STRING),
            ("sub.claim.name", ConfigType.STRING),
            ("jwks.endpoint.url", ConfigType.STRING),
            ("jwks.endpoint.refresh.ms", ConfigType.LONG),
            ("jwks.endpoint.retry.backoff.max.ms", ConfigType.LONG),
            ("jwks.endpoint.retry.backoff.ms", ConfigType.LONG),
            ("clock.skew.seconds", ConfigType.INT),
            ("allow.unverified.audience", ConfigType.STRING),
            ("expected.audience", ConfigType.LIST),
            ("allow.unverified.issuer", ConfigType.STRING),
            ("expected.issuer", ConfigType.STRING),
        )
    ),
)

KAFKA_SECURITY_KEYS = (
    ConfigKey(
        name="bootstrap.servers",
        type=ConfigType.LIST,
        default=None,
        doc="Addresses (host:port) of some brokers of the cluster.",
        importance=Importance.HIGH,
        validators=(bootstrap_addresses,),
        required=True,
    ),
    _key(
        "security.protocol",
        "Protocol to brokers: PLAINTEXT, SSL (encrypted), SASL_PLAINTEXT (authenticated) or "
        "SASL_SSL (both).",
        ConfigType.STRING,
        "PLAINTEXT",
        one_of(*(one.value for one in SecurityProtocol), ignore_case=True),
        importance=Importance.HIGH,
    ),
    *SSL_KEYS,
    *_SASL_KEYS,
)

_STRIMZI_ONLY = "only Strimzi's login reads it"

STRIMZI_OAUTH_KEYS = (
    _key("oauth.token.endpoint.uri", "Strimzi's name for the token endpoint."),
    _key("oauth.client.id", "Strimzi's name for the client id."),
    _key("oauth.client.secret", "Strimzi's name for the client secret.", ConfigType.PASSWORD),
    _key("oauth.scope", "Strimzi's name for the requested scope of tokens."),
    _key("oauth.audience", "Requested audience of tokens."),
    _key(
        "oauth.connect.timeout.seconds",
        "Timeout of connections to the token endpoint; 10 s if not set.",
        ConfigType.INT,
    ),
    _key(
        "oauth.read.timeout.seconds",
        "Timeout of its response; 10 s if not set.",
        ConfigType.INT,
    ),
    *_store_keys("oauth.ssl."),
    _key("oauth.access.token", "An access token; no endpoint is used then.", ConfigType.PASSWORD),
    _key("oauth.access.token.location", "A file with an access token, which is renewed outside."),
    _key("oauth.refresh.token", "A refresh token to request tokens with.", ConfigType.PASSWORD),
    _key("oauth.refresh.token.location", "A file with a refresh token."),
    _key("oauth.password.grant.username", "A user to request tokens for."),
    _key("oauth.password.grant.password", "That user's password.", ConfigType.PASSWORD),
    _key(
        "oauth.client.assertion",
        "A signed assertion, which is sent instead of a secret.",
        ConfigType.PASSWORD,
    ),
    _key("oauth.client.assertion.location", "A file with such an assertion."),
    _key("oauth.client.assertion.type", "Type of the assertion; a JWT if not set."),
    _key(
        "oauth.client.credentials.grant.type",
        "Grant type of requests with a secret; client_credentials if not set.",
    ),
    _key(
        "oauth.max.token.expiry.seconds",
        "Maximum time that a requested token is used, whatever its expiry.",
        ConfigType.INT,
    ),
    *(
        _key(f"oauth.{name}", "A detail of Strimzi's login.", no_effect=_STRIMZI_ONLY)
        for name in (
            "access.token.is.jwt",
            "username.claim",
            "http.retries",
            "http.retry.pause.millis",
            "ssl.secure.random.implementation",
        )
    ),
)

ALL_SECURITY_KEYS = (*KAFKA_SECURITY_KEYS, *STRIMZI_OAUTH_KEYS)
SECURITY_KEY_NAMES = frozenset(key.name for key in ALL_SECURITY_KEYS)
