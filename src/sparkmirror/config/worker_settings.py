# SPDX-License-Identifier: Apache-2.0
"""The typed settings of a Connect worker: its cluster, its group, its REST server, its topics."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from enum import Enum
from ipaddress import ip_address

from sparkmirror.config.settings import (
    ExactlyOnce,
    InternalTopics,
    LogSettings,
    MetricsSettings,
)
from sparkmirror.model import Secret
from sparkmirror.policy.class_loading import ClassAllowlist
from sparkmirror.security.settings import TlsSettings
from sparkmirror.wire.settings import ConnectionSettings

# The keys that Connect's Principal policy allows.
_PRINCIPAL_KEYS = frozenset({"sasl.jaas.config", "sasl.mechanism", "security.protocol"})


class OverridePolicy(Enum):
    """Which client keys a connector may set for the worker's clients; named as in Connect."""

    ALL = "All"
    NONE = "None"
    PRINCIPAL = "Principal"
    ALLOWLIST = "Allowlist"


@dataclass(frozen=True, slots=True)
class ClientOverrides:
    """What connectors may override: the policy, and the keys of policy Allowlist."""

    policy: OverridePolicy = OverridePolicy.ALL
    allowlist: tuple[str, ...] = ()

    def allows(self, key: str) -> bool:
        """Whether a connector may set this client key (without `producer.override.`)."""
        if self.policy is OverridePolicy.PRINCIPAL:
            return key in _PRINCIPAL_KEYS
        if self.policy is OverridePolicy.ALLOWLIST:
            return key in self.allowlist
        return self.policy is OverridePolicy.ALL


@dataclass(frozen=True, slots=True)
class RestListener:
    """An address to listen on; an empty host means every interface, port 0 any free port."""

    scheme: str
    host: str
    port: int

    def __str__(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{self.scheme}://{host}:{self.port}"

    @property
    def is_loopback(self) -> bool:
        return is_loopback(self.host)


@dataclass(frozen=True, slots=True)
class RestSettings:
    """Where and how the REST API is served, and the address advertised to other workers."""

    listeners: tuple[RestListener, ...]
    admin_listeners: tuple[RestListener, ...] | None = None  # None: `listeners`; empty: disabled
    advertised_host: str = ""  # empty: the listener's, else the machine's name
    advertised_port: int | None = None  # None: the listener's
    advertised_scheme: str = ""  # empty: http, if that is served
    allow_origin: str = ""
    allow_methods: str = ""
    response_headers: str = ""
    tls: TlsSettings = field(default_factory=TlsSettings)  # https listeners, and inter-worker calls
    client_auth: str = "none"  # client certificates on https: none, requested, required
    users: Mapping[str, Secret] | None = None  # for basic authentication; None: none required

    def differs_only_in_credentials(self, other: RestSettings) -> bool:
        """Whether a running server can switch from one to the other."""
        same = replace(other, tls=self.tls, client_auth=self.client_auth, users=self.users)
        return self == same and (self.users is None) == (other.users is None)


@dataclass(frozen=True, slots=True)
class RunRestSettings:
    """The REST API of a dedicated mirror; `allows_any_port`: use a free port if it is taken."""

    settings: RestSettings
    allows_any_port: bool


@dataclass(frozen=True, slots=True)
class GroupSettings:
    """Membership of a worker group."""

    group_id: str
    session_timeout_ms: int = 10_000
    heartbeat_interval_ms: int = 3_000
    rebalance_timeout_ms: int = 60_000
    rebalance_delay_ms: int = 0  # scheduled.rebalance.max.delay.ms
    sync_timeout_ms: int = 3_000
    unsync_backoff_ms: int = 300_000


@dataclass(frozen=True, slots=True)
class SigningSettings:
    """How requests between workers are signed."""

    key_ttl_ms: int = 3_600_000
    key_bits: int | None = None  # None: the algorithm's own
    key_algorithm: str = "HmacSHA256"
    signature_algorithm: str = "HmacSHA256"
    accepted_algorithms: tuple[str, ...] = ("HmacSHA256",)


@dataclass(frozen=True, slots=True)
class WorkerSettings:
    """The settings of a Connect worker, without its connectors."""

    connection: ConnectionSettings  # to the cluster with the three topics and the group
    group: GroupSettings
    signing: SigningSettings
    rest: RestSettings
    internal_topics: InternalTopics
    exactly_once: ExactlyOnce
    overrides: ClientOverrides
    allowed_classes: ClassAllowlist  # Python classes that connectors may name
    topic_tracking: bool
    topic_tracking_reset: bool
    metrics: MetricsSettings
    spark: Mapping[str, str] = field(repr=False)  # configuration of the Spark session
    log: LogSettings = field(default_factory=LogSettings)


def is_loopback(host: str) -> bool:
    """Whether the host is this machine; names other than localhost are not resolved."""
    name = host.strip("[]").rstrip(".").lower()
    if name == "localhost":
        return True
    try:
        return ip_address(name).is_loopback
    except ValueError:
        return False
