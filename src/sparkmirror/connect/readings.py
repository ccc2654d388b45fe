# SPDX-License-Identifier: Apache-2.0
"""Connectors' configurations as they are read here: once for each configuration, not for each look.

Two connectors of one flow must agree on some things that neither of them sees of the other.
"""

from __future__ import annotations

import logging
import traceback
from collections.abc import KeysView, Mapping
from dataclasses import dataclass

from sparkmirror.config.connector_classes import ConnectorClass
from sparkmirror.config.connector_config import ConnectorReading, read_connector
from sparkmirror.config.connector_rules import differing_names
from sparkmirror.config.notices import Level
from sparkmirror.config.worker_file import WorkerFile
from sparkmirror.errors import ConfigError
from sparkmirror.formats.connect_fields import Config

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Readable:
    """A configuration and what it means, or why it means nothing."""

    config: Config
    reading: ConnectorReading | None
    failure: str = ""  # a trace


class Readings:
    """Belongs to one thread, but for `forget`."""

    def __init__(self, file: WorkerFile) -> None:
        self._file = file
        self._known: dict[str, Readable] = {}
        self._forgotten: set[str] = set()
        self._warnings: dict[str, str] = {}
        self._has_source = False

    def update(self, configs: Mapping[str, Config]) -> None:
        """Read what is new; say what is remarkable about it."""
        changed = self._known.keys() - configs.keys()
        for name in changed:
            del self._known[name]
        for name, config in configs.items():
            known = self._known.get(name)
            if known is None or known.config != config or name in self._forgotten:
                self._forgotten.discard(name)
                self._known[name] = self._read(name, config)
                changed = {*changed, name}
        if changed:
            self._warn()

    def of(self, name: str) -> Readable:
        """A connector among `names`."""
        return self._known[name]

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

    def warning(self, name: str) -> str:
        """What a connector and another one differ in, though they must not."""
        return self._warnings.get(name, "")

    def _read(self, name: str, config: Config) -> Readable:
        try:
            reading = read_connector(config, self._file)
        except ConfigError as error:
            _log.error(f"Connector {name} cannot be run: {error}")
            return Readable(config, None, f"{error}\n{traceback.format_exc()}")
        for notice in reading.notices:
            if notice.level is Level.WARNING:
                _log.warning(f"Connector {name}: {notice.message}")
        return Readable(config, reading)

    def _warn(self) -> None:
        usable = {
            name: one.reading
            for name, one in self._known.items()
            if one.reading is not None and not one.reading.errors
        }
        self._has_source = any(
            one.kind is ConnectorClass.SOURCE and one.unchecked.enabled for one in usable.values()
        )
        sources = [one for one in usable.values() if one.kind is ConnectorClass.SOURCE]
        found: dict[str, str] = {}
        for name, one in usable.items():
            if one.kind is ConnectorClass.CHECKPOINT:
                sentences = (differing_names(one.unchecked, other.unchecked) for other in sources)
                found[name] = "; ".join(dict.fromkeys(filter(None, sentences)))
        for name, sentence in found.items():
            if sentence and self._warnings.get(name) != sentence:
                _log.warning(sentence)
        self._warnings = found
