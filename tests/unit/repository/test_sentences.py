# SPDX-License-Identifier: Apache-2.0
"""Remarks that stand in one place read like one text."""

from __future__ import annotations

import pytest

from sparkmirror.errors import join_sentences


@pytest.mark.parametrize(
    ("remarks", "expected"),
    [
        ([], ""),
        (["", "a"], "a"),
        (["a", "", "b"], "a; b"),
        (["It failed.", "Check the key."], "It failed. Check the key."),
        (["It failed.", "groups: none", "Why?", "a"], "It failed. groups: none; Why? a"),
    ],
)
def test_only_what_is_no_sentence_gets_a_semicolon(remarks: list[str], expected: str) -> None:
    """Never a full stop and a semicolon."""
    assert expected == join_sentences(remarks)
