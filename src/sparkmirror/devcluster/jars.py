# SPDX-License-Identifier: Apache-2.0
"""Downloads Kafka's jars from Maven Central with the Ivy that PySpark ships, into the cache.

A set of jars is one directory. It is renamed into place once it is complete and listed in
`jars.txt`, so a partial download never counts. A file lock serializes concurrent processes.

Also: which Kafka versions need ZooKeeper, and which logging backend.
"""

from __future__ import annotations

import fcntl
import logging
import re
import shutil
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from enum import StrEnum
from importlib.util import find_spec
from pathlib import Path
from xml.sax.saxutils import quoteattr

from rich.console import Console

from sparkmirror.devcluster.maven_repository import maven_repository
from sparkmirror.errors import SetupError
from sparkmirror.system.cache_directory import cache_directory, ensure_writable
from sparkmirror.system.java import java_binary

log = logging.getLogger(__name__)

DEFAULT_KAFKA = "4.3.1"
TESTED_KAFKA = ("4.3.1", "3.9.2", "3.0.0", "2.8.2", "2.4.1")

_TRIES = 3
_PAUSE_SECONDS = 2.0
_FETCH_SECONDS = 600.0
_LISTING = "jars.txt"
_SCALA = "2.13"

_FIRST_WITH_LOG4J2 = (4,)
# KRaft exists since 2.8, but is incomplete before this version (KIP-833).
_FIRST_WITHOUT_ZOOKEEPER = (3, 3)


class JarSet(StrEnum):
    """Brokers and tools, or also Connect and Java's MirrorMaker 2."""

    BROKER = "broker"
    CONNECT = "connect"


def kafka_classpath(version: str = DEFAULT_KAFKA, artifacts: JarSet = JarSet.BROKER) -> list[Path]:
    """Return the jars of one Kafka version; downloads them if they are not in the cache."""
    if re.fullmatch(r"\d+\.\d+\.\d+", version) is None:
        raise SetupError(
            f"{version!r} is not a Kafka version.", remedy=f"Use one like {DEFAULT_KAFKA}."
        )
    jar_set = JarSet(artifacts)
    home = cache_directory() / "kafka"
    directory = home / f"{version}-{jar_set}"
    jars = _listed_jars(directory)
    if jars is not None:
        return jars
    ensure_writable(home)
    java_binary()  # fail before the lock if there is none
    with _locked(home / ".lock"):
        # Another process may have fetched them while this one waited for the lock.
        jars = _listed_jars(directory)
        if jars is None:
            _fetch(version, jar_set, directory)
            jars = _listed_jars(directory)
    if jars is None:
        raise SetupError(f"The Kafka jars in {directory} disappeared after the download.")
    return jars


def _listed_jars(directory: Path) -> list[Path] | None:
    """Return the listed jars, or None unless each is present with its size."""
    try:
        lines = (directory / _LISTING).read_text(encoding="utf-8").splitlines()
        jars = []
        for line in lines:
            size, _, name = line.partition(" ")
            jar = directory / name
            if jar.stat().st_size != int(size):
                return None
            jars.append(jar)
    except (OSError, ValueError):
        return None
    return jars or None


@contextmanager
def _locked(path: Path) -> Iterator[None]:
    with path.open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            log.info("Another process is downloading Kafka's jars; waiting for it")
            fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def _fetch(version: str, jar_set: JarSet, directory: Path) -> None:
    what = f"Kafka {version} ({jar_set} jars)"
    console = Console(stderr=True)
    announcement = f"Downloading {what} from Maven Central (once, about a minute) ..."
    if not console.is_terminal:
        console.print(announcement, soft_wrap=True)
    with console.status(announcement):
        for attempt in range(1, _TRIES + 1):
            time.sleep(_PAUSE_SECONDS * (attempt - 1))
            error = _fetch_once(version, jar_set, directory)
            if error is None:
                return
            log.info(f"Downloading {what}: attempt {attempt} of {_TRIES} failed ({error})")
    raise SetupError(
        f"Cannot download {what} from Maven Central after {_TRIES} attempts ({error}).",
        remedy="Check the network, the proxy settings and the version; then try again.",
    )


def _fetch_once(version: str, jar_set: JarSet, directory: Path) -> str | None:
    """Run Ivy once and publish its result. Returns the reason in one line on failure."""
    home = directory.parent
    with tempfile.TemporaryDirectory(prefix=".fetch-", dir=home) as scratch_name:
        scratch = Path(scratch_name)
        jars = scratch / "jars"
        (scratch / "ivysettings.xml").write_text(ivy_settings(home / "ivy"), encoding="utf-8")
        (scratch / "ivy.xml").write_text(_ivy_module(version, jar_set), encoding="utf-8")
        try:
            ivy = subprocess.run(
                ivy_command(scratch),
                capture_output=True,
                text=True,
                timeout=_FETCH_SECONDS,
                check=False,
            )
        except subprocess.TimeoutExpired:
            return f"timed out after {_FETCH_SECONDS:.0f} s"
        if ivy.returncode != 0:
            return _ivy_error(ivy.stdout + ivy.stderr)
        names = {jar.name for jar in jars.glob("*.jar")}
        missing = {f"{name}-{version}.jar" for name in _kafka_modules(jar_set)} - names
        if missing:
            return f"{', '.join(sorted(missing))} missing from the download"
        listing = [f"{jar.stat().st_size} {jar.name}" for jar in sorted(jars.glob("*.jar"))]
        (jars / _LISTING).write_text("\n".join(listing) + "\n", encoding="utf-8")
        # The directory is absent or incomplete here: a complete one is never replaced.
        shutil.rmtree(directory, ignore_errors=True)
        jars.rename(directory)
    return None


