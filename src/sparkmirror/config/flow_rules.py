# SPDX-License-Identifier: Apache-2.0
"""Rules between keys of one flow: what each value allows by itself, but not together."""

from __future__ import annotations

from sparkmirror.config.notices import Level
from sparkmirror.config.reading import Reader, Report
from sparkmirror.config.settings import FlowSettings
from sparkmirror.policy.loading import policy_errors


def check_flow(settings: FlowSettings, connector: Reader, worker: Reader, report: Report) -> None:
    """Add to the report what MM2's connectors would say about the combination of keys."""
    _exactly_once(settings, connector, worker, report)
    _names(settings, connector, report)
    _aliases(settings, connector, report)
    if not settings.enabled:
        return
    _offset_syncs(connector, report)
    _transforms(connector, report)


def _exactly_once(
    settings: FlowSettings, connector: Reader, worker: Reader, report: Report
) -> None:
    support = worker.string("exactly.once.source.support").lower()
    if support != "disabled":
        origin = worker.origin("exactly.once.source.support")
        report.warn(origin, f"{origin.key}={support}: not yet, flows are at-least-once.")
    if connector.string("exactly.once.support").lower() == "required":
        origin = connector.origin("exactly.once.support")
        sentence = f"{origin.key}=required: this version is at-least-once; write requested."
        if settings.fetch.isolation_level != "read_committed":
            sentence += (
                f" It also needs isolation.level=read_committed, set by "
                f"{settings.flow.source}.consumer.isolation.level."
            )
        report.error(connector.value("exactly.once.support"), origin.key, sentence)


def _names(settings: FlowSettings, connector: Reader, report: Report) -> None:
    """Regexes that do not compile and classes that cannot be loaded."""
    for error in policy_errors(settings.policy, settings.flow):
        name = error.key or ""
        written = connector.origin(name).key or name
        said = str(error).removeprefix(name)
        if connector.is_hidden(name):
            said = " has a value, [hidden] because of where it came from, that cannot be used."
        report.error(connector.value(name), name, written + said)


def _aliases(settings: FlowSettings, connector: Reader, report: Report) -> None:
    """MM2 would name topics after these keys; here a flow has one name only."""
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
                f"{written} contradicts the flow {flow}: remove the line, or call the cluster so "
                "in clusters.",
            )


def _offset_syncs(connector: Reader, report: Report) -> None:
    if connector.boolean("emit.offset-syncs.enabled"):
        return
    about_syncs = [
        connector.origin(name)
        for name in ("offset-syncs.topic.replication.factor", "offset-syncs.topic.location")
        if connector.is_set(name)
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
            Level.INFO,
        )


def _transforms(connector: Reader, report: Report) -> None:
    if connector.strings("transforms"):
        key = connector.origin("transforms").key
        report.error(
            connector.value("transforms"),
            key,
            f"{key}: this version copies records untouched and cannot run transforms; "
            "remove the line.",
        )
