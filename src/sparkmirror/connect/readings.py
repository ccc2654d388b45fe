# SPDX-License-Identifier: Apache-2.0
"""Connectors' configurations as they are read here: once for each configuration, not for each look.

They are read again when a file changed that they lead to: a store, or what a config provider looks
up. While such a file is wrong or gone, a connector goes on as it was.

Two connectors of one flow must agree on some things that neither of them sees of the other.
"""

from __future__ import annotations

import logging
import time
import traceback
from collections.abc import KeysView, Mapping
from dataclasses import dataclass, field, replace

from sparkmirror.config.connector_classes import ConnectorClass
from sparkmirror.config.connector_config import ConnectorReading, read_connector
from sparkmirror.config.connector_rules import differing_names
from sparkmirror.config.file_watch import FilesWatch, listed
from sparkmirror.config.files_read import noting_files
from sparkmirror.config.notices import Level
from sparkmirror.config.worker_file import WorkerFile
from sparkmirror.errors import ConfigError
from sparkmirror.formats.connect_fields import Config
from sparkmirror.sentences import joined

_LOOK_SECONDS = 1.0  # between two looks at files
_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Readable:
    """A configuration and what it means, or why it means nothing."""

    config: Config
    reading: ConnectorReading | None
    failure: str = ""  # a trace

    @property
    def is_good(self) -> bool:
        """Whether it can be run."""
        return self.reading is not None and not self.reading.errors

    @property
    def reasons(self) -> list[str]:
        """Why it cannot be run, a sentence each."""
        if self.reading is None:
            return [self.failure.partition("\n")[0]]
        return [one.message for one in self.reading.errors]


@dataclass(slots=True)
class _Known:
    """What is in use, and the files behind it."""

    readable: Readable
    watch: FilesWatch = field(default_factory=lambda: FilesWatch({}))
    complaint: str = ""  # why something newer is not in use


class Readings:
    """Belongs to one thread, but for `forget` and `suspect_all`."""

    def __init__(self, file: WorkerFile, look_seconds: float = _LOOK_SECONDS) -> None:
        self._file = file
        self._known: dict[str, _Known] = {}
        self._forgotten: set[str] = set()
        self._all_suspect = False
        self._look_seconds = look_seconds
        self._looked_at = 0.0
        self._warnings: dict[str, str] = {}
        self._has_source = False

    def update(self, configs: Mapping[str, Config]) -> None:
        """Read what is new; say what is remarkable about it."""
        changed = self._known.keys() - configs.keys()
        for name in changed:
            del self._known[name]
        for name, config in configs.items():
            known = self._known.get(name)
            if known is None or known.readable.config != config or name in self._forgotten:
                self._forgotten.discard(name)
                self._known[name] = self._begin(name, config)
                changed = {*changed, name}
        changed |= self._look_at_files()
        if changed:
            self._warn()

    def of(self, name: str) -> Readable:
        """A connector among `names`."""
        return self._known[name].readable

    @property
    def names(self) -> KeysView[str]:
        """The connectors that `update` was told of."""
        return self._known.keys()

    @property
    def has_source(self) -> bool:
        """Whether one of them copies, here or elsewhere."""
        return self._has_source

    def forget(self, name: str) -> None:
        """Have `update` read a connector again: what its references name may have changed."""
        self._forgotten.add(name)

    def suspect_all(self) -> None:
        """Have `update` read all of them again: what the worker's file leads to has changed."""
        self._all_suspect = True

    def warning(self, name: str) -> str:
        """What is wrong though a connector runs.

        It and another one differ in what they must not, or its files changed and cannot be used.
        """
        known = self._known.get(name)
        sentences = (self._warnings.get(name, ""), known.complaint if known else "")
        return joined(sentences)

    def _begin(self, name: str, config: Config) -> _Known:
        with noting_files() as files:
            readable = self._read(name, config)
        return _Known(readable, FilesWatch(files))

    def _look_at_files(self) -> set[str]:
        """The connectors that were read again because of them, and differ."""
        all_suspect, self._all_suspect = self._all_suspect, False
        now = time.monotonic()
        if not all_suspect and now - self._looked_at < self._look_seconds:
            return set()
        self._looked_at = now
        found = set()
        for name, known in self._known.items():
            files = known.watch.look()
            if (files or all_suspect) and self._renew(name, known, listed(files)):
                found.add(name)
        return found

    def _renew(self, name: str, known: _Known, files: str) -> bool:
        """Read a connector again; whether there is something else in use now."""
        old = known.readable
        with noting_files() as read:
            newer = self._read(name, old.config, old)
        known.watch.follow(read, is_complete=newer.is_good)
        if old.is_good and not newer.is_good:
            reasons = " ".join(newer.reasons)
            known.complaint = f"a file that it leads to has changed and is not used: {reasons}"
            _log.error(f"Connector {name} goes on as it was: {known.complaint}")
            return False
        known.complaint = ""
        if _means_the_same(old, newer):
            return False
        known.readable = newer
        because = f"{files} changed" if files else "the worker has other credentials"
        _log.info(f"Connector {name} begins anew: {because}")
        return True

    def _read(self, name: str, config: Config, before: Readable | None = None) -> Readable:
        try:
            reading = read_connector(config, self._file)
        except ConfigError as error:
            if before is None or not before.is_good:
                _log.error(f"Connector {name} cannot be run: {error}")
            return Readable(config, None, f"{error}\n{traceback.format_exc()}")
        said = before.reading.notices if before is not None and before.reading is not None else ()
        for notice in reading.notices:
            if notice.level is Level.WARNING and notice not in said:
                _log.warning(f"Connector {name}: {notice.message}")
        return Readable(config, reading)

    def _warn(self) -> None:
        usable = {
            name: one.readable.reading
            for name, one in self._known.items()
            if one.readable.reading is not None and one.readable.is_good
        }
        self._has_source = any(
            one.kind is ConnectorClass.SOURCE and one.unchecked.enabled for one in usable.values()
        )
        sources = [one for one in usable.values() if one.kind is ConnectorClass.SOURCE]
        found: dict[str, str] = {}
        for name, one in usable.items():
            if one.kind is ConnectorClass.CHECKPOINT:
                sentences = (differing_names(one.unchecked, other.unchecked) for other in sources)
                found[name] = joined(dict.fromkeys(sentences))
        for name, sentence in found.items():
            if sentence and self._warnings.get(name) != sentence:
                _log.warning(sentence)
        self._warnings = found


def _means_the_same(one: Readable, other: Readable) -> bool:
    """Whether whoever runs one need not begin anew with the other."""
    if one.reading is None or other.reading is None:
        return one.failure == other.failure
    return _essence(one.reading) == _essence(other.reading)


def _essence(reading: ConnectorReading) -> object:
    """Without the worker's connection where nothing is kept there: only positions are."""
    settings = reading.unchecked
    if reading.kind is not ConnectorClass.SOURCE:
        settings = replace(settings, worker=None)
    return settings, reading.errors
