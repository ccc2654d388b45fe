# SPDX-License-Identifier: Apache-2.0
"""Command lines of JVMs with Kafka's classes: brokers, storage formatting, Kafka's tools.

A class-data archive of Kafka's classes halves the start-up time of a broker or tool. The JVM
writes it when a broker exits cleanly and no archive exists. The file then moves into the cache,
next to its jars. Its name contains the Java build, because it fits only that.
"""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Self

from sparkmirror.devcluster.jars import JarSet, kafka_classpath, logs_with_log4j2
from sparkmirror.system.java import java_binary, java_build

# These JVMs live for seconds or minutes: start-up time matters more than peak speed. Not for
# benchmarks with TLS: without the second compiler AES is not hardware-accelerated (12 MB/s).
QUICK_START = ("-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC")

# Logging must outlive the other shutdown hooks: the console producer sends its last records, and
# reports errors, in one.
_LOG4J2 = """\
status = error
shutdownHook = disable
appender.console.type = Console
appender.console.name = console
appender.console.target = SYSTEM_ERR
appender.console.layout.type = PatternLayout
appender.console.layout.pattern = %d{{ISO8601}} %p %c: %m%n
rootLogger.level = {level}
rootLogger.appenderRef.console.ref = console
"""

_RELOAD4J = """\
log4j.rootLogger={level}, console
log4j.appender.console=org.apache.log4j.ConsoleAppender
log4j.appender.console.target=System.err
log4j.appender.console.layout=org.apache.log4j.PatternLayout
log4j.appender.console.layout.ConversionPattern=%d{{ISO8601}} %p %c: %m%n
"""

# The archive is optional: messages about classes that are not in it would fill the logs.
_QUIET = ("-Xshare:auto", "-Xlog:cds*=off", "-Xlog:class+path*=off")


@dataclass(frozen=True, slots=True)
class KafkaJvm:
    """A Java binary, a Kafka version and their options."""

    java: Path
    jars: tuple[Path, ...]
    version: str
    options: tuple[str, ...]
    archive: KafkaClassArchive
    plugins: tuple[Path, ...] = ()  # directories with more classes, such as a broker's policies

    @classmethod
    def of(
        cls,
        version: str,
        *,
        heap: str,
        options: Sequence[str] = QUICK_START,
        artifacts: JarSet = JarSet.BROKER,
        plugins: Sequence[Path] = (),
    ) -> Self:
        """Find Java and the jars; downloads the jars if they are not in the cache."""
        java = java_binary()
        jars = tuple(kafka_classpath(version, artifacts))
        return cls(
            java=java,
            jars=jars,
            version=version,
            options=(f"-Xmx{heap}", *options),
            archive=KafkaClassArchive.of(java, jars),
            plugins=tuple(plugins),
        )

    def command(
        self, main_class: str, *arguments: str, logging: Path, recording: Path | None = None
    ) -> list[str]:
        """Return the command line of a main class. `recording` is the file for a class archive."""
        return [
            str(self.java),
            *self.options,
            *(self.archive.dump_options(recording) if recording else self.archive.use_options()),
            f"-D{self._logging_property}={logging.absolute().as_uri()}",
            "-cp",
            os.pathsep.join(str(one) for one in (*self.jars, *self.plugins)),
            main_class,
            *arguments,
        ]

    def logging_text(self, level: str) -> str:
        """Return the configuration for logging to stderr, for this version's backend."""
        return (_LOG4J2 if self._has_log4j2 else _RELOAD4J).format(level=level)

    @property
    def _has_log4j2(self) -> bool:
        return logs_with_log4j2(self.version)

    @property
    def _logging_property(self) -> str:
        return "log4j2.configurationFile" if self._has_log4j2 else "log4j.configuration"


def extract_failure_reason(*outputs: str) -> str:
    """Find the reason in the output of a failed Kafka program, stack traces included."""
    lines = [line.strip() for output in outputs for line in output.splitlines() if line.strip()]
    for line in lines:
        # Time, logger and Java class before the reason are of no use.
        named = re.search(r"\b[\w.]+(?:Exception|Error): (.+)", line)
        if named:
            return named[1]
    candidates = [line for line in lines if "rror" in line]
    return (candidates or lines or ["no reason was printed"])[0]


@dataclass(frozen=True, slots=True)
class KafkaClassArchive:
    """The path of the archive in the cache, whether or not it exists."""

    file: Path

    @classmethod
    def of(cls, java: Path, jars: tuple[Path, ...]) -> KafkaClassArchive:
        build = hashlib.sha256(f"{java}\n{java_build(java)}".encode()).hexdigest()[:16]
        return cls(jars[0].parent / f"classes-{build}.jsa")

    @property
    def is_missing(self) -> bool:
        """Whether it does not exist and can be created."""
        return not self.file.exists() and os.access(self.file.parent, os.W_OK)

    def use_options(self) -> tuple[str, ...]:
        """JVM options that use the archive if it exists."""
        return (*_QUIET, f"-XX:SharedArchiveFile={self.file}") if self.file.exists() else ()

    def dump_options(self, scratch: Path) -> tuple[str, ...]:
        """JVM options that write the archive to `scratch` at exit."""
        return (*_QUIET, f"-XX:ArchiveClassesAtExit={scratch}")

    def publish(self, scratch: Path) -> None:
        """Copy a finished recording into place; it may be on another disk."""
        if not scratch.exists():
            return
        if self.is_missing:
            near = self.file.with_suffix(f".{os.getpid()}.part")
            near.write_bytes(scratch.read_bytes())
            near.replace(self.file)
        scratch.unlink()
