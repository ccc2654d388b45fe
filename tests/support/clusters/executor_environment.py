# SPDX-License-Identifier: Apache-2.0
"""Python environments for executors, apart from the one that runs the tests."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import sysconfig
import tarfile
import venv
from pathlib import Path


def executor_python(folder: Path) -> Path:
    """Make an environment with the dependencies but without sparkmirror; returns its Python."""
    python = empty_python(folder)
    packages = next(folder.glob("lib/python*/site-packages"))
    # .pth files of that folder are not read, so an editable sparkmirror is not found.
    (packages / "dependencies.pth").write_text(f"{sysconfig.get_path('purelib')}\n")
    probe = (
        "import crc32c, cryptography, importlib.util as i; assert not i.find_spec('sparkmirror')"
    )
    subprocess.run([python, "-I", "-c", probe], check=True)
    return python


def empty_python(folder: Path) -> Path:
    """Make an environment without packages; returns its Python."""
    venv.create(folder, symlinks=True, with_pip=False)
    return folder / "bin" / "python"


def other_pythons() -> dict[str, Path]:
    """Find interpreters of other minor versions than ours, oldest first: on the PATH, of pyenv."""
    names = [f"python3.{minor}" for minor in range(8, 16)]
    candidates = [Path(one) for name in names if (one := shutil.which(name))]
    root = Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv"))
    candidates += root.glob("versions/3.*/bin/python3")
    question = "import sys; print(sys.version_info[1])"
    found = {}
    for one in candidates:
        answer = subprocess.run([one, "-c", question], capture_output=True, text=True, check=False)
        if not answer.returncode and int(answer.stdout) != sys.version_info[1]:
            found[int(answer.stdout)] = one.resolve()
    return {f"3.{minor}": found[minor] for minor in sorted(found)}


def packed(environment: Path, archive: Path) -> Path:
    """Write an archive as venv-pack does: the environment is at its top."""
    with tarfile.open(archive, "w:gz") as file:
        for one in sorted(environment.iterdir()):
            file.add(one, one.name)
    return archive
