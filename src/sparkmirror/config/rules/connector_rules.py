# SPDX-License-Identifier: Apache-2.0
"""Rules between the keys of one connector on a Connect worker.

If Connect or MM2 refuses a combination, the message is theirs, so that people and tools recognise
it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from sparkmirror.config.files.config_reader import SettingsAndReaders
from sparkmirror.config.files.layering import LayeredValue, Origin
from sparkmirror.config.files.notices import ConfigReport
from sparkmirror.config.keys.connector_classes import ConnectorClass
from sparkmirror.config.rules.file_rules import check_converters
from sparkmirror.config.rules.flow_rules import (
    check_acl_keys,
    check_commit_interval,
    check_policy_classes,
    check_transforms,
)
from sparkmirror.config.settings import ExactlyOnce, FlowSettings
from sparkmirror.config.worker_settings import WorkerSettings

_SUPPORT = "exactly.once.support"
_BOUNDARY = "transaction.boundary"
_EMIT_SYNCS = "emit.offset-syncs.enabled"
_EMIT_CHECKPOINTS = "emit.checkpoints.enabled"
_SERVERS = "producer.override.bootstrap.servers"

_NO_SYNCS_TO_SET_UP = (
    "MirrorSourceConnector can't setup offset-syncs feature while emit.offset-syncs.enabled set "
    "to false"
)
_NO_CHECKPOINTS = "MirrorCheckpointConnector can't run with emit.checkpoints.enabled set to false"
_NO_SYNCS = "MirrorCheckpointConnector can't run without offset syncs"
_READS_UNCOMMITTED = (
    "MirrorSourceConnector can only provide exactly-once guarantees when its source consumer is "
    "configured with isolation.level set to 'read_committed'; otherwise, records from aborted and "
    "uncommitted transactions will be replicated from the source cluster to the target cluster."
)
_WORKER_WITHOUT = "This worker does not have exactly-once source support enabled."
_NOT_SUPPORTED = (
    "The connector does not support exactly-once semantics with the provided configuration."
)
_NO_PREFLIGHT = (
    "The connector does not implement the API required for preflight validation of exactly-once "
    "source support. Please consult the documentation for the connector to determine whether it "
    "supports exactly-once semantics, and then consider reconfiguring the connector to use the "
    'value "requested" for this property (which will disable this preflight check and allow the '
    "connector to be created)."
)
_NO_BOUNDARIES = (
    "The connector does not support connector-defined transaction boundaries with the given "
    "configuration. Please reconfigure it to use a different transaction boundary definition."
)

KeyMessage = tuple[str, str]  # a key and a message


def connect_errors(
    kind: ConnectorClass,
    texts: Mapping[str, str],
    settings: FlowSettings,
    worker: WorkerSettings,
) -> Iterator[KeyMessage]:
    """Return the errors of MM2 and Connect; `texts` have their references resolved."""
    yield from _mm2_errors(kind, texts)
    yield from _exactly_once(kind, texts, settings, worker)
    yield from _overrides(texts, worker)


def _mm2_errors(kind: ConnectorClass, texts: Mapping[str, str]) -> Iterator[KeyMessage]:
    """Return MM2's errors; MM2 compares these texts untrimmed and case-sensitively."""
    without_syncs = texts.get(_EMIT_SYNCS) == "false"
    if kind is ConnectorClass.SOURCE and without_syncs:
        if any(key.startswith(("offset-syncs-", "offset-syncs.topic.")) for key in texts):
            yield _EMIT_SYNCS, _NO_SYNCS_TO_SET_UP
    elif kind is ConnectorClass.CHECKPOINT and texts.get("enabled") != "false":
        if texts.get(_EMIT_CHECKPOINTS) == "false":
            yield _EMIT_CHECKPOINTS, _NO_CHECKPOINTS
        if without_syncs:
            yield _EMIT_SYNCS, _NO_SYNCS


def _exactly_once(
    kind: ConnectorClass,
    texts: Mapping[str, str],
    settings: FlowSettings,
    worker: WorkerSettings,
) -> Iterator[KeyMessage]:
    support = texts.get(_SUPPORT, "").strip()
    if support.lower() == "required":
        is_source = kind is ConnectorClass.SOURCE
        is_exact = settings.fetch.reads_committed
        if is_source and not is_exact and support == "required":
            yield _SUPPORT, _READS_UNCOMMITTED  # MM2's error comes first, and Connect adds none
        else:
            if worker.exactly_once is not ExactlyOnce.ENABLED:
                yield _SUPPORT, _WORKER_WITHOUT
            if not is_source:
                yield _SUPPORT, _NO_PREFLIGHT
            elif not is_exact:
                yield _SUPPORT, _NOT_SUPPORTED
    if texts.get(_BOUNDARY, "").strip().lower() == "connector":
        yield _BOUNDARY, _NO_BOUNDARIES


