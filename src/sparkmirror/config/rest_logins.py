# SPDX-License-Identifier: Apache-2.0
"""Who may use the REST API, from the files that Connect's BasicAuthSecurityRestExtension reads.

A JAAS login file has a section KafkaConnect, whose PropertyFileLoginModule names a properties file
with a line `user=password` for each user. Java people name the login file in KAFKA_OPTS; a key of
our own may name it instead. Java lets everybody in if the properties file is empty; here it is
wrong.
"""

from __future__ import annotations

from pathlib import Path

from sparkmirror.config.login_sections import read_sections
from sparkmirror.config.properties import read_properties
from sparkmirror.errors import ConfigError
from sparkmirror.model import Secret

EXTENSION = "org.apache.kafka.connect.rest.basic.auth.extension.BasicAuthSecurityRestExtension"
EXTENSION_NAMES = frozenset({EXTENSION, EXTENSION.rpartition(".")[2]})
LOGIN_KEY = "rest.basic.auth.login.config"
_MODULE = "org.apache.kafka.connect.rest.basic.auth.extension.PropertyFileLoginModule"
_SECTION = "KafkaConnect"


def read_users(login_file: str) -> dict[str, Secret]:
    """Names and passwords; ConfigError says which file is wrong, and how."""
    file = _credentials_file(login_file)
    found = read_properties(Path(file)).entries
    users = {name: Secret(entry.text) for name, entry in found.items() if name}
    if not users:
        raise ConfigError(
            f"{file} names no user, so nobody could use the REST API: write a line user=password "
            f"for each, or take the extension out of rest.extension.classes."
        )
    return users


def _credentials_file(login_file: str) -> str:
    sections = read_sections(login_file, "the REST API")
    entries = sections.get(_SECTION)
    if entries is None:
        raise ConfigError(f"{login_file} has no section {_SECTION}, which the REST API needs.")
    if len(entries) != 1 or entries[0].module != _MODULE:
        raise ConfigError(
            f"The section {_SECTION} of {login_file} must hold one login module, {_MODULE}: Java "
            "classes of others cannot be run here."
        )
    file = entries[0].options.get("file", "").strip()
    if not file:
        raise ConfigError(
            f'The section {_SECTION} of {login_file} names no file: write file="/path/to/users".'
        )
    return file
