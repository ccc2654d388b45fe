# SPDX-License-Identifier: Apache-2.0
"""The documents say only what is true: links lead somewhere, named tests and files exist."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

from sparkmirror.config.keys.table import differing_defaults
from sparkmirror.metrics.table import METRICS

ROOT = Path(__file__).parents[3]
DOCUMENTS = sorted(
    [*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md"), ROOT / "deploy" / "README.md"]
)
README_LINES = 200
MAKE_TEST = ("unit", "contract", "fuzz", "spark", "integration", "chaos")  # beside them: test-all
SUITES = "unit|contract|fuzz|spark|integration|chaos|interop|upstream|kerberos|monitoring|thorough"
NAMED_TEST = rf"`((?:{SUITES})/(?:\w+/)*test_\w+\.py)(?:::(\w+))?`"
THOROUGH = "pytest.mark.thorough"


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: path.name)
def test_every_link_leads_to_a_file(document: Path) -> None:
    """A link to a file of the repository names one that is there."""
    targets = re.findall(r"\]\(([^)#]+)[^)]*\)", document.read_text())
    local = [target for target in targets if "://" not in target]
    assert [target for target in local if not (document.parent / target).exists()] == []


def test_every_test_named_in_the_compatibility_table_exists() -> None:
    """A row that points to a test points to a real one."""
    text = (ROOT / "COMPATIBILITY.md").read_text() + (ROOT / "ARCHITECTURE.md").read_text()
    named = re.findall(NAMED_TEST, text)
    assert named
    missing = [
        f"{file}::{test}"
        for file, test in named
        if not (ROOT / "tests" / file).exists()
        or (test and f"def {test}(" not in (ROOT / "tests" / file).read_text())
    ]
    assert missing == []


def runs_in_make_test(file: str, test: str) -> bool:
    """Whether `make test` runs a test, or any of a file's: all but what is marked thorough."""
    if file.partition("/")[0] not in MAKE_TEST:
        return False
    tree = ast.parse((ROOT / "tests" / file).read_text())
    marks = [one for one in tree.body if isinstance(one, ast.Assign)]
    if any("pytestmark" in ast.unparse(one) and THOROUGH in ast.unparse(one) for one in marks):
        return False
    return any(
        THOROUGH not in map(ast.unparse, one.decorator_list)
        for one in ast.walk(tree)
        if isinstance(one, ast.FunctionDef)
        and one.name.startswith("test_")
        and test in ("", one.name)
    )


@pytest.mark.parametrize("document", ["COMPATIBILITY.md", "ARCHITECTURE.md"])
def test_every_test_that_make_test_leaves_out_is_marked(document: str) -> None:
    """Whoever reads a row knows whether CI proves it or only `make test-all`."""
    named = re.findall(rf"{NAMED_TEST}( \(test-all\))?", (ROOT / document).read_text())
    wrong = [
        f"{file}::{test}"
        for file, test, mark in named
        if runs_in_make_test(file, test) == bool(mark)
    ]
    assert wrong == []


def test_every_row_of_the_compatibility_table_names_a_test() -> None:
    """Unless it says "not yet"."""
    text = (ROOT / "COMPATIBILITY.md").read_text().partition("## Defaults")[0]
    rows = [line.strip("|").split(" | ") for line in text.splitlines() if line.startswith("| ")]
    features = [row for row in rows if row[-1].strip() not in ("test", "ours")]
    assert features
    unproved = [
        row[0]
        for row in features
        if row[1].strip() != "not yet" and not re.search(NAMED_TEST, row[-1])
    ]
    assert unproved == []


def test_every_differing_default_has_its_row() -> None:
    """A default that is not MM2's is listed with both values and the reason."""
    text = (ROOT / "COMPATIBILITY.md").read_text()
    missing = [
        key.name
        for key in differing_defaults()
        if not re.search(
            rf"^\| `{re.escape(key.name)}` \| .*{re.escape(key.default or 'cluster can hold')}"
            rf".* \| `{re.escape(str(key.mm2_default))}` \| "
            rf"{re.escape(key.mm2_difference_reason)} \|$",
            text,
            re.MULTILINE,
        )
    ]
    assert missing == []


