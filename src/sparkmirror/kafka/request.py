# SPDX-License-Identifier: Apache-2.0
"""Requests with the versions in which they mean what is wanted, and responses as bytes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class Request:
    """A protocol message of kafka-python and the range of its versions.

    It may be sent again, also in another version.
    """

    message: Any
    oldest: int
    newest: int

    @property
    def version(self) -> int | None:
        """The version in which it was last sent."""
        found: int | None = self.message.API_VERSION
        return found
