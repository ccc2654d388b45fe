# SPDX-License-Identifier: Apache-2.0
"""The problem of a worker's membership: always readable, logged when it changes."""

from __future__ import annotations

import logging

import pytest

from sparkmirror.group.status_message import StatusMessage


def test_only_the_first_of_equal_problems_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    """Another problem is logged again, and so is the recovery; details are always current."""
    caplog.set_level(logging.INFO, logger="sparkmirror.group.status_message")
    trouble = StatusMessage("g/member")
    trouble.clear()
    assert (trouble.text, caplog.messages) == (None, [])
    trouble.set("cannot join", "no answer after 1 s.")
    trouble.set("cannot join", "no answer after 2 s.")
    assert trouble.text == "This worker cannot join: no answer after 2 s."
    trouble.set("stands by")
    assert trouble.text == "This worker stands by."
    trouble.clear()
    trouble.clear()
    assert trouble.text is None
    assert caplog.messages == [
        "g/member: This worker cannot join: no answer after 1 s.",
        "g/member: This worker stands by.",
        "g/member: joined the group.",
    ]
