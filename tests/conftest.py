# SPDX-License-Identifier: Apache-2.0
"""Options that every suite shares."""

from __future__ import annotations

import pytest

from sparkmirror.local.jars import DEFAULT_KAFKA


def pytest_addoption(parser: pytest.Parser) -> None:
    """Declare `--kafka`, the broker version that the integration tests run on."""
    parser.addoption(
        "--kafka",
        default=DEFAULT_KAFKA,
        metavar="VERSION",
        help=f"Kafka version of the brokers (default {DEFAULT_KAFKA})",
    )


@pytest.fixture(scope="session")
def kafka_version(request: pytest.FixtureRequest) -> str:
    """The broker version of this run."""
    return str(request.config.getoption("--kafka"))
