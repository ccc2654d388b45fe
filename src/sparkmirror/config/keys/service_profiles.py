# SPDX-License-Identifier: Apache-2.0
"""Profiles of managed Kafka services: settings that avoid what a service refuses, as data.

A profile's values override our defaults, and every line of a file overrides them. The facts about a
service come from its documentation. They were tested with a local broker that refuses the same
requests, not with the real service.
"""

from __future__ import annotations

from dataclasses import dataclass

NO_PROFILE = "none"
TARGET_KEY = "profile"
SOURCE_KEY = "source.profile"

FACTOR = "replication.factor"
# The offset-syncs topic has the target's factor, too, but only if it is on the target.
SYNCS_FACTOR = "offset-syncs.topic.replication.factor"
SYNCS_LOCATION = "offset-syncs.topic.location"

# The sections of `check` with the values that a limit applies to.
CONNECTOR_SECTION = "connector"
PRODUCER_SECTION = "target producer"
TARGET_ADMIN_SECTION = "target admin"
CONSUMER_SECTION = "source consumer"
SOURCE_ADMIN_SECTION = "source admin"


@dataclass(frozen=True, slots=True)
class ProfileSetting:
    """A value of a profile: the key as written for a flow, and the reason."""

    key: str
    value: str
    reason: str

    @property
    def is_worker_key(self) -> bool:
        """Whether it is a key of the target's worker, as `B.<key>`, and not of the flow."""
        return self.key.startswith(
            ("producer.", "offset.storage.", "status.storage.", "config.storage.")
        )


@dataclass(frozen=True, slots=True)
class ServiceLimit:
    """Values that a service refuses: a line with such a value is used, with a warning."""

    section: str
    key: str
    reason: str  # the end of a sentence that begins with the line's key
    max_value: int | None = None
    allowed_values: tuple[str, ...] = ()

    def allows(self, text: str) -> bool:
        """Whether the service accepts this value."""
        value = text.strip().lower()
        if self.max_value is not None:
            return 0 <= int(value) <= self.max_value
        return value in self.allowed_values


@dataclass(frozen=True, slots=True)
class ServiceProfile:
    """One service: its name, and its settings and limits as target and as source."""

    name: str
    title: str
    target: tuple[ProfileSetting, ...]
    source: tuple[ProfileSetting, ...]
    target_limits: tuple[ServiceLimit, ...]
    source_limits: tuple[ServiceLimit, ...]
    notes: tuple[str, ...]


_FACTORS = (
    FACTOR,
    "checkpoints.topic.replication.factor",
    "heartbeats.topic.replication.factor",
    "offset.storage.replication.factor",
    "status.storage.replication.factor",
    "config.storage.replication.factor",
)
_NOT_ON_SOURCE = ProfileSetting(
    SYNCS_LOCATION, "target", "nothing needs to be written to the service"
)


def _factors(value: str, reason: str) -> tuple[ProfileSetting, ...]:
    return tuple(ProfileSetting(key, value, reason) for key in _FACTORS)


def _without_acls(reason: str) -> ProfileSetting:
    return ProfileSetting("sync.topic.acls.enabled", "false", reason)


def _idle_timeouts(ms: str, reason: str, *clients: str) -> tuple[ProfileSetting, ...]:
    return tuple(
        ProfileSetting(f"{client}.connections.max.idle.ms", ms, reason) for client in clients
    )


def _no_acls_limit(reason: str) -> ServiceLimit:
    return ServiceLimit(
        CONNECTOR_SECTION, "sync.topic.acls.enabled", reason, allowed_values=("false",)
    )


def _idle_limits(most: int, reason: str, *sections: str) -> tuple[ServiceLimit, ...]:
    return tuple(
        ServiceLimit(one, "connections.max.idle.ms", reason, max_value=most) for one in sections
    )


def _own_factor(reason: str) -> ServiceLimit:
    return ServiceLimit(CONNECTOR_SECTION, FACTOR, reason, allowed_values=("-1", "3"))


_TARGET_CLIENTS = ("producer", "target.admin")
_SOURCE_CLIENTS = ("source.consumer", "source.admin")
_TARGET_SECTIONS = (PRODUCER_SECTION, TARGET_ADMIN_SECTION)
_SOURCE_SECTIONS = (CONSUMER_SECTION, SOURCE_ADMIN_SECTION)

