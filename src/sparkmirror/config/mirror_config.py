# SPDX-License-Identifier: Apache-2.0
"""An MM2 properties file: its clusters, flows, settings and notices."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import replace
from functools import cached_property
from pathlib import Path

from sparkmirror.config.files.config_providers import create_resolver
from sparkmirror.config.files.config_reader import ConfigReader
from sparkmirror.config.files.layering import all_flows, connector_config, with_prefix
from sparkmirror.config.files.notices import (
    ConfigReport,
    EffectiveValue,
    Notice,
    NoticeLevel,
    error_notices,
    notice_at_line,
    raise_errors,
    sorted_notices,
)
from sparkmirror.config.files.properties import (
    PropertiesFile,
    Property,
    parse_properties,
    read_properties,
    reject_swallowed_secrets,
)
from sparkmirror.config.files.spark_conf import displayed_spark_conf, read_spark_conf
from sparkmirror.config.flows.flow_settings import ParsedFlow, parse_flow, read_metrics
from sparkmirror.config.keys.connector_classes import ConnectorClass
from sparkmirror.config.keys.table import TOP_LEVEL
from sparkmirror.config.keys.value_types import InvalidValueError
from sparkmirror.config.keys.worker_keys import (
    LOG_KEYS,
    METRICS_KEYS,
    RUN_REST_KEYS,
    TOP_LEVEL_KEYS,
)
from sparkmirror.config.mirror_client_config import read_client_of_cluster
from sparkmirror.config.rest_settings import read_listeners, read_rest
from sparkmirror.config.rules.file_rules import (
    alias_notices,
    file_notices,
    shared_transactional_id_notices,
    unused_consumer_notices,
)
from sparkmirror.config.rules.loop_rules import loop_notices
from sparkmirror.config.settings import (
    FlowSettings,
    LogSettings,
    MetricsSettings,
    MirrorClientSettings,
)
from sparkmirror.config.worker_settings import RunRestSettings
from sparkmirror.errors import ConfigError
from sparkmirror.model import Flow

FILE_SECTION = "file"


class MirrorConfig:
    """A mirror's file. Invalid content does not fail the reading; `all_notices()` lists it."""

    def __init__(self, file: PropertiesFile) -> None:
        self._file = file
        reject_swallowed_secrets(file)
        self._raw = file.entries
        self.resolver, provider_errors = create_resolver(self._raw)
        self._provider_notices = error_notices(provider_errors)
        self._parsed_flows: dict[Flow, ParsedFlow] = {}
        self.clusters, self._cluster_notices = self._read_clusters()

    @classmethod
    def load(cls, path: Path) -> MirrorConfig:
        """Read the file. Raises ConfigError if it cannot be read or is not a properties file."""
        return cls(read_properties(path))

    @classmethod
    def parse(cls, text: str) -> MirrorConfig:
        return cls(parse_properties(text, "mm2.properties"))

    @property
    def name(self) -> str:
        return self._file.name

    @property
    def notices(self) -> list[Notice]:
        """Return the notices about the file as a whole, without those of its flows."""
        found = [
            *self._cluster_notices,
            *self._provider_notices,
            *file_notices(self._file, self.clusters),
        ]
        return list(dict.fromkeys(found))

    def all_notices(self, targets: Collection[str] = ()) -> list[Notice]:
        """Return the notices about the file and its flows: errors first, then by line."""
        found = list(self.notices)
        try:
            flows = self.flows(targets)
        except ConfigError as error:
            flows = []
            if not any(n.level is NoticeLevel.ERROR for n in self._cluster_notices):
                found.append(Notice(NoticeLevel.ERROR, error.key or "", "", str(error)))
        known = {one.key for one in found if one.level is NoticeLevel.ERROR}
        of_process = (*self._rest[1].notices, *self._process[1].notices)
        found.extend(one for one in of_process if one.key not in known)
        found.extend(self._spark[1])
        for flow in flows:
            found.extend(self.parsed_flow(flow).report.notices)
        settings = [self.parsed_flow(flow).settings for flow in flows]
        enabled = [one.flow for one in settings if one.enabled]
        found.extend(shared_transactional_id_notices([one for one in settings if one.enabled]))
        found.extend(self._loop_notices())
        found.extend(unused_consumer_notices(self._file, self.clusters, enabled))
        if flows and not enabled:
            message = (
                f"no flow is enabled, so only heartbeats are written; set for example "
                f"{flows[0]}.enabled=true."
            )
            found.append(notice_at_line(NoticeLevel.WARNING, f"{flows[0]}.enabled", 0, message))
        return sorted_notices(found)

    def validate(self, targets: Collection[str] = ()) -> None:
        """Raise one ConfigError with all errors, if there are any."""
        raise_errors(self.all_notices(targets), self.name)

    def flows(self, targets: Collection[str] = ()) -> list[Flow]:
        """Return the flows to run: enabled ones, and others that emit heartbeats."""
        raise_errors(self._cluster_notices, self.name)
        unknown = [target for target in targets if target not in self.clusters]
        if unknown:
            raise ConfigError(
                f"--clusters names {', '.join(unknown)}, but {self.name} has only "
                f"{', '.join(self.clusters)}.",
                key="clusters",
            )
        wanted = [
            flow for flow in all_flows(self.clusters) if not targets or flow.target in targets
        ]
        found = [flow for flow in wanted if self._is_enabled(flow) or self._has_heartbeats(flow)]
        if not found:
            to_targets = f" to {', '.join(targets)}" if targets else ""
            raise ConfigError(
                f"{self.name} has no replication flow{to_targets}: enable one, for example "
                f"{_example(self.clusters)}.enabled=true.",
                key="clusters",
            )
        return found

    def _loop_notices(self) -> Iterator[Notice]:
        """Yield notices about cycles, without topics that a config provider names."""
        flows = [flow for flow in all_flows(self.clusters) if self._is_enabled(flow)]
        reports = [self.parsed_flow(flow).report for flow in flows]
        for notice in loop_notices(self.enabled_settings()):
            message = notice.message
            for report in reports:
                message = report.redacted(message)
            yield replace(notice, message=message)

    def enabled_settings(self) -> list[FlowSettings]:
        """Return the settings of all valid enabled flows of the file, wherever they run."""
        flows = [flow for flow in all_flows(self.clusters) if self._is_enabled(flow)]
        parsed = [self.parsed_flow(flow) for flow in flows]
        return [one.settings for one in parsed if not one.report.has_errors]

    def flow_settings(self, flow: Flow) -> FlowSettings:
        """Return a flow's settings. Raises one ConfigError with all errors."""
        parsed = self.parsed_flow(flow)
        raise_errors([*self._provider_notices, *parsed.report.notices], self.name)
        return parsed.settings

    def client_settings(self, alias: str) -> MirrorClientSettings:
        """Return the settings of a MirrorClient of a cluster. Raises ConfigError."""
        raise_errors(self._cluster_notices, self.name)
        if alias not in self.clusters:
            raise ConfigError(
                f"{self.name} has no cluster {alias!r}, only {', '.join(self.clusters)}.",
                key="clusters",
            )
        settings, notices = read_client_of_cluster(self._raw, alias, self.clusters, self.resolver)
        raise_errors([*self._provider_notices, *notices], self.name)
        return settings

    @cached_property
    def effective(self) -> tuple[EffectiveValue, ...]:
        """The effective values of the keys that concern the whole file, in the table's order."""
        report = ConfigReport()
        reader = ConfigReader(FILE_SECTION, with_prefix(self._raw, ""), self.resolver, report)
        reader.read_all(TOP_LEVEL_KEYS)  # notices about them come from elsewhere
        https = (one for one in self._rest[1].effective if one.section != FILE_SECTION)
        return (*report.effective, *https)

    @property
    def metrics(self) -> MetricsSettings:
        """Where and how metrics are served. Raises ConfigError."""
        reader, report = self._process
        raise_errors(report.notices, self.name)
        return read_metrics(reader)

    @property
    def log(self) -> LogSettings:
        """What is logged, and where; defaults for invalid values, which `validate` reports."""
        return LogSettings(**self._process[0].filled(LogSettings))

    @cached_property
    def _process(self) -> tuple[ConfigReader, ConfigReport]:
        report = ConfigReport()
        reader = ConfigReader(FILE_SECTION, with_prefix(self._raw, ""), self.resolver, report)
        reader.read_all((*METRICS_KEYS, *LOG_KEYS))
        return reader, report

    @property
    def rest(self) -> RunRestSettings | None:
        """Where the REST API is served; None if disabled. Raises ConfigError."""
        found, report = self._rest
        raise_errors(report.notices, self.name)
        return found

    @cached_property
    def _rest(self) -> tuple[RunRestSettings | None, ConfigReport]:
        report = ConfigReport()
        values = with_prefix(self._raw, "")
        reader = ConfigReader(FILE_SECTION, values, self.resolver, report)
        reader.read_all(RUN_REST_KEYS)
        listeners = read_listeners(reader, "listeners")
        if not listeners:
            return None, report
        settings = read_rest(values, reader, self.resolver, report, listeners)
        return RunRestSettings(settings, allows_any_port="listeners" not in self._raw), report

    @property
    def spark(self) -> Mapping[str, str]:
        """The `spark.*` lines, resolved. Raises ConfigError for an invalid reference."""
        found, notices = self._spark
        raise_errors(notices, self.name)
        return found

    @property
    def displayed_spark_conf(self) -> Mapping[str, str]:
        """The `spark.*` lines as `check` prints them."""
        return displayed_spark_conf(with_prefix(self._raw, ""))

    @cached_property
    def _spark(self) -> tuple[Mapping[str, str], list[Notice]]:
        report = ConfigReport()
        values = with_prefix(self._raw, "")
        return read_spark_conf(values, self.resolver, report), report.notices

    def connector_config(self, flow: Flow, kind: ConnectorClass) -> dict[str, str]:
        """Return the configuration that MM2 stores for a connector, references not resolved."""
        layered = connector_config(self._raw, flow, kind.value)
        return {key: value.text for key, value in layered.items()}

    def parsed_flow(self, flow: Flow) -> ParsedFlow:
        """Return a flow's settings and report. Cached."""
        if flow not in self._parsed_flows:
            self._parsed_flows[flow] = parse_flow(self._raw, flow, self.resolver)
        return self._parsed_flows[flow]

    def _read_clusters(self) -> tuple[tuple[str, ...], list[Notice]]:
        entry = self._raw.get("clusters")
        if entry is None:
            message = "clusters is missing: name the clusters, for example clusters=source,target."
            return (), [notice_at_line(NoticeLevel.ERROR, "clusters", 0, message)]
        try:
            value = TOP_LEVEL["clusters"].parse(self.resolver.resolve(entry.text).text)
        except (InvalidValueError, LookupError) as error:
            message = f"clusters {_rejection_text(error, entry)}."
            return (), [notice_at_line(NoticeLevel.ERROR, "clusters", entry.line, message)]
        names = value if isinstance(value, tuple) else ()
        return names, alias_notices(names, entry)

    def _text(self, key: str) -> str | None:
        entry = self._raw.get(key)
        if entry is None:
            return None
        try:
            return self.resolver.resolve(entry.text).text
        except LookupError:
            return entry.text  # parse_flow reports the error

    def _is_enabled(self, flow: Flow) -> bool:
        return (self._text(f"{flow}.enabled") or "").lower() == "true"

    def _has_heartbeats(self, flow: Flow) -> bool:
        key = "emit.heartbeats.enabled"
        text = self._text(f"{flow}.{key}")
        if text is None:
            text = self._text(key)
        return text is None or text.strip().lower() == "true"


def _rejection_text(error: InvalidValueError | LookupError, entry: Property) -> str:
    """Return the end of a sentence, without values from config providers."""
    if isinstance(error, InvalidValueError) and "${" in entry.text:
        return error.rule
    return str(error.args[0])


def _example(clusters: Collection[str]) -> str:
    names = [*clusters, "A", "B"]
    return f"{names[0]}->{names[1]}" if len(clusters) > 1 else "A->B"