def _ivy_error(output: str) -> str:
    """Return the line of Ivy's output with the cause."""
    lines = [line.strip() for line in output.splitlines()]
    cause = re.compile(r"UnknownHost|refused|timed out|unreachable|FAILED|not found|Exception")
    found = [re.sub(r"^[:\s]+", "", line) for line in lines if cause.search(line)]
    return found[0] if found else "Ivy printed no reason"


def ivy_command(scratch: Path) -> list[str]:
    """Return the command that retrieves the jars of `ivy.xml` in `scratch` into `scratch/jars`.

    Ivy's settings are in `ivysettings.xml` beside it.
    """
    return [
        str(java_binary()),
        "-XX:TieredStopAtLevel=1",
        *maven_repository().java_options,
        "-cp",
        str(_ivy_jar()),
        "org.apache.ivy.Main",
        "-settings",
        str(scratch / "ivysettings.xml"),
        "-ivy",
        str(scratch / "ivy.xml"),
        "-retrieve",
        f"{scratch}/jars/[artifact]-[revision](-[classifier]).[ext]",
    ]


def _ivy_jar() -> Path:
    spec = find_spec("pyspark")
    folder = Path(spec.origin).parent / "jars" if spec and spec.origin else None
    found = sorted(folder.glob("ivy-*.jar")) if folder else []
    if not found:
        raise SetupError(
            "Cannot find PySpark's jars/ivy-*.jar.", remedy="Reinstall the pyspark package."
        )
    return found[-1]


def _kafka_modules(jar_set: JarSet) -> tuple[str, ...]:
    tools = (f"kafka_{_SCALA}", "kafka-tools")
    return tools if jar_set is JarSet.BROKER else (*tools, "connect-runtime", "connect-mirror")


def ivy_settings(cache: Path) -> str:
    """Return an ivysettings.xml that resolves from Maven Central or the configured mirror."""
    root = maven_repository().root
    mirror = f" root={quoteattr(root)}" if root else ""
    return f"""<ivysettings>
  <settings defaultResolver="central"/>
  <caches defaultCacheDir={quoteattr(str(cache))}/>
  <resolvers><ibiblio name="central" m2compatible="true"{mirror}/></resolvers>
</ivysettings>
"""


def _ivy_module(version: str, jar_set: JarSet) -> str:
    modules = [("org.apache.kafka", name, version) for name in _kafka_modules(jar_set)]
    # Kafka's modules depend on the logging facade only; the distribution chooses the backend.
    if logs_with_log4j2(version):
        modules.append(("org.apache.logging.log4j", "log4j-slf4j-impl", "2.25.4"))
    else:
        modules.append(("org.slf4j", "slf4j-reload4j", "1.7.36"))
    lines = [
        f'    <dependency org="{org}" name="{name}" rev="{rev}"/>' for org, name, rev in modules
    ]
    # Kafka before 3.1.1 depends on log4j 1, which reload4j replaces: one backend, not two.
    lines += [
        f'    <exclude org="{org}" module="{name}"/>'
        for org, name in (("org.slf4j", "slf4j-log4j12"), ("log4j", "log4j"))
    ]
    if jar_set is JarSet.BROKER:
        # kafka-tools needs it for one Connect tool only; it has 36 more jars.
        lines.append('    <exclude org="org.apache.kafka" module="connect-runtime"/>')
    dependencies = "\n".join(lines)
    return f"""<ivy-module version="2.0">
  <info organisation="sparkmirror" module="{jar_set}"/>
  <configurations><conf name="default"/></configurations>
  <dependencies defaultconfmapping="default->default">
{dependencies}
  </dependencies>
</ivy-module>
"""


def version_parts(version: str) -> tuple[int, ...]:
    """Split a version like 4.3.1 into numbers that compare as versions."""
    return tuple(int(part) for part in version.split("."))


def logs_with_log4j2(version: str) -> bool:
    """Whether this version logs with log4j2; older ones use log4j 1."""
    return version_parts(version) >= _FIRST_WITH_LOG4J2


def needs_zookeeper(version: str) -> bool:
    """Whether this version runs with ZooKeeper instead of KRaft."""
    return version_parts(version) < _FIRST_WITHOUT_ZOOKEEPER