def _overrides(texts: Mapping[str, str], worker: WorkerSettings) -> Iterator[KeyMessage]:
    """Check overrides; Connect checks consumer and admin only if exactly-once uses them."""
    roles = ["producer"]
    if worker.exactly_once is ExactlyOnce.ENABLED:
        roles += ["consumer", "admin"]
    policy = worker.overrides.policy.value
    for role in roles:
        prefix = f"{role}.override."
        for key in texts:
            name = key.removeprefix(prefix)
            if name != key and not worker.overrides.allows(name):
                sentence = (
                    f"The '{policy}' policy does not allow '{name}' to be overridden in the "
                    "connector configuration."
                )
                yield key, sentence


def check_connector(
    kind: ConnectorClass, read: SettingsAndReaders, worker: WorkerSettings, report: ConfigReport
) -> None:
    """Report contradictions between the keys of a connector."""
    settings, connector = read.settings, read.connector
    for key, sentence in connect_errors(kind, connector.resolve_all(), settings, worker):
        report.error(LayeredValue("", Origin(key)), key, sentence)
    _aliases(settings, report)
    _check_destination(kind, settings, worker, report)
    check_policy_classes(settings, connector, report)
    check_transforms(connector, report)
    check_converters(connector, read.worker, report)
    if kind is not ConnectorClass.SOURCE:
        return
    check_acl_keys(settings, connector, report)
    if settings.transactions.is_enabled:
        check_commit_interval(settings, connector, report)
        _exact_writes(settings, report)


def _aliases(settings: FlowSettings, report: ConfigReport) -> None:
    flow = settings.flow
    if flow.source and flow.source == flow.target:
        key = "source.cluster.alias"
        report.error(
            LayeredValue("", Origin(key)),
            key,
            f"{key} and target.cluster.alias are both {flow.source!r}: they must differ, because "
            "remote topics are named after the source.",
        )


def _check_destination(
    kind: ConnectorClass, settings: FlowSettings, worker: WorkerSettings, report: ConfigReport
) -> None:
    """Check that the producer does not write to the source, which would copy records forever."""
    flow = settings.flow
    destination = set(settings.producer.bootstrap_servers)
    into_source = destination & set(settings.consumer.bootstrap_servers)
    target = settings.target_admin.bootstrap_servers
    origin = Origin(_SERVERS)
    if into_source and kind is not ConnectorClass.HEARTBEAT:
        own = set(worker.connection.bootstrap_servers)
        cause = "the worker's bootstrap.servers" if destination == own else _SERVERS
        remedy = f"Set {_SERVERS}={','.join(target) or '<the target>'}"
        if set(target) & set(settings.consumer.bootstrap_servers):
            remedy = (
                f"Set target.cluster.bootstrap.servers and {_SERVERS} to the target's addresses"
            )
        elif not worker.overrides.allows("bootstrap.servers"):
            remedy += (
                ", and connector.client.config.override.policy=All in the worker's file, which now "
                "forbids it"
            )
        report.error(
            LayeredValue("", origin),
            _SERVERS,
            f"{_SERVERS} is missing or wrong: records of {flow.source} would be written to "
            f"{', '.join(sorted(into_source))}, where they are read from, because {cause} name "
            f"that cluster. {remedy}.",
        )
    elif target and destination and not destination & set(target):
        report.warn(
            origin,
            f"records are written to {', '.join(sorted(destination))}, but remote topics are "
            f"created on {', '.join(target)} (target.cluster.bootstrap.servers). If these are two "
            f"clusters, set {_SERVERS}={','.join(target)}.",
        )


def _exact_writes(settings: FlowSettings, report: ConfigReport) -> None:
    if settings.produce.acks != -1:
        key = "producer.override.acks"
        report.error(
            LayeredValue("", Origin(key)),
            key,
            "acks must be all, here and in the worker's file, because "
            "exactly.once.source.support is enabled.",
        )


def naming_mismatch(checkpoint: FlowSettings, source: FlowSettings) -> str:
    """Return an error if a flow's checkpoint and source connector name topics differently; or "".

    Positions of groups would be translated for topics that do not exist.
    """
    mine, other = checkpoint.policy, source.policy
    differing = [
        key
        for key, a, b in (
            (
                "replication.policy.class",
                mine.replication_policy_class,
                other.replication_policy_class,
            ),
            ("replication.policy.separator", mine.separator, other.separator),
            (
                "offset-syncs.topic.location",
                checkpoint.source.offset_syncs_location,
                source.source.offset_syncs_location,
            ),
        )
        if a != b
    ]
    if not differing or checkpoint.flow != source.flow:
        return ""
    return (
        f"{checkpoint.checkpoint.name} and {source.source.name} are connectors of "
        f"{source.flow} and differ in {' and '.join(differing)}: positions of groups are "
        "translated for other topics than those that are written. Set the same values in both."
    )
