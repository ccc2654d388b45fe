# SPDX-License-Identifier: Apache-2.0
"""Connector configurations, each parsed once.

`check` parses the configuration of a request; its result is reused when the written record is read
(`offered`). When a file that a configuration refers to changes (a store, or a file of a config
provider), the configuration is parsed again. While such a file is invalid or missing, the connector
keeps its last valid settings.

Two connectors of one flow must agree on some settings; `warning` reports differences.
"""

from __future__ import annotations

import logging
import time
import traceback
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from http import HTTPStatus

from sparkmirror.config.connector_config import ParsedConnector, read_connector
from sparkmirror.config.connector_validation import validate_connector
from sparkmirror.config.files.notices import NoticeLevel
from sparkmirror.config.files.tracked_files import FileWatcher, format_paths, record_file_reads
from sparkmirror.config.keys.connector_classes import ConnectorClass
from sparkmirror.config.rules.connector_rules import naming_mismatch
from sparkmirror.config.settings import FlowSettings
from sparkmirror.config.worker_config import WorkerConfig
from sparkmirror.connect import api_errors
from sparkmirror.connect.api import ApiError
from sparkmirror.connectors.desired_state import ConnectorSpec
from sparkmirror.errors import ConfigError, join_sentences
from sparkmirror.formats.connect_fields import Config

_FILE_CHECK_SECONDS = 1.0  # between two checks of files
_MOST_CHARACTERS = 1 << 20  # of a configuration
_WORKER_KEYS = "config.providers"  # a connector cannot have its own
_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class ParsedConfig:
    """A parsed configuration. Without a spec it cannot run; `failure` says why."""

    config: Config
    parsed: ParsedConnector | None
    spec: ConnectorSpec | None
    failure: str = ""  # a sentence and a trace

    @property
    def is_valid(self) -> bool:
        """Whether the connector can run."""
        return self.spec is not None

    @property
    def errors(self) -> list[str]:
        """Why it cannot run, one sentence per error."""
        if self.parsed is None:
            return [self.failure.partition("\n")[0]]
        return [one.message for one in self.parsed.errors]


@dataclass(slots=True)
class _CacheEntry:
    """The configuration in use, and the files that it refers to."""

    readable: ParsedConfig
    watch: FileWatcher = field(default_factory=lambda: FileWatcher({}))
    error: str = ""  # why a newer version is not in use


@dataclass(frozen=True, slots=True)
class CheckedConfig:
    """The valid configuration of a request, parsed."""

    parsed: ParsedConfig
    watch: FileWatcher
    epoch: int  # of the worker's own settings


