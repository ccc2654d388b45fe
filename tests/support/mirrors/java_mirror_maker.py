# SPDX-License-Identifier: Apache-2.0
"""Java MirrorMaker 2, from Kafka's own jars, as the other one to compare with."""

from __future__ import annotations

import subprocess
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType
from typing import Self

import psutil

from sparkmirror.devcluster.jars import DEFAULT_KAFKA, JarSet
from sparkmirror.devcluster.jvm import QUICK_START, KafkaJvm

_MAIN = "org.apache.kafka.connect.mirror.MirrorMaker"
_STOP_SECONDS = 60.0
_TAIL_LINES = 40


class JavaMirror:
    """A running Java MirrorMaker 2; also a context manager that ends it."""

    def __init__(self, file: Path, options: Sequence[str] = QUICK_START) -> None:
        jvm = KafkaJvm.of(DEFAULT_KAFKA, heap="768m", options=options, artifacts=JarSet.CONNECT)
        logging = file.with_suffix(".logging.properties")
        logging.write_text(jvm.logging_text("warn"), encoding="utf-8")
        self.log_file = file.with_suffix(".java.log")
        with self.log_file.open("ab") as log:
            self._process = subprocess.Popen(
                jvm.command(_MAIN, str(file), logging=logging),
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
            )

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        _error: BaseException | None,
        _traceback: TracebackType | None,
    ) -> None:
        if kind is not None:
            lines = self.log_file.read_text(encoding="utf-8", errors="replace").splitlines()
            print("\n".join(lines[-_TAIL_LINES:]))
        if self._process.poll() is None:
            self._process.kill()
            self._process.wait()

    def copiers(self) -> list[psutil.Process]:
        """The processes that copy: the JVM."""
        return [psutil.Process(self._process.pid)]

    def stop(self) -> None:
        """SIGTERM, as an operator would: it flushes and writes its offsets."""
        self._process.terminate()
        self._process.wait(_STOP_SECONDS)
