# SPDX-License-Identifier: Apache-2.0
"""Ask a target cluster for a producer id of our own."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from kafka.protocol.producer import InitProducerIdRequest

from sparkmirror.errors import UnreachableError, WireError
from sparkmirror.wire import error_codes
from sparkmirror.wire.cluster import Cluster

_NEWEST_VERSION = 4


def ask_producer_id(
    cluster: Cluster, done: Callable[[int, int], None], failed: Callable[[int], None]
) -> None:
    """Call `done` with id and epoch, or `failed` with an error code; another broker each time."""

    def lost(error: UnreachableError) -> None:
        cluster.complain(error)
        failed(error_codes.LOST_CONNECTION)

    def answered(answer: Any) -> None:
        if answer.error_code:
            failed(answer.error_code)
        else:
            done(answer.producer_id, answer.producer_epoch)

    def send() -> None:
        message = InitProducerIdRequest(
            transactional_id=None,
            transaction_timeout_ms=60_000,
            producer_id=-1,
            producer_epoch=-1,
        )
        try:
            connection.call(message, answered, lost, newest=_NEWEST_VERSION)
        except WireError:
            failed(error_codes.UNSUPPORTED_VERSION)

    node = cluster.any_node()
    if node is None:
        cluster.refresh()
        failed(error_codes.LOST_CONNECTION)
        return
    try:
        connection = cluster.connection(node)
    except UnreachableError as error:
        lost(error)
        return
    connection.when_ready(send, lost)
