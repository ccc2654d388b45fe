# SPDX-License-Identifier: Apache-2.0
"""Asking for a producer id where it cannot be had."""

from __future__ import annotations

import pytest

from sparkmirror.wire import error_codes
from sparkmirror.wire.producer_queries import request_producer_id
from support.peers.fake_cluster import FakeCluster

INIT_PRODUCER_ID = 22


@pytest.mark.parametrize(
    ("ending", "code"),
    [
        ("not spoken", error_codes.UNSUPPORTED_VERSION),
        ("lost", error_codes.CONNECTION_LOST),
        ("dead", error_codes.CONNECTION_LOST),
    ],
)
def test_a_failure_is_an_error_code(ending: str, code: int) -> None:
    """A broker without the API is not an exception on the loop's thread."""
    cluster, heard = FakeCluster({}), list[int]()
    if ending == "not spoken":
        cluster.connection(1).refused_keys.add(INIT_PRODUCER_ID)
    if ending == "dead":
        cluster.dead.add(1)

    request_producer_id(
        cluster,  # type: ignore[arg-type]
        lambda _id, _epoch: pytest.fail("there is none"),
        heard.append,
    )
    if ending == "lost":
        cluster.connection(1).lose()

    assert heard == [code]
