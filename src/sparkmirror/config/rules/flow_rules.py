# SPDX-License-Identifier: Apache-2.0
"""Rules between the keys of one flow, and against the limits of its service profiles."""

from __future__ import annotations

from sparkmirror.config.files.config_reader import ConfigReader
from sparkmirror.config.files.layering import LayeredValue
from sparkmirror.config.files.notices import ConfigReport, NoticeLevel
from sparkmirror.config.keys.service_profiles import (
    NO_PROFILE,
    SOURCE_KEY,
    TARGET_KEY,
    service_limits,
)
from sparkmirror.config.settings import ExactlyOnce, FlowSettings
from sparkmirror.config.worker_settings import GroupSettings
from sparkmirror.policy.loading import policy_errors

_READ_COMMITTED = "isolation.level=read_committed"


def check_flow(
    settings: FlowSettings, connector: ConfigReader, worker: ConfigReader, report: ConfigReport
) -> None:
    """Report contradictions between the keys of a flow, as MM2's connectors do."""
    _exactly_once(settings, connector, worker, report)
    check_policy_classes(settings, connector, report)
    _aliases(settings, connector, report)
    if not settings.enabled:
        return
    _offset_syncs(connector, report)
    check_transforms(connector, report)
    check_acl_keys(settings, connector, report)


def _exactly_once(
    settings: FlowSettings, connector: ConfigReader, worker: ConfigReader, report: ConfigReport
) -> None:
    flow, transactions = settings.flow, settings.transactions
    is_enabled = transactions.is_enabled
    reads_committed = settings.fetch.reads_committed
    support = worker.origin("exactly.once.source.support")
    if connector.string("exactly.once.support").lower() == "required":
        missing = [] if is_enabled else [f"{flow.target}.exactly.once.source.support=enabled"]
        missing += [] if reads_committed else [f"{flow.source}.consumer.{_READ_COMMITTED}"]
        if missing:
            origin = connector.origin("exactly.once.support")
            report.error(
                connector.value("exactly.once.support"),
                origin.key,
                f"{origin.key}=required needs {' and '.join(missing)}.",
            )
    note_preparing(transactions.support, worker, report)
    if not is_enabled or not settings.enabled:
        return
    if not reads_committed:
        report.warn(
            support,
            f"{support.key}=enabled, but {flow} reads read_uncommitted: records of aborted "
            f"transactions on {flow.source} are copied. Set "
            f"{flow.source}.consumer.{_READ_COMMITTED}.",
        )
    if connector.string("transaction.boundary").lower() == "connector":
        key = connector.origin("transaction.boundary").key
        report.error(
            connector.value("transaction.boundary"),
            key,
            f"{key}=connector: the mirror's source connector defines no transaction boundaries; "
            "set poll or interval.",
        )
    if settings.produce.acks != -1:
        report.error(
            LayeredValue("", support),
            support.key,
            f"{support.key}=enabled needs {flow.target}.producer.acks=all.",
        )
    check_commit_interval(settings, connector, report)


def note_preparing(support: ExactlyOnce, worker: ConfigReader, report: ConfigReport) -> None:
    """Report that exactly.once.source.support=preparing has no effect."""
    if support is ExactlyOnce.PREPARING:
        origin = worker.origin("exactly.once.source.support")
        report.warn(
            origin,
            f"{origin.key}=preparing has no effect: records are written without transactions "
            "until it is enabled.",
            NoticeLevel.INFO,
        )


def check_group_timeouts(group: GroupSettings, worker: ConfigReader, report: ConfigReport) -> None:
    """Check that a member sends heartbeats within its session timeout."""
    if group.heartbeat_interval_ms >= group.session_timeout_ms:
        key = worker.origin("heartbeat.interval.ms").key or "heartbeat.interval.ms"
        report.error(
            worker.value("heartbeat.interval.ms"),
            key,
            f"{key} ({group.heartbeat_interval_ms}) must be less than session.timeout.ms "
            f"({group.session_timeout_ms}), or every session expires; a third of it is usual.",
        )