def test_the_readme_is_short_and_finished() -> None:
    """A newcomer gets a page, not a manual, and no placeholder."""
    assert len((ROOT / "README.md").read_text().splitlines()) < README_LINES
    assert [d.name for d in DOCUMENTS if "@@" in d.read_text()] == []


def test_every_source_file_carries_its_licence_and_reason() -> None:
    """An SPDX line, then a docstring that says why the module exists."""
    lacking = []
    for file in sorted((ROOT / "src").rglob("*.py")):
        first, second, *_ = [*file.read_text().splitlines(), "", ""]
        if first != "# SPDX-License-Identifier: Apache-2.0" or not second.lstrip("r").startswith(
            '"""'
        ):
            lacking.append(str(file.relative_to(ROOT)))
    assert lacking == []


def test_every_file_in_the_file_map_exists() -> None:
    """ARCHITECTURE.md's anchors name modules that are there."""
    text = (ROOT / "ARCHITECTURE.md").read_text()
    named = set(re.findall(r"`((?:\w+/)+(?!test_)\w+\.py)`", text))
    places = (ROOT / "src" / "sparkmirror", ROOT, ROOT / "tests")
    assert named
    lacking = [one for one in sorted(named) if not any((place / one).exists() for place in places)]
    assert lacking == []


def test_every_new_name_of_a_renamed_module_exists() -> None:
    """docs/renamed-modules.md is for people who look for the old name."""
    text = (ROOT / "docs" / "renamed-modules.md").read_text("utf-8")
    rows = re.findall(r"^\| `[\w.]+` \| (.+) \|$", text, re.MULTILINE)
    assert rows
    for name in re.findall(r"`([\w.]+)`", " ".join(rows)):
        place = ROOT.joinpath("src", "sparkmirror", *name.split("."))
        assert place.is_dir() or place.with_suffix(".py").exists(), name


RULES = ROOT.joinpath("deploy", "prometheus", "rules", "alerts.yml").read_text("utf-8")
RUNBOOKS = re.findall(r"^ +runbook_url: (.+)$", RULES, re.MULTILINE)


def test_every_alert_names_a_runbook_and_every_runbook_has_an_alert() -> None:
    page = (ROOT / "docs" / "troubleshooting.md").read_text("utf-8")
    assert len(RUNBOOKS) == len(re.findall(r"- alert: ", RULES))
    headings = re.findall(r"^### (alert-.+)$", page, re.MULTILINE)
    assert {f"docs/troubleshooting.md#{one}" for one in headings} == set(RUNBOOKS)


@pytest.mark.parametrize("runbook", sorted(set(RUNBOOKS)))
def test_every_alert_has_a_runbook(runbook: str) -> None:
    """What it means, where to look with a command, when it clears."""
    path, _, anchor = runbook.partition("#")
    page = (ROOT / path).read_text("utf-8")
    section = page.partition(f"\n### {anchor}\n")[2].partition("\n### ")[0]
    for part in ("**Meaning.**", "**Look.**", "```sh\n", "**Clears**"):
        assert part in section


def test_the_alert_of_incidents_uses_metrics_that_exist() -> None:
    page = (ROOT / "docs" / "incidents.md").read_text("utf-8")
    (expression,) = re.findall(r"```promql\n(.*?)```", page, re.DOTALL)
    names = re.findall(r"sparkmirror_\w+", expression)
    assert len(names) >= 4
    assert set(names) <= {one.name for one in METRICS}


def test_every_quoted_log_line_is_held_against_a_run() -> None:
    """`integration/test_logs.py` names each heading whose block quotes lines."""
    page = (ROOT / "docs" / "troubleshooting.md").read_text("utf-8")
    sections = page.split("\n### ")[1:]
    quoting = [one.partition("\n")[0] for one in sections if "```text\n" in one]
    checked = re.findall(
        r'quoted\("(.+?)"\)', (ROOT / "tests/integration/test_logs.py").read_text("utf-8")
    )
    assert len(quoting) == len(checked) == len(set(checked))
    assert [one for one in quoting if not one.startswith(tuple(checked))] == []
