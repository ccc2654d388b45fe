# SPDX-License-Identifier: Apache-2.0
"""Install the dependencies of the Kerberos tests into .venv; standard library only.

gssapi has no Linux wheels: it is compiled against the system's Kerberos library, whose KDC the
tests start. Prints the packages to install if they are missing.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import sysconfig
import tomllib
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PYTHON = ROOT / ".venv" / "bin" / "python"
PLACES = os.pathsep.join((os.environ.get("PATH", ""), "/usr/sbin", "/sbin", "/usr/local/sbin"))
# Program -> Debian's package.
NEEDED = {
    "krb5kdc": "krb5-kdc",
    "kdb5_util": "krb5-kdc",
    "kadmin.local": "krb5-admin-server",
    "krb5-config": "libkrb5-dev",
    "gcc": "gcc",
}


def main() -> int:
    missing = {one: NEEDED[one] for one in NEEDED if shutil.which(one, path=PLACES) is None}
    if not (Path(sysconfig.get_path("include")) / "Python.h").exists():
        missing["Python.h"] = "python3-dev"
    if missing:
        packages = " ".join(dict.fromkeys(missing.values()))
        print(
            f"sparkmirror: the Kerberos tests need {', '.join(missing)}; on Debian and Ubuntu: "
            f"apt-get install {packages} (elsewhere: the server and the headers of MIT Kerberos, "
            "and a C compiler).",
            file=sys.stderr,
        )
        return 1
    has_it = subprocess.run([PYTHON, "-c", "import gssapi"], capture_output=True, check=False)
    if has_it.returncode == 0:
        return 0
    command = [PYTHON, "-m", "pip", "--disable-pip-version-check", "install", "--quiet"]
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    extra = project["optional-dependencies"]["kerberos"]
    return subprocess.run([*command, *extra], check=False).returncode


if __name__ == "__main__":
    sys.exit(main())