class ConnectorConfigCache:
    """One thread calls `update` and `get`; any thread may call the rest."""

    def __init__(self, file: WorkerConfig, look_seconds: float = _FILE_CHECK_SECONDS) -> None:
        self._file = file
        self._known: dict[str, _CacheEntry] = {}
        self._offers: dict[str, CheckedConfig] = {}
        self._forgotten: set[str] = set()
        self._epoch = 0  # counts `invalidate_all`
        self._seen_epoch = 0
        self._look_seconds = look_seconds
        self._looked_at = 0.0
        self._warnings: dict[str, str] = {}
        self._has_source = False

    # --- for requests

    def check(self, name: str, config: Config) -> CheckedConfig:
        """Parse and validate a configuration; ApiError 400 with all errors if it is invalid.

        ApiError 500 if it is too large for the topic: patterns of that size cost seconds.
        """
        if sum(len(key) + len(text or "") for key, text in config.items()) > _MOST_CHARACTERS:
            raise api_errors.config_write_failed()
        epoch, own = self._epoch, without_providers(config)
        try:
            with record_file_reads() as files:
                connector = read_connector(own, self._file)
            found = validate_connector(own, self._file, connector)
            if found.error_count:
                raise ApiError(HTTPStatus.BAD_REQUEST, found.error_message)
            parsed = ParsedConfig(own, connector, _spec(name, connector))
        except ConfigError as error:
            raise ApiError(HTTPStatus.BAD_REQUEST, str(error)) from error
        return CheckedConfig(parsed, FileWatcher(files), epoch)

    @contextmanager
    def offered(self, name: str, checked: CheckedConfig) -> Iterator[None]:
        """Let `update` reuse a checked configuration; the caller writes it within the context."""
        self._offers[name] = checked
        try:
            yield
        except BaseException:
            self._offers.pop(name, None)
            raise

    # --- the configurations of the config topic

    def update(self, configs: Mapping[str, Config]) -> None:
        """Parse new configurations; log their warnings and errors."""
        changed = self._known.keys() - configs.keys()
        for name in changed:
            del self._known[name]
        for name, config in configs.items():
            known = self._known.get(name)
            checked = self._take_offer(name, config)
            if known is None or known.readable.config != config or name in self._forgotten:
                self._forgotten.discard(name)
                self._known[name] = self._new_entry(name, config, checked)
                changed = {*changed, name}
        changed |= self._check_files()
        if changed:
            self._compare_connectors()

    def get(self, name: str) -> ParsedConfig:
        """Return a connector of the last `update`."""
        return self._known[name].readable

    def find(self, name: str) -> ParsedConfig | None:
        """Return a connector of the last `update`, if it exists. Any thread."""
        known = self._known.get(name)
        return known.readable if known is not None else None

    def flows(self) -> list[FlowSettings]:
        """Return the settings of all source connectors, on any worker. Any thread."""
        specs = [one.readable.spec for one in [*self._known.values()]]
        return [one.settings for one in specs if one is not None and one.copies]

    @property
    def has_source(self) -> bool:
        """Whether any worker has a source connector."""
        return self._has_source

    def invalidate(self, name: str) -> None:
        """Let `update` parse a connector again: values of its references may have changed."""
        self._forgotten.add(name)

    def invalidate_all(self) -> None:
        """Let `update` parse all connectors again: the worker's settings have changed."""
        self._epoch += 1

    def warning(self, name: str) -> str:
        """Return a problem of a running connector; empty without one.

        It conflicts with another connector of its flow, or its changed files are invalid.
        """
        known = self._known.get(name)
        sentences = (self._warnings.get(name, ""), known.error if known else "")
        return join_sentences(sentences)

    def _take_offer(self, name: str, config: Config) -> CheckedConfig | None:
        """Return the checked configuration of a request if it equals this one."""
        offer = self._offers.get(name)
        if offer is None or offer.parsed.config != config:
            return None
        self._offers.pop(name, None)
        return offer if offer.epoch == self._epoch else None

    def _new_entry(self, name: str, config: Config, checked: CheckedConfig | None) -> _CacheEntry:
        if checked is not None:
            self._log_result(name, checked.parsed)
            return _CacheEntry(checked.parsed, checked.watch)
        with record_file_reads() as files:
            parsed = self._parse(name, config)
        self._log_result(name, parsed)
        return _CacheEntry(parsed, FileWatcher(files))

    def _check_files(self) -> set[str]:
        """Parse connectors whose files changed. Returns those whose settings differ now."""
        all_suspect = self._epoch != self._seen_epoch
        self._seen_epoch = self._epoch
        now = time.monotonic()
        if not all_suspect and now - self._looked_at < self._look_seconds:
            return set()
        self._looked_at = now
        found = set()
        for name, known in self._known.items():
            files = known.watch.poll()
            if (files or all_suspect) and self._reparse(name, known, format_paths(files)):
                found.add(name)
        return found

    def _reparse(self, name: str, known: _CacheEntry, files: str) -> bool:
        """Parse a connector again. Returns whether its settings in use changed."""
        old = known.readable
        with record_file_reads() as read:
            newer = self._parse(name, old.config)
        self._log_result(name, newer, old)
        known.watch.watch(read, is_complete=newer.is_valid)
        if old.is_valid and not newer.is_valid:
            reasons = " ".join(newer.errors)
            known.error = f"a file that it refers to has changed and cannot be used: {reasons}"
            _log.error(
                f"Connector {name} keeps its settings: {known.error}", extra={"connector": name}
            )
            return False
        known.error = ""
        if _is_equivalent(old, newer):
            return False
        known.readable = newer
        because = f"{files} changed" if files else "the worker's own credentials changed"
        _log.info(f"Connector {name} restarts: {because}", extra={"connector": name})
        return True

    def _parse(self, name: str, config: Config) -> ParsedConfig:
        connector: ParsedConnector | None = None
        try:
            connector = read_connector(config, self._file)
            return ParsedConfig(config, connector, _spec(name, connector))
        except ConfigError as error:
            return ParsedConfig(config, connector, None, f"{error}\n{traceback.format_exc()}")

    def _log_result(self, name: str, now: ParsedConfig, before: ParsedConfig | None = None) -> None:
        """Log errors and warnings that the previous configuration did not have."""
        if not now.is_valid and (before is None or not before.is_valid):
            reasons = " ".join(now.errors)
            _log.error(f"Connector {name} cannot run: {reasons}", extra={"connector": name})
        if now.parsed is None:
            return
        said = before.parsed.notices if before is not None and before.parsed is not None else ()
        for notice in now.parsed.notices:
            if notice.level is NoticeLevel.WARNING and notice not in said:
                _log.warning(f"Connector {name}: {notice.message}", extra={"connector": name})

    def _compare_connectors(self) -> None:
        usable = {
            name: one.readable.spec
            for name, one in self._known.items()
            if one.readable.spec is not None
        }
        self._has_source = any(one.wanted_splits for one in usable.values())
        sources = [one for one in usable.values() if one.kind is ConnectorClass.SOURCE]
        found: dict[str, str] = {}
        for name, one in usable.items():
            if one.kind is ConnectorClass.CHECKPOINT:
                sentences = (naming_mismatch(one.settings, other.settings) for other in sources)
                found[name] = join_sentences(dict.fromkeys(sentences))
        for name, sentence in found.items():
            if sentence and self._warnings.get(name) != sentence:
                _log.warning(sentence)
        self._warnings = found


def without_providers(config: Config) -> Config:
    """Return the configuration without config providers: only the worker declares them."""
    return {key: text for key, text in config.items() if not key.startswith(_WORKER_KEYS)}


def _spec(name: str, connector: ParsedConnector) -> ConnectorSpec:
    """Return the spec; ConfigError with all errors if the connector cannot run."""
    settings = connector.settings
    return ConnectorSpec(connector.kind, f"{settings.flow}|{name}", connector, settings)


def _is_equivalent(one: ParsedConfig, other: ParsedConfig) -> bool:
    """Whether a running connector needs no restart to change from one to the other."""
    if one.parsed is None or other.parsed is None:
        return one.failure == other.failure
    return _comparable_settings(one.parsed) == _comparable_settings(other.parsed)


def _comparable_settings(reading: ParsedConnector) -> object:
    """Return the settings without the worker's connection, unless positions are kept there."""
    settings = reading.unchecked_settings
    if reading.kind is not ConnectorClass.SOURCE:
        settings = replace(settings, worker_cluster=None)
    return settings, reading.errors
