# SPDX-License-Identifier: Apache-2.0
"""Copies topics with Spark's own Kafka source and sink.

Runs in a virtual environment with PySpark only (`spark_reference.py`).
`spark_job.py SOURCE TARGET ALIAS CHECKPOINTS TOPIC...`
"""

from __future__ import annotations

import signal
import sys
from types import FrameType

from pyspark.sql import SparkSession


def main() -> None:
    """Copy until SIGTERM; without arguments only fetch the jars."""
    if not sys.argv[1:]:
        return
    source, target, alias, checkpoints, *topics = sys.argv[1:]
    spark = (
        SparkSession.builder.appName("reference")
        .config("spark.sql.shuffle.partitions", "4")
        .getOrCreate()
    )
    spark.sparkContext.setLogLevel("ERROR")
    records = (
        spark.readStream.format("kafka")
        .option("kafka.bootstrap.servers", source)
        .option("subscribe", ",".join(topics))
        .option("startingOffsets", "earliest")
        .option("includeHeaders", "true")
        .load()
    )
    query = (
        records.selectExpr(
            f"concat('{alias}.', topic) AS topic", "partition", "key", "value", "headers"
        )
        .writeStream.format("kafka")
        .option("kafka.bootstrap.servers", target)
        .option("kafka.compression.type", "lz4")
        .option("kafka.linger.ms", "20")
        .option("kafka.batch.size", "524288")
        .option("checkpointLocation", checkpoints)
        .start()
    )

    def end(_number: int, _frame: FrameType | None) -> None:
        query.stop()
        sys.exit(0)

    signal.signal(signal.SIGTERM, end)
    query.awaitTermination()


if __name__ == "__main__":
    main()
