# SPDX-License-Identifier: Apache-2.0
"""Errors as one sentence, for commands that ask clusters something."""

from __future__ import annotations

import logging

from rich.console import Console


def quiet_kafka() -> None:
    """kafka-python logs each failed connect by itself; we say it in one sentence."""
    logging.getLogger("kafka").setLevel(logging.CRITICAL)


def complain(sentence: str) -> None:
    """What is wrong, where it does not disturb whoever reads the answer."""
    Console(stderr=True).print(f"error: {sentence}", markup=False, soft_wrap=True)
