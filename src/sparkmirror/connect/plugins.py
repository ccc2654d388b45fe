# SPDX-License-Identifier: Apache-2.0
"""Connector classes, their keys, and validation: answers that need no connector.

Connect answers a wrong class name differently when a configuration is only validated: 500 there,
400 when a connector is created (`ConnectorConfigCache.check`).
"""

from __future__ import annotations

from collections.abc import Mapping
from http import HTTPStatus

from sparkmirror.config.connector_config import PLUGIN_VERSION
from sparkmirror.config.connector_validation import ConfigValidation, validate_connector
from sparkmirror.config.keys.connector_classes import (
    ConnectorClass,
    KeyDefinition,
    definitions,
    plugin_matches_class,
    resolve_class_name,
)
from sparkmirror.config.keys.worker_keys import BYTE_ARRAY_CONVERTER
from sparkmirror.config.worker_config import WorkerConfig
from sparkmirror.connect.api import ApiError, Plugin
from sparkmirror.connect.config_cache import without_providers
from sparkmirror.errors import ConfigError

Config = Mapping[str, str | None]


def plugins(*, connectors_only: bool) -> list[Plugin]:
    """The three connectors, and ByteArrayConverter."""
    found = [Plugin(one.java_name, "source", PLUGIN_VERSION) for one in ConnectorClass]
    found.sort(key=lambda one: one.class_name)
    if not connectors_only:
        found += [
            Plugin(BYTE_ARRAY_CONVERTER, kind, PLUGIN_VERSION)
            for kind in ("converter", "header_converter")
        ]
    return found


def plugin_config(plugin: str, version: str | None) -> tuple[KeyDefinition, ...]:
    """The keys of a plugin; converters have none here."""
    kind = resolve_class_name(plugin)
    if kind is None and plugin != BYTE_ARRAY_CONVERTER:
        raise ApiError(HTTPStatus.NOT_FOUND, f"Unknown plugin {plugin}.")
    if version not in (None, "latest", PLUGIN_VERSION):
        raise ApiError(
            HTTPStatus.BAD_REQUEST,
            f"Plugin {plugin if kind is None else kind.java_name} not found that matches the "
            f"version range [{version},{version}], available versions: [{PLUGIN_VERSION}]",
        )
    return () if kind is None else definitions(kind)


def validate(plugin: str, config: Config, worker: WorkerConfig) -> ConfigValidation:
    """ApiError 400 for another class, 500 without one."""
    class_name = config.get("connector.class")
    if class_name is not None and not plugin_matches_class(plugin, class_name):
        raise ApiError(
            HTTPStatus.BAD_REQUEST,
            f"Included connector type {class_name} does not match request type {plugin}",
        )
    try:
        return validate_connector(without_providers(config), worker)
    except ConfigError as error:
        raise ApiError(HTTPStatus.INTERNAL_SERVER_ERROR, str(error)) from error
