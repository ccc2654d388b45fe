# SPDX-License-Identifier: Apache-2.0
"""Java regexes behave as Java's own engine did when the golden file was written."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from sparkmirror.policy.java_regex import compile_java

GOLDEN = json.loads((Path(__file__).parent / "golden" / "java_regex.json").read_text("utf-8"))
# Java takes these; here they are refused with a sentence rather than matched differently.
REFUSED = {r"\p{L}+", r"\p{IsAlphabetic}+", "(?x) a b", "(?u)a", "[&&a]", "[a&&]"}


@pytest.mark.parametrize("pattern", GOLDEN["accepted"])
def test_a_pattern_accepts_what_java_accepts(pattern: str) -> None:
    """The same names match, the same patterns are refused."""
    expected = None if pattern in REFUSED else GOLDEN["accepted"][pattern]
    try:
        compiled = compile_java(pattern)
    except ValueError:
        actual = None
    else:
        actual = [name for name in GOLDEN["names"] if compiled.fullmatch(name)]
    assert expected == actual


@pytest.mark.parametrize(
    ("pattern", "part"),
    [
        ("a{", "count"),
        ("(a", "not closed"),
        ("a)", "unmatched"),
        ("[a", "incomplete"),
        (r"\p{Greek}", "Greek"),
        ("(?x)a", "'x'"),
        (r"\y", r"\y"),
        (r"\k", "name"),
        ("(?<1>a)", "name"),
        (r"\x{}", "hex"),
    ],
)
def test_what_cannot_be_translated_is_named(pattern: str, part: str) -> None:
    """The reason points at the piece of the pattern that is to blame."""
    with pytest.raises(ValueError, match=r"\w") as error:
        compile_java(pattern)
    assert part in str(error.value)
