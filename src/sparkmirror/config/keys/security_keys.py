# SPDX-License-Identifier: Apache-2.0
"""The table of keys that say how a cluster is reached: addresses, TLS, SASL, tokens.

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
_NO_KINIT = "tickets are fetched with the keytab when they are needed, and kinit is not run"
_OWN_RETRIES = "retries go on with a pause of their own"


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
    """The keys of a trust store, of a broker's TLS or of a token endpoint's."""
    whose = "the token endpoint" if prefix.startswith("oauth.") else "brokers"
    return (
        _key(
            f"{prefix}truststore.location",
            f"File with the certificates of who vouches for {whose}; without one, whom the "
            "system trusts.",
            importance=Importance.HIGH,
        ),
        _key(
            f"{prefix}truststore.password",
            "Password of that file; a JKS file opens without, unverified.",
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
            "The certificates themselves, as PEM, in the place of a file.",
            ConfigType.PASSWORD,
        ),
        _key(
            f"{prefix}endpoint.identification.algorithm",
            f"Whether the certificate must be made out to the host that {whose} are reached at "
            "(https), or to anybody (empty).",
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
        "File with the certificate that this client shows, and its key.",
        importance=Importance.HIGH,
    ),
    _key("ssl.keystore.password", "Password of that file.", ConfigType.PASSWORD),
    _key(
        "ssl.key.password", "Password of the key in it, where it has its own.", ConfigType.PASSWORD
    ),
    _key(
        "ssl.keystore.type",
        "What kind of file it is: JKS, PKCS12 or PEM.",
        ConfigType.STRING,
        "JKS",
        _STORE,
    ),
    _key(
        "ssl.keystore.key",
        "The key itself, as PEM (PKCS #8), in the place of a file.",
        ConfigType.PASSWORD,
    ),
    _key(
        "ssl.keystore.certificate.chain",
        "The certificate to that key and those that vouch for it, as PEM.",
        ConfigType.PASSWORD,
    ),
    _key(
        "ssl.enabled.protocols",
        "Versions of TLS that may be spoken: TLSv1.2, TLSv1.3; older ones are left out.",
        ConfigType.LIST,
        "TLSv1.2,TLSv1.3",
    ),
    _key(
        "ssl.cipher.suites",
        "Cipher suites that may be used, by Java's names; empty: what Java 17 offers (a listener: "
        "what OpenSSL takes).",
        ConfigType.LIST,
    ),
    _key(
        "ssl.protocol",
        "The version of TLS that Java prepares for.",
        no_effect="ssl.enabled.protocols decides, as it does in Java",
    ),
    _key("ssl.engine.factory.class", "A Java class that makes TLS connections.", ConfigType.CLASS),
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
        "How this client proves who it is: PLAIN, SCRAM-SHA-256, SCRAM-SHA-512, OAUTHBEARER, "
        "GSSAPI (Kerberos) or AWS_MSK_IAM.",
        ConfigType.STRING,
        "GSSAPI",
        _MECHANISMS,
        importance=Importance.HIGH,
    ),
    _key(
        "sasl.jaas.config",
        "User and password, or where tokens come from, as a JAAS line: a login module that fits "
        "the mechanism, required, options, and a semicolon.",
        ConfigType.PASSWORD,
        importance=Importance.HIGH,
    ),
    _key(
        "sasl.oauthbearer.token.endpoint.url",
        "Where tokens are asked for, http or https, or the file that they are in: file:///path.",
        importance=Importance.HIGH,
    ),
    _key(
        "sasl.oauthbearer.client.credentials.client.id",
        "Name of this client at the token endpoint; wins against clientId of the JAAS line.",
    ),
    _key(
        "sasl.oauthbearer.client.credentials.client.secret",
        "Its secret; wins against clientSecret of the JAAS line.",
        ConfigType.PASSWORD,
    ),
    _key(
        "sasl.oauthbearer.scope",
        "What tokens are asked for; wins against scope of the JAAS line.",
    ),
    _key(
        "sasl.oauthbearer.header.urlencode",
        "Whether name and secret are URL-encoded before they are sent to the token endpoint.",
        ConfigType.BOOLEAN,
        "false",
    ),
    _key(
        "sasl.login.connect.timeout.ms",
        "How long a connection to the token endpoint may take; 10 s if nothing is set.",
        ConfigType.INT,
    ),
    _key(
        "sasl.login.read.timeout.ms",
        "How long its answer may take; 10 s if nothing is set.",
        ConfigType.INT,
    ),
    _key(
        "sasl.login.refresh.window.factor",
        "After which part of its life a token is replaced.",
        ConfigType.DOUBLE,
        "0.8",
    ),
    _key(
        "sasl.login.refresh.min.period.seconds",
        "No token is replaced earlier.",
        ConfigType.SHORT,
        "60",
        at_least(0),
    ),
    _key(
        "sasl.login.refresh.buffer.seconds",
        "How long before its end a token is replaced at the latest.",
        ConfigType.SHORT,
        "300",
        at_least(0),
    ),
    _key(
        "sasl.login.callback.handler.class",
        "Who fetches tokens: Kafka's, Strimzi's and Amazon's handlers are known by name, Java "
        "classes of others are refused.",
        ConfigType.CLASS,
    ),
    _key(
        "sasl.client.callback.handler.class",
        "Who answers a mechanism's questions: Kafka's and Amazon's handlers are known by name, "
        "Java classes of others are refused.",
        ConfigType.CLASS,
    ),
    _key("sasl.login.class", "Who logs in; only Kafka's own are known.", ConfigType.CLASS),
    _key(
        "sasl.oauthbearer.jwt.retriever.class",
        "How tokens are got: Kafka's own classes are known by name, Java classes of others are "
        "refused.",
        ConfigType.CLASS,
    ),
    _key(
        "sasl.kerberos.service.name",
        "First part of the brokers' Kerberos name; kafka if neither this nor serviceName of the "
        "JAAS line is set.",
    ),
    _key("sasl.kerberos.kinit.cmd", "Java's way to renew tickets.", no_effect=_NO_KINIT),
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
        "How far Java varies the time at which a token is replaced.",
        ConfigType.DOUBLE,
        no_effect="a process has one token for all its connections, and asks for the next one once",
    ),
    *(
        _key(
            name, "How long Java waits between logins that fail.", ConfigType.LONG, no_effect=reason
        )
        for name, reason in (
            ("sasl.login.retry.backoff.ms", _OWN_RETRIES),
            ("sasl.login.retry.backoff.max.ms", _OWN_RETRIES),
        )
    ),
    _key(
        "sasl.oauthbearer.jwt.validator.class",
        "Who looks at a token before it is used.",
        ConfigType.CLASS,
        no_effect=_BROKERS_VALIDATE,
    ),
    _key(
        "sasl.oauthbearer.assertion.file",
        "File with a signed assertion (JWT), which is sent to the token endpoint in the place of a "
        "secret.",
    ),
    _key(
        "sasl.oauthbearer.assertion.private.key.file",
        "File with the key (PEM, PKCS #8) that assertions are signed with, where there is no file "
        "with one.",
    ),
    _key(
        "sasl.oauthbearer.assertion.private.key.passphrase",
        "Passphrase of that key, where it has one.",
        ConfigType.PASSWORD,
    ),
    _key(
        "sasl.oauthbearer.assertion.algorithm",
        "How assertions are signed: RS256 or ES256.",
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
            ("aud", "for whom they are"),
            ("iss", "who signs them; with client credentials, whether one is signed at all"),
            ("sub", "about whom they are"),
        )
    ),
    _key(
        "sasl.oauthbearer.assertion.claim.exp.seconds",
        "How long an assertion is good for.",
        ConfigType.INT,
        "300",
        between(0, 86400),
    ),
    _key(
        "sasl.oauthbearer.assertion.claim.nbf.seconds",
        "Since how long before now it is good, as clocks differ.",
        ConfigType.INT,
        "60",
        between(0, 3600),
    ),
    _key(
        "sasl.oauthbearer.assertion.claim.jti.include",
        "Whether every assertion has a number of its own.",
        ConfigType.BOOLEAN,
        "false",
    ),
    *(
        _key(
            f"sasl.oauthbearer.{name}",
            "How tokens are validated.",
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
        "How brokers are reached: PLAINTEXT, SSL (encrypted), SASL_PLAINTEXT (this client says who "
        "it is) or SASL_SSL (both).",
        ConfigType.STRING,
        "PLAINTEXT",
        one_of(*(one.value for one in SecurityProtocol), ignore_case=True),
        importance=Importance.HIGH,
    ),
    *SSL_KEYS,
    *_SASL_KEYS,
)

_WHAT_STRIMZI_KNOWS = "Strimzi's login reads it, brokers do not ask for it"

STRIMZI_OAUTH_KEYS = (
    _key("oauth.token.endpoint.uri", "Strimzi's name for the token endpoint."),
    _key("oauth.client.id", "Strimzi's name for this client's name at the token endpoint."),
    _key("oauth.client.secret", "Strimzi's name for its secret.", ConfigType.PASSWORD),
    _key("oauth.scope", "Strimzi's name for what tokens are asked for."),
    _key("oauth.audience", "For whom tokens are asked for, where the endpoint wants to know."),
    _key(
        "oauth.connect.timeout.seconds",
        "How long a connection to the token endpoint may take; 10 s if nothing is set.",
        ConfigType.INT,
    ),
    _key(
        "oauth.read.timeout.seconds",
        "How long its answer may take; 10 s if nothing is set.",
        ConfigType.INT,
    ),
    *_store_keys("oauth.ssl."),
    _key("oauth.access.token", "A token, for which nobody is asked then.", ConfigType.PASSWORD),
    _key("oauth.access.token.location", "A file with such a token, which somebody else renews."),
    _key("oauth.refresh.token", "A token to ask for tokens with.", ConfigType.PASSWORD),
    _key("oauth.refresh.token.location", "A file with such a token."),
    _key("oauth.password.grant.username", "A user to ask for tokens as."),
    _key("oauth.password.grant.password", "That user's password.", ConfigType.PASSWORD),
    _key(
        "oauth.client.assertion",
        "A signed assertion, which is sent in the place of a secret.",
        ConfigType.PASSWORD,
    ),
    _key("oauth.client.assertion.location", "A file with such an assertion."),
    _key("oauth.client.assertion.type", "What kind of assertion it is; a JWT if nothing is set."),
    _key(
        "oauth.client.credentials.grant.type",
        "What tokens are asked for as, with a secret; client_credentials if nothing is set.",
    ),
    _key(
        "oauth.max.token.expiry.seconds",
        "How long a token that was asked for is used at most, whatever it says.",
        ConfigType.INT,
    ),
    *(
        _key(f"oauth.{name}", "A detail of Strimzi's login.", no_effect=_WHAT_STRIMZI_KNOWS)
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
