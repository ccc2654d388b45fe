# SPDX-License-Identifier: Apache-2.0
"""Fetches Debian's Prometheus for the tests of dashboards and alerts; standard library only.

The package is unpacked into build/prometheus and not installed: nothing is started, and root is not
needed. A prometheus and a promtool on the PATH are used instead.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
HOME = ROOT / "build" / "prometheus"
PROGRAMS = ("prometheus", "promtool")


def main() -> int:
    if all(shutil.which(one) for one in PROGRAMS):
        return 0
    if all((HOME / "usr" / "bin" / one).exists() for one in PROGRAMS):
        return 0
    with tempfile.TemporaryDirectory() as scratch:
        try:
            subprocess.run(
                ["apt-get", "download", "-o", "APT::Sandbox::User=", "prometheus"],
                cwd=scratch,
                check=True,
                capture_output=True,
                text=True,
            )
            package = next(Path(scratch).glob("prometheus_*.deb"))
            HOME.mkdir(parents=True, exist_ok=True)
            subprocess.run(["dpkg-deb", "-x", package, HOME], check=True)
        except (OSError, StopIteration, subprocess.CalledProcessError) as error:
            reason = getattr(error, "stderr", "") or str(error)
            print(
                "sparkmirror: the tests of dashboards and alerts need Prometheus: on Debian and "
                "Ubuntu `apt-get update`, elsewhere put prometheus and promtool on the PATH "
                f"({reason.strip()}).",
                file=sys.stderr,
            )
            return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
