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


def other_python() -> Path | None:
    """Find an interpreter of another minor version than ours: on the PATH, or of pyenv."""
    ours = f"{sys.version_info.major}.{sys.version_info.minor}"
    names = [f"python3.{minor}" for minor in range(9, 16)]
    found = [Path(one) for name in names if (one := shutil.which(name))]
    root = Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv"))
    found += sorted(root.glob("versions/3.*/bin/python3"))
    question = "import sys; print('%d.%d' % sys.version_info[:2])"
    for one in reversed(found):
        answer = subprocess.run([one, "-c", question], capture_output=True, text=True, check=False)
        if not answer.returncode and answer.stdout.strip() != ours:
            return one.resolve()
    return None


def packed(environment: Path, archive: Path) -> Path:
    """Write an archive as venv-pack does: the environment is at its top."""
    with tarfile.open(archive, "w:gz") as file:
        for one in sorted(environment.iterdir()):
            file.add(one, one.name)
    return archive
