# SPDX-License-Identifier: Apache-2.0
"""What holds connections is closed at the end of a `with` block."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Self


class Closable(ABC):
    """A context manager by its `close`."""

    @abstractmethod
    def close(self) -> None:
        """Close the connections; a later question may open them again."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
