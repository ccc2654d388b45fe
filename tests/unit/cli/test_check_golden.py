# SPDX-License-Identifier: Apache-2.0
"""The whole output of `check` for a set of files, as lines and as JSON.

`UPDATE_GOLDEN=1 pytest` writes the golden files again; read the difference before you commit it.
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest
import typer
from typer.testing import CliRunner

from sparkmirror.cli.check import check
from sparkmirror.config.keys.service_profiles import PROFILES, SOURCE_KEY, TARGET_KEY

HERE = Path(__file__).parent
ROOT = HERE.parents[2]
GOLDEN = HERE / "golden"
FILES = {
    **{path.stem: path for path in sorted((ROOT / "config").glob("*.properties"))},
    "layering": HERE.parent / "config" / "golden" / "layering.properties",
    "worker": GOLDEN / "worker.properties",
}
WITH_PROFILE = """\
clusters = a, b
a.bootstrap.servers = a1:9093
b.bootstrap.servers = b1:9093
a->b.enabled = true
a->b.{key} = {name}
"""

app = typer.Typer()
app.command()(check)


def output(*arguments: str) -> str:
    """What `check` prints."""
    return CliRunner().invoke(app, list(arguments)).stdout


def compare(name: str, actual: str) -> None:
    """The output is that of the golden file."""
    file = GOLDEN / f"{name}.txt"
    if os.environ.get("UPDATE_GOLDEN"):
        file.write_text(actual, "utf-8")
    assert file.read_text("utf-8") == actual


@pytest.mark.parametrize("name", FILES)
def test_check_prints_the_golden_lines(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Values, their order, origins and notices."""
    monkeypatch.chdir(FILES[name].parent)
    compare(name, output(FILES[name].name))


@pytest.mark.parametrize("name", ["minimal", "worker"])
def test_check_prints_the_golden_json(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The same for programs."""
    monkeypatch.chdir(FILES[name].parent)
    compare(f"{name}.json", output(FILES[name].name, "--json"))


@pytest.mark.parametrize("name", PROFILES)
@pytest.mark.parametrize("key", [SOURCE_KEY, TARGET_KEY])
def test_check_prints_the_golden_output_of_a_profile(
    name: str, key: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The values that a profile gives, with the profile as their origin."""
    (tmp_path / "mm2.properties").write_text(WITH_PROFILE.format(key=key, name=name))
    monkeypatch.chdir(tmp_path)
    lines = output("mm2.properties").splitlines(keepends=True)
    compare(f"profile.{key}.{name}", "".join(line for line in lines if "profile" in line))
