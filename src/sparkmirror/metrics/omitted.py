# SPDX-License-Identifier: Apache-2.0
"""Java's metrics that this program cannot fill truthfully: patterns of names, and the reason.

A test holds them against the capture of Java's MirrorMaker 2: each name of Java is either in the
table or matches one of these.
"""

from __future__ import annotations

from typing import NamedTuple


class Omitted(NamedTuple):
    """Names by regular expression, and why they are not here."""

    pattern: str
    reason: str


_CLIENT = "kafka_(consumer|producer)"
OMITTED = (
    Omitted(
        "kafka_admin_client_.+",
        "Admin requests are few; tasks send none.",
    ),
    Omitted(
        f"{_CLIENT}_coordinator_.+",
        "Tasks are not members of consumer groups.",
    ),
    Omitted(
        "kafka_consumer_fetch_manager_.+",
        "Raw record batches are fetched: see sparkmirror_wire_bytes_total and "
        "sparkmirror_batches_total.",
    ),
    Omitted(
        "kafka_producer_(batch|buffer|bufferpool|compression|flush|metadata|produce|record|topic"
        "|txn)_.+",
        "Record batches are sent as they were fetched: there is no serializer, accumulator or "
        "compressor, and no pool of buffers.",
    ),
    Omitted(
        f"{_CLIENT}_(commit|committed|connection|failed|io|last|network|node|poll|reauthentication"
        "|records|request|requests|response|select|successful|time|waiting)_.+",
        "One event loop serves all connections of a task: see sparkmirror_request_errors_total.",
    ),
    Omitted(
        "kafka_connect_(connection|coordinator|failed|incoming|io|network|node|outgoing"
        "|reauthentication|request|response|select|successful)_.+",
        "The group's protocol is Java's, its client is not.",
    ),
    Omitted(
        "kafka_connect_connector_task_(batch_size|pause|running)_.+",
        "Tasks do not poll: see sparkmirror_flow_state.",
    ),
    Omitted(
        "kafka_connect_source_task_.+",
        "Records are copied in batches; none is polled or converted.",
    ),
    Omitted(
        "kafka_connect_task_error_.+",
        "There are no converters and transformations: see sparkmirror_flow_incidents_total.",
    ),
    Omitted(
        "kafka_connect_worker_(connector|task)_startup_.+",
        "See the states of connectors and tasks.",
    ),
    Omitted(
        "kafka_connect_worker_rebalance_.+",
        "Rebalances are not timed.",
    ),
    Omitted(
        "jvm_.+",
        "Spark's JVM schedules tasks and copies nothing; Spark's metrics system has the rest.",
    ),
)
