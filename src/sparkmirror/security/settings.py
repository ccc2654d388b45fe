# SPDX-License-Identifier: Apache-2.0
"""The security settings of one client, ready for use: they contain no file and no store password.

The driver makes them from the keys and stores that a file names. They reach tasks over the control
channel only.
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
        """Whether bytes are encrypted."""
        return self in (SecurityProtocol.SSL, SecurityProtocol.SASL_SSL)

    @property
    def has_sasl(self) -> bool:
        """Whether the client says who it is."""
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
    """Whom to trust, and who we are; certificates and keys are PEM texts."""

    trusted: str | None = None  # None: whom the system trusts
    chain: str = ""  # our certificate and those that vouch for it; empty: none
    key: Secret | None = None  # PKCS #8, not encrypted
    verifies_hostname: bool = True
    protocols: tuple[str, ...] = ("TLSv1.2", "TLSv1.3")
    ciphers: tuple[str, ...] = ()  # Java's names; empty: the default ones


@dataclass(frozen=True, slots=True)
class AssertionSettings:
    """A JWT that is signed for each request, in the place of a secret."""

    form_field: str  # a field of the request
    key: Secret  # as PEM (PKCS #8), not encrypted
    algorithm: str = "RS256"
    header: Mapping[str, Any] = field(default_factory=dict)
    claims: Mapping[str, Any] = field(default_factory=dict)
    lifetime_seconds: int = 300
    not_before_skew_seconds: int = 60  # clocks differ
    includes_jti: bool = False


CLIENT_CREDENTIALS = "client_credentials"  # RFC 6749, 4.4


@dataclass(frozen=True, slots=True)
class OAuthSettings:
    """Where tokens come from: an endpoint and what to say there, or somebody who renews them.

    `endpoint` is who is asked. With `static_token` nobody is: it is the file that the token was
    read from, or empty.
    """

    endpoint: str
    client_id: str = ""
    client_secret: Secret | None = None  # None: no header says who asks
    scope: str = ""
    audience: str = ""  # Strimzi's oauth.audience
    urlencodes_header: bool = False  # name and secret, before they go into the header
    form_fields: Mapping[str, str] = field(
        default_factory=lambda: {"grant_type": CLIENT_CREDENTIALS}
    )
    secret_form_fields: Mapping[str, Secret] = field(default_factory=dict)  # of the request, too
    assertion: AssertionSettings | None = None  # one of the secret fields, made for each request
    static_token: Secret | None = None
    max_token_seconds: float | None = None  # that a token is used for, whatever it says
    extensions: Mapping[str, str] = field(default_factory=dict)
    tls: TlsSettings = field(default_factory=TlsSettings)  # of an https endpoint
    connect_timeout_seconds: float = 10.0
    read_timeout_seconds: float = 10.0
    refresh_window_factor: float = 0.8
    refresh_min_seconds: float = 60.0
    refresh_buffer_seconds: float = 300.0


@dataclass(frozen=True, slots=True)
class KerberosSettings:
    """Where tickets come from: a cache, where one is to be looked at, and then the keytab."""

    service: str = "kafka"  # the first part of the brokers' name
    principal: str = ""  # who we are; empty: whoever the tickets are made out to
    keytab: Secret | None = None  # the content of the file, in base64
    uses_ticket_cache: bool = True
    ticket_cache: str = ""  # where connections are made; empty: where the system keeps it


@dataclass(frozen=True, slots=True)
class AwsSettings:
    """Whose keys sign a login at Amazon MSK: a profile's, else a role's, else what is around."""

    profile: str | None = None
    role: str | None = None  # its ARN
    session_name: str | None = None  # of the role, as are all below
    external_id: str | None = None
    sts_region: str | None = None
    access_key: str | None = None  # who asks for the role; None: whoever is around
    secret_key: Secret | None = None
    session_token: Secret | None = None


@dataclass(frozen=True, slots=True)
class SaslSettings:
    """How a client proves who it is."""

    mechanism: SaslMechanism
    username: str = ""
    password: Secret | None = None
    oauth: OAuthSettings | None = None  # of OAUTHBEARER
    kerberos: KerberosSettings | None = None  # of GSSAPI
    aws: AwsSettings | None = None  # of AWS_MSK_IAM, and of OAUTHBEARER if AWS's keys sign tokens
    is_token: bool = False  # of SCRAM: name and password are those of a delegation token


@dataclass(frozen=True, slots=True)
class SecurityKeyNames:
    """The keys as the user wrote them, for sentences about what they led to."""

    protocol: str = "security.protocol"
    trust: str = "ssl.truststore.location"  # or the one with the certificates themselves
    identity: str = "ssl.keystore.location"
    host_check: str = "ssl.endpoint.identification.algorithm"
    versions: str = "ssl.enabled.protocols"
    suites: str = "ssl.cipher.suites"
    mechanism: str = "sasl.mechanism"
    login: str = "sasl.jaas.config"
    endpoint: str = "sasl.oauthbearer.token.endpoint.url"


@dataclass(frozen=True, slots=True)
class SecuritySettings:
    """All of it; the default is none."""

    protocol: SecurityProtocol = SecurityProtocol.PLAINTEXT
    tls: TlsSettings | None = None  # there if the protocol has TLS
    sasl: SaslSettings | None = None  # there if the protocol has SASL
    keys: SecurityKeyNames = field(default_factory=SecurityKeyNames, compare=False)


PLAINTEXT = SecuritySettings()
