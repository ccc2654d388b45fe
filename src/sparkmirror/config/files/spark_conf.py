# SPDX-License-Identifier: Apache-2.0
"""The `spark.*` lines of a file, and which of them are hidden."""

from __future__ import annotations

import re

from sparkmirror.config.files.config_providers import ReferenceResolver
from sparkmirror.config.files.layering import LayeredConfig
from sparkmirror.config.files.notices import ConfigReport
from sparkmirror.model import HIDDEN

_PREFIX = "spark."
# Spark's keys are not in our table. These are the names that Spark redacts, and Azure storage keys.
SENSITIVE_PATTERN = re.compile(r"(?i)secret|password|token|access[.]?key|account[.]key")
_SPARKS_OWN = re.compile(r"(\$\{(?:system:[^}]*|[^}:]*)\})")  # references that Spark resolves


def is_sensitive(text: str) -> bool:
    """Whether a key or value looks like a secret."""
    return SENSITIVE_PATTERN.search(text) is not None


def displayed_spark_conf(values: LayeredConfig) -> dict[str, str]:
    """Return the lines as written, references not resolved; secrets are hidden."""
    return {
        key: HIDDEN if is_sensitive(key) or is_sensitive(value.text) else value.text
        for key, value in values.items()
        if key.startswith(_PREFIX)
    }


def read_spark_conf(
    values: LayeredConfig, resolver: ReferenceResolver, report: ConfigReport
) -> dict[str, str]:
    """Return the lines for Spark, with references to config providers resolved."""
    found = {}
    for key, value in values.items():
        if key.startswith(_PREFIX):
            try:
                found[key] = _resolved(value.text, resolver)
            except LookupError as error:
                report.error(value, key, f"{key}: {error.args[0]}.")
    return found


def _resolved(text: str, resolver: ReferenceResolver) -> str:
    parts = enumerate(_SPARKS_OWN.split(text))
    return "".join(one if i % 2 else resolver.resolve(one).text for i, one in parts)
