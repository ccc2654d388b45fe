# SPDX-License-Identifier: Apache-2.0
"""What a standalone master says about missing executors; the requests are tested on a cluster."""

from __future__ import annotations

import socket
from contextlib import closing

import pytest

from sparkmirror.spark.standalone_master import (
    MasterState,
    connection_problem,
    executor_problem,
    master_addresses,
)

MASTER = "spark://h1:7077"


def test_several_masters_have_an_address_each() -> None:
    assert master_addresses("spark://h1:7077,h2:7078") == [("h1", 7077), ("h2", 7078)]
    assert master_addresses("spark://[::1]:7077") == [("[::1]", 7077)]


@pytest.mark.parametrize(
    ("workers", "reason", "is_hopeless"),
    [
        ((), "has no workers. Start one.", False),
        (
            ((2, 400), (1, 4096)),
            "workers have 2 cores and 400 MiB, 1 core and 4096 MiB",
            True,
        ),
        (((2, 400), (2, 512)), "", False),
    ],
)
def test_workers_are_named_if_none_can_run_an_executor(
    workers: tuple[tuple[int, int], ...], reason: str, *, is_hopeless: bool
) -> None:
    """An executor needs 2 cores and 512 MiB."""
    found = executor_problem(MASTER, MasterState(knows_application=True, workers=workers), 512, 2)
    assert (found is None) == (not reason)
    if found is not None:
        assert reason in str(found)
        assert found.is_hopeless == is_hopeless


def test_a_master_that_does_not_answer_is_waited_for() -> None:
    found = executor_problem(MASTER, None, 512, 1)
    assert found is not None
    assert not found.is_hopeless


def test_one_master_that_answers_is_enough() -> None:
    """Standby masters may be down; each one is named if all are."""
    with closing(socket.create_server(("127.0.0.1", 0))) as server:
        port = server.getsockname()[1]
        assert connection_problem(f"spark://127.0.0.1:1,127.0.0.1:{port}") == ""
    found = connection_problem("spark://127.0.0.1:1,127.0.0.2:1")
    assert "127.0.0.1:1: Connection refused; 127.0.0.2:1: Connection refused" in found


@pytest.mark.skipif(not socket.has_dualstack_ipv6(), reason="this machine has no IPv6")
def test_a_master_with_an_ipv6_address_is_reached() -> None:
    with closing(socket.create_server(("::1", 0), family=socket.AF_INET6)) as server:
        assert connection_problem(f"spark://[::1]:{server.getsockname()[1]}") == ""