def check_commit_interval(
    settings: FlowSettings, connector: ConfigReader, report: ConfigReport
) -> None:
    """Check that an exactly-once flow commits well before the transaction timeout."""
    transactions = settings.transactions
    boundary = connector.string("transaction.boundary").lower()
    interval = "transaction.boundary.interval.ms"
    if connector.is_in_file(interval) and boundary != "interval":
        origin = connector.origin(interval)
        report.warn(origin, f"{origin.key} does nothing without transaction.boundary=interval.")
    if transactions.commit_seconds * 2000 > transactions.timeout_ms:
        report.error(
            connector.value(interval),
            interval,
            f"{interval}: transactions commit every {transactions.commit_seconds:g} s, which must "
            f"be at most half of transaction.timeout.ms ({transactions.timeout_ms}), or the target "
            "aborts a transaction before it is committed.",
        )


def check_policy_classes(
    settings: FlowSettings, connector: ConfigReader, report: ConfigReport
) -> None:
    """Report invalid regexes and classes that cannot be loaded."""
    for error in policy_errors(settings.policy, settings.flow):
        name = error.key or ""
        written = connector.origin(name).key or name
        reason = str(error).removeprefix(name)
        if connector.is_hidden(name):
            reason = " has an invalid value, [hidden] because a config provider supplies it."
        report.error(connector.value(name), name, written + reason)


def _aliases(settings: FlowSettings, connector: ConfigReader, report: ConfigReport) -> None:
    """Check that the alias keys match the flow; MM2 would name topics after them."""
    flow = settings.flow
    for key, alias in (
        ("source.cluster.alias", flow.source),
        ("target.cluster.alias", flow.target),
    ):
        if connector.string(key) != alias:
            written = connector.origin(key).key
            report.error(
                connector.value(key),
                key,
                f"{written} contradicts the flow {flow}: remove the line, or rename the cluster "
                "in clusters.",
            )


def _offset_syncs(connector: ConfigReader, report: ConfigReport) -> None:
    if connector.boolean("emit.offset-syncs.enabled"):
        return
    about_syncs = [
        connector.origin(name)
        for name in ("offset-syncs.topic.replication.factor", "offset-syncs.topic.location")
        if connector.is_in_file(name)
    ]
    switch = connector.origin("emit.offset-syncs.enabled")
    if about_syncs:
        report.error(
            connector.value("emit.offset-syncs.enabled"),
            switch.key,
            f"{switch.key}=false contradicts {' and '.join(map(str, about_syncs))}: remove one or "
            "the other (MM2 refuses the source connector).",
        )
    elif connector.boolean("emit.checkpoints.enabled"):
        report.warn(
            switch,
            f"{switch.key}=false: without offset syncs there are no checkpoints (MM2 refuses the "
            "checkpoint connector).",
            NoticeLevel.INFO,
        )


def check_acl_keys(settings: FlowSettings, connector: ConfigReader, report: ConfigReport) -> None:
    """Warn about ACL keys if ACLs are not synced."""
    if settings.source.sync_acls_seconds is not None:
        return
    for name in ("sync.acls.scope", "sync.acls.removals.enabled"):
        if connector.is_in_file(name):
            origin = connector.origin(name)
            report.warn(
                origin,
                f"{origin.key} does nothing while ACLs are not synced: set "
                "sync.topic.acls.enabled=true, or remove the line.",
            )


def check_transforms(connector: ConfigReader, report: ConfigReport) -> None:
    """Report an error if transforms are set."""
    if connector.strings("transforms"):
        key = connector.origin("transforms").key
        report.error(
            connector.value("transforms"),
            key,
            f"{key}: this version copies records unchanged and cannot run transforms; "
            "remove the line.",
        )


def check_profiles(names: tuple[str, str], connector: ConfigReader, report: ConfigReport) -> None:
    """Warn about values that a service refuses; `names` are the profiles of target and source."""
    for key, name in zip((TARGET_KEY, SOURCE_KEY), names, strict=True):
        if connector.string(key) != (name or NO_PROFILE) and "${" in name:
            written = connector.origin(key).key
            report.error(
                connector.value(key),
                key,
                f"{written} must be a literal name, without references: it determines the other "
                "values before references are resolved.",
            )
    written_values = {(e.section, e.key): e for e in report.effective if e.origin.line}
    for profile, limit in service_limits(*names):
        value = written_values.get((limit.section, limit.key))
        if value is not None and not limit.allows(str(value.text)):
            report.warn(
                value.origin,
                f"{value.origin.key}={value.text} {limit.reason} (profile {profile.name}). It is "
                "used nevertheless; remove the line to use the profile's value.",
            )
