# SPDX-License-Identifier: Apache-2.0
"""The sections of the JAAS login file that Java people name in KAFKA_OPTS.

KafkaClient says who clients are that have no `sasl.jaas.config`; KafkaConnect, who may use the
REST API.
"""

from __future__ import annotations

from pathlib import Path

from sparkmirror.config.bounded_files import read_bounded
from sparkmirror.errors import ConfigError
from sparkmirror.security.jaas import JaasLine
from sparkmirror.security.login_files import parse_login_file

CLIENT_SECTION = "KafkaClient"
_MOST_BYTES = 1 << 20


def read_sections(login_file: str, whose: str) -> dict[str, list[JaasLine]]:
    """The entries of each section; ConfigError says what is wrong, and nothing that it found."""
    try:
        content = read_bounded(Path(login_file), _MOST_BYTES)
        if content is None:
            raise ConfigError(f"{login_file} is no JAAS file: it has more than a MiB.")
        return parse_login_file(content.decode())
    except OSError as error:
        raise ConfigError(
            f"{login_file}, the JAAS file of {whose}, cannot be read: {error.strerror or error}."
        ) from error
    except ValueError as error:
        reason = "it is not UTF-8" if isinstance(error, UnicodeDecodeError) else error
        raise ConfigError(f"{login_file} is no JAAS file: {reason}.") from error
