# SPDX-License-Identifier: Apache-2.0
"""Options that every suite shares."""

from __future__ import annotations

import pytest

from sparkmirror.local.jars import DEFAULT_KAFKA


def pytest_addoption(parser: pytest.Parser) -> None:
    """Declare `--kafka`, the broker version, and `--thorough`, the long versions of some tests."""
    parser.addoption(
        "--kafka",
        default=DEFAULT_KAFKA,
        metavar="VERSION",
        help=f"Kafka version of the brokers (default {DEFAULT_KAFKA})",
    )
    parser.addoption(
        "--thorough",
        action="store_true",
        help="the long versions: a target stopped for a minute, ten kills in a row",
    )


@pytest.fixture(scope="session")
def kafka_version(request: pytest.FixtureRequest) -> str:
    """The broker version of this run."""
    return str(request.config.getoption("--kafka"))


@pytest.fixture(scope="session")
def is_thorough(request: pytest.FixtureRequest) -> bool:
    """Whether the long versions are wanted."""
    return bool(request.config.getoption("--thorough"))
