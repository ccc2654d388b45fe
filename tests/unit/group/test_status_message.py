# SPDX-License-Identifier: Apache-2.0
"""What is wrong with a worker's place: there to be asked at any time, logged when it is news."""

from __future__ import annotations

import logging

import pytest

from sparkmirror.group.status_message import StatusMessage


def test_only_the_first_of_equal_troubles_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    """Another trouble is news again, and so is the end; the newest details can be asked for."""
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
