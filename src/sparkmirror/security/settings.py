# SPDX-License-Identifier: Apache-2.0
"""The resolved security settings of one client, without file names and store passwords.

The driver resolves them from config keys and stores. Tasks get them over the control channel only.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import Any

from sparkmirror.model import Secret


class SecurityProtocol(Enum):
    """Kafka's `security.protocol`."""

    PLAINTEXT = "PLAINTEXT"
    SSL = "SSL"
    SASL_PLAINTEXT = "SASL_PLAINTEXT"
    SASL_SSL = "SASL_SSL"

    @property
    def has_tls(self) -> bool:
        return self in (SecurityProtocol.SSL, SecurityProtocol.SASL_SSL)

    @property
    def has_sasl(self) -> bool:
        return self in (SecurityProtocol.SASL_PLAINTEXT, SecurityProtocol.SASL_SSL)


class SaslMechanism(Enum):
    """Kafka's `sasl.mechanism`."""

    PLAIN = "PLAIN"
    SCRAM_SHA_256 = "SCRAM-SHA-256"
    SCRAM_SHA_512 = "SCRAM-SHA-512"
    OAUTHBEARER = "OAUTHBEARER"
    GSSAPI = "GSSAPI"
    AWS_MSK_IAM = "AWS_MSK_IAM"


@dataclass(frozen=True, slots=True)
class TlsSettings:
    """Trusted certificates and the client's identity, in PEM."""

    trusted: str | None = None  # None: the system's CA certificates
    chain: str = ""  # the client certificate and its issuers; empty: none
    key: Secret | None = None  # PKCS #8, not encrypted
    verifies_hostname: bool = True
    protocols: tuple[str, ...] = ("TLSv1.2", "TLSv1.3")
    ciphers: tuple[str, ...] = ()  # Java's names; empty: the default ones


@dataclass(frozen=True, slots=True)
class AssertionSettings:
    """A JWT that is signed for each token request instead of a client secret."""

    form_field: str  # the request's form field for it
    key: Secret  # PEM (PKCS #8), not encrypted
    algorithm: str = "RS256"
    header: Mapping[str, Any] = field(default_factory=dict)
    claims: Mapping[str, Any] = field(default_factory=dict)
    lifetime_seconds: int = 300
    not_before_skew_seconds: int = 60  # tolerates clock skew
    includes_jti: bool = False


CLIENT_CREDENTIALS = "client_credentials"  # RFC 6749, 4.4


@dataclass(frozen=True, slots=True)
class OAuthSettings:
    """The source of tokens: a token endpoint and the request to it, or a static token.

    With `static_token`, `endpoint` is the file that contains the token, or empty.
    """

    endpoint: str
    client_id: str = ""
    client_secret: Secret | None = None  # None: no Authorization header
    scope: str = ""
    audience: str = ""  # Strimzi's oauth.audience
    urlencodes_header: bool = False  # id and secret in the Authorization header
    form_fields: Mapping[str, str] = field(
        default_factory=lambda: {"grant_type": CLIENT_CREDENTIALS}
    )
    secret_form_fields: Mapping[str, Secret] = field(default_factory=dict)  # additional form fields
    assertion: AssertionSettings | None = None  # a secret form field, signed for each request
    static_token: Secret | None = None
    max_token_seconds: float | None = None  # limits a token's lifetime
    extensions: Mapping[str, str] = field(default_factory=dict)
    tls: TlsSettings = field(default_factory=TlsSettings)  # for an https endpoint
    connect_timeout_seconds: float = 10.0
    read_timeout_seconds: float = 10.0
    refresh_window_factor: float = 0.8
    refresh_min_seconds: float = 60.0
    refresh_buffer_seconds: float = 300.0


@dataclass(frozen=True, slots=True)
class KerberosSettings:
    """The source of tickets: the ticket cache if enabled, else the keytab."""

    service: str = "kafka"  # sasl.kerberos.service.name
    principal: str = ""  # empty: the principal of the ticket cache
    keytab: Secret | None = None  # the file's content in base64
    uses_ticket_cache: bool = True
    ticket_cache: str = ""  # on the machine that connects; empty: the system's default


@dataclass(frozen=True, slots=True)
class AwsSettings:
    """The source of MSK IAM credentials: a profile, else a role, else botocore's default chain."""

    profile: str | None = None
    role: str | None = None  # its ARN
    session_name: str | None = None  # this and all below are for the role
    external_id: str | None = None
    sts_region: str | None = None
    access_key: str | None = None  # assumes the role; None: botocore's default chain
    secret_key: Secret | None = None
    session_token: Secret | None = None


@dataclass(frozen=True, slots=True)
class SaslSettings:
    """The mechanism and its credentials."""

    mechanism: SaslMechanism
    username: str = ""
    password: Secret | None = None
    oauth: OAuthSettings | None = None  # for OAUTHBEARER
    kerberos: KerberosSettings | None = None  # for GSSAPI
    aws: AwsSettings | None = None  # for AWS_MSK_IAM, and OAUTHBEARER with tokens signed for MSK
    is_token: bool = False  # for SCRAM: username and password are a delegation token


@dataclass(frozen=True, slots=True)
class SecurityKeyNames:
    """The config keys as the user wrote them, for error messages."""

    protocol: str = "security.protocol"
    trust: str = "ssl.truststore.location"  # or ssl.truststore.certificates
    identity: str = "ssl.keystore.location"
    host_check: str = "ssl.endpoint.identification.algorithm"
    versions: str = "ssl.enabled.protocols"
    suites: str = "ssl.cipher.suites"
    mechanism: str = "sasl.mechanism"
    login: str = "sasl.jaas.config"
    endpoint: str = "sasl.oauthbearer.token.endpoint.url"


@dataclass(frozen=True, slots=True)
class SecuritySettings:
    """The security settings of a client; the default is PLAINTEXT."""

    protocol: SecurityProtocol = SecurityProtocol.PLAINTEXT
    tls: TlsSettings | None = None  # set if the protocol has TLS
    sasl: SaslSettings | None = None  # set if the protocol has SASL
    keys: SecurityKeyNames = field(default_factory=SecurityKeyNames, compare=False)


PLAINTEXT = SecuritySettings()