_AZURE_IDLE = "Azure drops a connection that is idle for 240 s, without notice to either side"
_AZURE_ASKS = "the service takes up to 20 s for a response and recommends 60 s"
_NO_ACL_API = "the service has no ACLs: rights are given in Azure"
_AZURE_CUT = "is above 240 s, after which Azure drops idle connections without notice"

_EVENT_HUBS = ServiceProfile(
    name="event-hubs",
    title="Azure Event Hubs",
    target=(
        _without_acls(_NO_ACL_API),
        ProfileSetting(
            "sync.topic.configs.enabled", "false", "the service has no request to alter configs"
        ),
        ProfileSetting(
            "config.properties.include",
            "cleanup.policy",
            "the tier determines retention and other configs; set them on the event hub",
        ),
        *_factors("1", "the service manages replication and has no replication factor"),
        ProfileSetting(
            "producer.max.request.size",
            "1000000",
            "the service closes the connection on a request above 1,046,528 bytes",
        ),
        ProfileSetting(
            "producer.compression.type",
            "none",
            "the service supports no codec except gzip, and that not in every tier",
        ),
        ProfileSetting("producer.request.timeout.ms", "60000", _AZURE_ASKS),
        ProfileSetting("target.admin.request.timeout.ms", "60000", _AZURE_ASKS),
        *_idle_timeouts("180000", _AZURE_IDLE, *_TARGET_CLIENTS),
    ),
    source=(
        _NOT_ON_SOURCE,
        _without_acls(_NO_ACL_API),
        ProfileSetting("source.consumer.request.timeout.ms", "60000", _AZURE_ASKS),
        ProfileSetting("source.admin.request.timeout.ms", "60000", _AZURE_ASKS),
        *_idle_timeouts("180000", _AZURE_IDLE, *_SOURCE_CLIENTS),
    ),
    target_limits=(
        _no_acls_limit("asks for ACLs, and the service has none"),
        ServiceLimit(
            CONNECTOR_SECTION,
            "sync.topic.configs.enabled",
            "asks for changes of topic configs, and the service has no request for them",
            allowed_values=("false",),
        ),
        ServiceLimit(
            PRODUCER_SECTION,
            "max.request.size",
            "is above 1,046,528 bytes: the service closes the connection on a larger request",
            max_value=1_046_528,
        ),
        ServiceLimit(
            PRODUCER_SECTION,
            "compression.type",
            "names a codec that the service does not support: use none or gzip",
            allowed_values=("none", "gzip"),
        ),
        *_idle_limits(239_999, _AZURE_CUT, *_TARGET_SECTIONS),
    ),
    source_limits=_idle_limits(239_999, _AZURE_CUT, *_SOURCE_SECTIONS),
    notes=(
        "A namespace is a cluster, an event hub is a topic.",
        "Kafka needs the Standard tier or above.",
        "Standard: 32 partitions an event hub, 10 event hubs a namespace; a flow's own take 6.",
    ),
)

_AWS_IDLE = "AWS drops a connection that is idle for 350 s"
_IAM = "the service has no ACLs: rights are granted with IAM"
_AWS_CUT = "is above 350 s, after which AWS drops idle connections"

_MSK_SERVERLESS = ServiceProfile(
    name="msk-serverless",
    title="Amazon MSK Serverless",
    target=(
        _without_acls(_IAM),
        ProfileSetting(
            "config.properties.include",
            "cleanup.policy, compression.type, max.message.bytes, retention.bytes, retention.ms",
            "no other topic config can be set, and cleanup.policy only at creation",
        ),
        *_factors("-1", "the service decides"),
        ProfileSetting(
            "offset.storage.partitions",
            "5",
            "a cluster has at most 120 partitions of compacted topics",
        ),
        ProfileSetting(
            "producer.max.request.size", "8388608", "max.message.bytes cannot be above 8 MiB there"
        ),
        *_idle_timeouts("300000", _AWS_IDLE, *_TARGET_CLIENTS),
    ),
    source=(
        _NOT_ON_SOURCE,
        _without_acls(_IAM),
        *_idle_timeouts("300000", _AWS_IDLE, *_SOURCE_CLIENTS),
    ),
    target_limits=(
        _no_acls_limit("asks for ACLs, and the service has none"),
        _own_factor("asks for a number of replicas that is not the service's"),
        *_idle_limits(349_999, _AWS_CUT, *_TARGET_SECTIONS),
    ),
    source_limits=_idle_limits(349_999, _AWS_CUT, *_SOURCE_SECTIONS),
    notes=(
        "Clients authenticate with IAM only.",
        "A cluster has at most 2,400 partitions, and 120 of compacted topics.",
    ),
)

