# SPDX-License-Identifier: Apache-2.0
"""Create .venv and install the locked dependencies; standard library only.

Downloads nothing if the lock has not changed since the last run.
"""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import subprocess
import sys
import time
import venv
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
VENV = ROOT / ".venv"
STAMP = VENV / "installed"
ATTEMPTS = 3
PYTHON_NEEDED = (3, 11)
JAVA_NEEDED = 17


def fail(sentence: str) -> None:
    """Exit with one line on standard error."""
    print(f"sparkmirror: {sentence}", file=sys.stderr)
    sys.exit(1)


def check_python() -> None:
    """Python 3.11 or newer runs this script."""
    if sys.version_info < PYTHON_NEEDED:
        fail(
            f"Python {sys.version.split()[0]} is too old; 3.11 or newer is needed. "
            "Name one with: make PYTHON=python3.11 ..."
        )


def check_java() -> None:
    """Java 17 or newer is on the PATH or in JAVA_HOME."""
    home = os.environ.get("JAVA_HOME")
    java = str(Path(home) / "bin" / "java") if home else shutil.which("java")
    if not java or not shutil.which(java):
        where = f"at JAVA_HOME ({home})" if home else "on the PATH"
        fail(f"no Java was found {where}; install a JDK or JRE {JAVA_NEEDED} or newer.")
    told = subprocess.run([str(java), "-version"], capture_output=True, text=True, check=False)
    found = re.search(r'version "(?:1\.)?(\d+)', told.stderr)
    if told.returncode != 0 or not found:
        fail(f"{java} does not run as Java; set JAVA_HOME to a JDK or JRE {JAVA_NEEDED} or newer.")
    elif int(found.group(1)) < JAVA_NEEDED:
        fail(
            f"{java} is Java {found.group(1)}; {JAVA_NEEDED} or newer is needed. "
            "Set JAVA_HOME to a newer one."
        )


def wanted() -> str:
    """Return what the environment depends on: the lock, the project file, the interpreter."""
    parts = [(ROOT / name).read_bytes() for name in ("requirements.lock", "pyproject.toml")]
    parts.append(f"{sys.version_info[:2]} {ROOT}".encode())
    return hashlib.sha256(b"\0".join(parts)).hexdigest()


def pip(*arguments: str) -> None:
    """Run pip in the environment; retries when the connection is lost."""
    command = [str(VENV / "bin" / "python"), "-m", "pip", "--disable-pip-version-check", *arguments]
    for attempt in range(1, ATTEMPTS + 1):
        if subprocess.run(command, check=False).returncode == 0:
            return
        if attempt < ATTEMPTS:
            print(f"sparkmirror: that failed; trying again ({attempt} of {ATTEMPTS - 1})")
            time.sleep(5 * attempt)
    fail(
        "the dependencies could not be installed (see pip's lines above). If the package index "
        "is out of reach, check the network or pip's index setting, then run the command again."
    )


def main() -> None:
    """Check Python and Java, then install what is missing."""
    check_python()
    check_java()
    if STAMP.exists() and STAMP.read_text() == wanted():
        return
    print("sparkmirror: setting up .venv (once; some minutes on a slow line)", flush=True)
    try:
        if not (VENV / "bin" / "python").exists():
            venv.create(VENV, with_pip=True, clear=VENV.exists())
    except (OSError, subprocess.CalledProcessError) as error:
        fail(f"the virtual environment {VENV} could not be made: {error}.")
    pip("install", "--quiet", "--require-hashes", "-r", str(ROOT / "requirements.lock"))
    pip("install", "--quiet", "--no-deps", "--no-build-isolation", "-e", str(ROOT))
    STAMP.write_text(wanted())


if __name__ == "__main__":
    main()
