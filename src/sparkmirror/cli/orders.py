# SPDX-License-Identifier: Apache-2.0
"""Made-up orders for the demo, written to a topic at a steady rate by kafka-python's producer."""

from __future__ import annotations

import itertools
import json
import random
import threading
import time

from kafka import KafkaProducer

_GOODS = ("coffee", "tea", "cocoa", "sugar", "flour", "honey", "rice", "salt")
_TOWNS = ("Lisbon", "Oslo", "Nairobi", "Lima", "Osaka", "Quito", "Tallinn", "Hanoi")


class OrderProducer:
    """A thread that writes orders until it is stopped."""

    def __init__(self, bootstrap_servers: str, topic: str, per_second: float, seed: int) -> None:
        self._producer = KafkaProducer(
            bootstrap_servers=bootstrap_servers, acks="all", linger_ms=2, client_id="demo-orders"
        )
        self._topic = topic
        self._per_second = per_second
        self._random = random.Random(seed)  # noqa: S311 - made-up data
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="orders", daemon=True)
        self.count = 0

    def start(self) -> None:
        """Begin."""
        self._thread.start()

    def stop(self) -> None:
        """Write nothing more; returns when everything is acknowledged."""
        self._stop.set()
        self._thread.join()
        self._producer.flush()
        self._producer.close()

    def _run(self) -> None:
        began = time.monotonic()
        for number in itertools.count(1):
            due = began + number / self._per_second
            if self._stop.wait(max(0.0, due - time.monotonic())):
                return
            order = {
                "order": number,
                "town": self._random.choice(_TOWNS),
                "item": self._random.choice(_GOODS),
                "pieces": self._random.randint(1, 12),
            }
            self._producer.send(
                self._topic, key=str(order["town"]).encode(), value=json.dumps(order).encode()
            )
            self.count = number
