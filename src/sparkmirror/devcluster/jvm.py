# SPDX-License-Identifier: Apache-2.0
"""How a JVM with Kafka's classes is called: for brokers, for formatting, for Kafka's own tools.

A class-data archive of Kafka's classes, which halves the time a broker or tool needs to start.

The JVM writes it when a broker ends cleanly and no archive is there yet; the file then moves into
the cache, next to the jars it was made from. Its name carries the Java build: it fits only one.
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

# These JVMs live for seconds or minutes: quick to start counts for more than quick code.
QUICK_START = ("-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC")

# Logging must outlive the JVM's other shutdown hooks: the console producer sends, fails and reports
# its last records in one.
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

# The archive is a bonus: remarks on classes that do not fit into it would only fill the logs.
_QUIET = ("-Xshare:auto", "-Xlog:cds*=off", "-Xlog:class+path*=off")


@dataclass(frozen=True, slots=True)
class KafkaJvm:
    """One Java, one Kafka version and the options they are started with."""

    java: Path
    jars: tuple[Path, ...]
    version: str
    options: tuple[str, ...]
    archive: KafkaClassArchive
    plugins: tuple[Path, ...] = ()  # folders with further classes, such as a broker's policies

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
        """Find Java and the jars, which are fetched if they are not in the cache yet."""
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
        """The command line for a main class; `recording` says where to write a class archive."""
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
        """Logging to standard error, in the syntax that this version's backend reads."""
        return (_LOG4J2 if self._has_log4j2 else _RELOAD4J).format(level=level)

    @property
    def _has_log4j2(self) -> bool:
        return logs_with_log4j2(self.version)

    @property
    def _logging_property(self) -> str:
        return "log4j2.configurationFile" if self._has_log4j2 else "log4j.configuration"


def extract_failure_reason(*outputs: str) -> str:
    """The reason in what a program of Kafka printed when it failed, stack traces and all."""
    lines = [line.strip() for output in outputs for line in output.splitlines() if line.strip()]
    for line in lines:
        # The time, the logger and the Java class before the reason say nothing to a user.
        named = re.search(r"\b[\w.]+(?:Exception|Error): (.+)", line)
        if named:
            return named[1]
    telling = [line for line in lines if "rror" in line]
    return (telling or lines or ["it gave no reason"])[0]


@dataclass(frozen=True, slots=True)
class KafkaClassArchive:
    """The archive's place in the cache, whether or not it has been made yet."""

    file: Path

    @classmethod
    def of(cls, java: Path, jars: tuple[Path, ...]) -> KafkaClassArchive:
        """The archive for this java and these jars."""
        build = hashlib.sha256(f"{java}\n{java_build(java)}".encode()).hexdigest()[:16]
        return cls(jars[0].parent / f"classes-{build}.jsa")

    @property
    def is_missing(self) -> bool:
        """Whether it is missing and could be put into its place."""
        return not self.file.exists() and os.access(self.file.parent, os.W_OK)

    def use_options(self) -> tuple[str, ...]:
        """JVM options that read the archive if it is there."""
        return (*_QUIET, f"-XX:SharedArchiveFile={self.file}") if self.file.exists() else ()

    def dump_options(self, scratch: Path) -> tuple[str, ...]:
        """JVM options that write the archive to `scratch` when the JVM ends."""
        return (*_QUIET, f"-XX:ArchiveClassesAtExit={scratch}")

    def publish(self, scratch: Path) -> None:
        """Move a finished recording into place, by way of a copy as it may lie on another disk."""
        if not scratch.exists():
            return
        if self.is_missing:
            near = self.file.with_suffix(f".{os.getpid()}.part")
            near.write_bytes(scratch.read_bytes())
            near.replace(self.file)
        scratch.unlink()
