# SPDX-License-Identifier: Apache-2.0
"""Fetches one third-party jar with Ivy, from where Kafka's jars come; keeps it in the cache."""

from __future__ import annotations

import hashlib
import subprocess
import tempfile
from pathlib import Path

from sparkmirror.devcluster.jars import ivy_command, ivy_settings
from sparkmirror.system.cache_directory import cache_directory, ensure_writable

_SECONDS = 300.0


def maven_jar(group: str, name: str, version: str, classifier: str = "", *, sha256: str) -> Path:
    """Return the jar; its digest must be the given one."""
    folder = ensure_writable(cache_directory() / "jars")
    jar = folder / f"{'-'.join(filter(None, (name, version, classifier)))}.jar"
    classified = f' m:classifier="{classifier}"' if classifier else ""
    if not jar.exists():
        with tempfile.TemporaryDirectory(dir=folder) as scratch_name:
            scratch = Path(scratch_name)
            (scratch / "ivysettings.xml").write_text(
                ivy_settings(cache_directory() / "kafka" / "ivy"), encoding="utf-8"
            )
            (scratch / "ivy.xml").write_text(
                f"""<ivy-module version="2.0" xmlns:m="http://ant.apache.org/ivy/maven">
  <info organisation="test" module="jar"/>
  <dependencies>
    <dependency org="{group}" name="{name}" rev="{version}" transitive="false">
      <artifact name="{name}" type="jar" ext="jar"{classified}/>
    </dependency>
  </dependencies>
</ivy-module>
""",
                encoding="utf-8",
            )
            command = ivy_command(scratch)
            ivy = subprocess.run(
                command, capture_output=True, text=True, timeout=_SECONDS, check=False
            )
            fetched = scratch / "jars" / jar.name
            assert fetched.exists(), ivy.stdout + ivy.stderr
            fetched.rename(jar)
    assert hashlib.sha256(jar.read_bytes()).hexdigest() == sha256, f"{jar} is another file"
    return jar