_PRINCIPALS = (
    "principals are service accounts of Confluent; those of another cluster are unknown there"
)
_BALANCERS = "load balancers drop idle connections, on Azure after 240 s"
_BALANCERS_CUT = "is above 240 s, after which load balancers on Azure drop idle connections"

_CONFLUENT_CLOUD = ServiceProfile(
    name="confluent-cloud",
    title="Confluent Cloud",
    target=(
        _without_acls(_PRINCIPALS),
        ProfileSetting(
            "config.properties.include",
            "cleanup.policy, delete.retention.ms, max.compaction.lag.ms, max.message.bytes, "
            "min.compaction.lag.ms, retention.bytes, retention.ms, segment.bytes, segment.ms",
            "no other topic config can be edited",
        ),
        *_factors("-1", "the service decides (3), and refuses others"),
        ProfileSetting(
            "producer.max.request.size",
            "8388608",
            "max.message.bytes cannot be above 8 MiB except on Dedicated clusters",
        ),
        *_idle_timeouts("180000", _BALANCERS, *_TARGET_CLIENTS),
    ),
    source=(
        _NOT_ON_SOURCE,
        _without_acls(_PRINCIPALS),
        *_idle_timeouts("180000", _BALANCERS, *_SOURCE_CLIENTS),
    ),
    target_limits=(
        _own_factor("asks for a number of replicas that the service refuses: it keeps 3"),
        *_idle_limits(239_999, _BALANCERS_CUT, *_TARGET_SECTIONS),
    ),
    source_limits=_idle_limits(239_999, _BALANCERS_CUT, *_SOURCE_SECTIONS),
    notes=(
        "Clients authenticate with an API key of a service account.",
        "ACLs and transactions work as in Kafka.",
    ),
)

_IBM_IAM = "the service has no ACLs: rights are granted with IAM policies"

_IBM_EVENT_STREAMS = ServiceProfile(
    name="ibm-event-streams",
    title="IBM Event Streams for IBM Cloud",
    target=(
        _without_acls(_IBM_IAM),
        ProfileSetting(
            "config.properties.include",
            "cleanup.policy, retention.bytes, retention.ms, segment.bytes, segment.index.bytes, "
            "segment.ms",
            "no other topic config can be set",
        ),
        *_factors("-1", "the service decides (3)"),
        ProfileSetting(
            "offset.storage.partitions", "5", "the Standard plan has 100 partitions altogether"
        ),
        ProfileSetting(
            "status.storage.partitions", "1", "the Standard plan has 100 partitions altogether"
        ),
        ProfileSetting(
            "producer.max.request.size", "1000000", "the service accepts messages of 1 MB at most"
        ),
    ),
    source=(
        _NOT_ON_SOURCE,
        _without_acls(_IBM_IAM),
    ),
    target_limits=(
        _no_acls_limit("asks for ACLs, and the service has none"),
        _own_factor("asks for a number of replicas that is not the service's"),
    ),
    source_limits=(),
    notes=(
        "An instance is a cluster; clients authenticate with an API key.",
        "Standard plan: 100 partitions, retention from an hour to 30 days, 1 GiB a partition.",
        "The Lite plan's one partition is too few.",
    ),
)

PROFILES = {
    profile.name: profile
    for profile in (_EVENT_HUBS, _MSK_SERVERLESS, _CONFLUENT_CLOUD, _IBM_EVENT_STREAMS)
}
PROFILE_NAMES = (NO_PROFILE, *PROFILES)


def profile_settings(target: str, source: str) -> dict[str, tuple[str, ProfileSetting]]:
    """Return profile and setting for each key of a flow; the target's profile wins."""
    chosen: dict[str, tuple[str, ProfileSetting]] = {}
    if source in PROFILES:
        chosen |= {one.key: (source, one) for one in PROFILES[source].source}
    if target in PROFILES:
        chosen |= {one.key: (target, one) for one in PROFILES[target].target}
    return chosen


def service_limits(target: str, source: str) -> list[tuple[ServiceProfile, ServiceLimit]]:
    """Return the limits of both sides of a flow, each with its profile."""
    found: list[tuple[ServiceProfile, ServiceLimit]] = []
    if target in PROFILES:
        found += [(PROFILES[target], one) for one in PROFILES[target].target_limits]
    if source in PROFILES:
        found += [(PROFILES[source], one) for one in PROFILES[source].source_limits]
    return found
