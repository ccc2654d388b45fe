# SPDX-License-Identifier: Apache-2.0
"""The three connector classes that a worker runs, and the names that they answer to."""

from __future__ import annotations

from enum import Enum

from sparkmirror.config.layering import CONNECTOR_CLASSES

_SUFFIX = "Connector"


class ConnectorClass(Enum):
    """One of MM2's connectors, by its simple class name."""

    SOURCE = "MirrorSourceConnector"
    CHECKPOINT = "MirrorCheckpointConnector"
    HEARTBEAT = "MirrorHeartbeatConnector"

    @property
    def java_name(self) -> str:
        """The full name of the Java class."""
        return CONNECTOR_CLASSES[self.value]


_ALIASES = {
    name: one
    for one in ConnectorClass
    for name in (one.java_name, one.value, one.value.removesuffix(_SUFFIX))
}


def find_class(name: str) -> ConnectorClass | None:
    """The class of a full name, a simple one, or a simple one without "Connector"."""
    return _ALIASES.get(name.strip())


def unknown_class(name: str, version: str) -> str:
    """What Connect says about a class that it does not have; `version` is the plugins'."""
    available = ", ".join(
        f"PluginDesc{{klass=class {one.java_name}, name='{one.java_name}', version='{version}', "
        f"encodedVersion={version}, type=source, typeName='source', location='classpath'}}"
        for one in sorted(ConnectorClass, key=lambda one: one.java_name)
    )
    return (
        "Failed to find any class that implements Connector and which name matches "
        f"{name}, available connectors are: {available}"
    )


def is_request_for(path_name: str, class_name: str) -> bool:
    """Whether a validation sent to the plugin `path_name` may be about `class_name`.

    Connect's rule: the class ends with the path's name, both without a trailing "Connector".
    """
    return class_name.removesuffix(_SUFFIX).endswith(path_name.removesuffix(_SUFFIX))
