# SPDX-License-Identifier: Apache-2.0
"""A class is imported by name only if the allowlist permits it."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from sparkmirror.errors import ConfigError
from sparkmirror.policy.class_loading import ClassAllowlist, instantiate

KEY = "topic.filter.class"
BUILT_IN = ("org.example.BuiltIn",)
MODULES = {
    "acme/__init__.py": "from acme._inner import Inner\n",
    "acme/_inner.py": "class Inner:\n    pass\n",
    "acme/policies.py": (
        "from subprocess import Popen\nfrom threading import Thread\nimport sys\n"
        "def make():\n    return object()\n"
        "class Mine:\n    pass\n"
        "class Wild:\n    def __init__(self):\n        sys.exit('enough')\n"
        "class Broken:\n    def __init__(self):\n        raise KeyError('x')\n"
    ),
    "acme_other.py": "class Mine:\n    pass\n",
    "acme_divides.py": "1 / 0\n",
    "acme_ends.py": "raise SystemExit(3)\n",
    "acme_wrong.py": "def (:\n",
}


@pytest.fixture(autouse=True)
def modules(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Users' modules on the Python path."""
    for name, text in MODULES.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text)
    monkeypatch.syspath_prepend(tmp_path)
    yield
    for name in [name for name in sys.modules if name.startswith("acme")]:
        del sys.modules[name]


def refusal(name: str, allowed: ClassAllowlist | None) -> str:
    """Return the error about a class."""
    with pytest.raises(ConfigError) as error:
        instantiate(name, KEY, BUILT_IN, allowed)
    assert error.value.key == KEY
    assert str(error.value).startswith(f"{KEY}={name}")
    return str(error.value)


@pytest.mark.parametrize(
    "item", ["acme", "acme.policies", "acme.policies.Mine", "acme_other,acme.policies"]
)
def test_a_listed_class_is_made(item: str) -> None:
    """By its own name, its module's or its package's."""
    made = instantiate("acme.policies.Mine", KEY, BUILT_IN, ClassAllowlist(tuple(item.split(","))))
    assert type(made).__qualname__ == "Mine"


@pytest.mark.parametrize(
    "item", ["", "acme_other", "acme.policies.Min", "acme.policies.Mine.x", "acm", "policies"]
)
def test_a_class_that_is_not_listed_is_not_even_imported(item: str) -> None:
    """The error says what to set."""
    said = refusal("acme.policies.Mine", ClassAllowlist((item,) if item else ()))
    assert "connector.python.allowlist=acme.policies.Mine in the file of every worker" in said
    assert "org.example.BuiltIn" in said
    assert "acme" not in sys.modules


def test_a_java_class_is_distinguished() -> None:
    """Users of MM2 should not search for it on the Python path."""
    said = refusal("com.example.Policy", ClassAllowlist())
    assert "Java classes cannot be loaded" in said
    assert "connector.python.allowlist" in said


@pytest.mark.parametrize("name", ["Popen", "Thread", "make", "sys", "Popen.run"])
def test_what_a_listed_module_imports_is_not_listed(name: str) -> None:
    """Only classes that are defined there count."""
    refusal(f"acme.policies.{name}", ClassAllowlist(("acme.policies",)))


def test_a_package_may_show_what_it_holds_further_in() -> None:
    """A listed class may be defined anywhere."""
    assert instantiate("acme.Inner", KEY, BUILT_IN, ClassAllowlist(("acme",))) is not None
    assert instantiate(
        "acme.policies.Thread", KEY, BUILT_IN, ClassAllowlist(("acme.policies.Thread",))
    )


@pytest.mark.parametrize(
    ("name", "part"),
    [
        (
            "acme_divides.X",
            "ZeroDivisionError: division by zero): correct the import of acme_divides",
        ),
        ("acme_ends.X", "SystemExit: 3): correct the import of acme_ends"),
        ("acme_wrong.X", "SyntaxError"),
        ("acme_other.X", "AttributeError"),
        ("acme_none.X", "No module named 'acme_none'): use the dotted path"),
        ("acme.policies.Wild", "SystemExit: enough"),
        ("acme.policies.Broken", "KeyError: 'x'"),
        ("acme.policies.sys", "TypeError: 'module' object is not callable"),
        ("acme.policies.Mine.", "is not a dotted path"),
        ("acme..Mine", "is not a dotted path"),
        ("Mine", "is not a dotted path"),
    ],
)
def test_whatever_goes_wrong_is_an_error_message(name: str, part: str) -> None:
    """With the key, the class and the reason, also without an allowlist."""
    assert part in refusal(name, None)


@pytest.mark.parametrize(
    "name", ["BuildIn", "org.example.BuiltInn", "org.apache.kafka.BuiltIn", "acme.policies.BuiltIn"]
)
def test_a_misspelt_class_gets_the_nearest_built_in_one(name: str) -> None:
    """Whatever package is named."""
    assert refusal(name, None).endswith(". Did you mean org.example.BuiltIn?")
    assert refusal(name, ClassAllowlist(())).endswith(" Did you mean org.example.BuiltIn?")


def test_a_class_with_another_name_gets_no_suggestion() -> None:
    assert "Did you mean" not in refusal("acme.policies.Missing", None)
