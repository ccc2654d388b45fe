# SPDX-License-Identifier: Apache-2.0
"""What is wrong with a worker's place: always there to be asked, in the log when it is news."""

from __future__ import annotations

import logging

import pytest

from sparkmirror.connect.trouble import Trouble


def test_only_the_first_of_equal_troubles_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    """Another trouble is news again, and so is the end; the newest details can be asked for."""
    caplog.set_level(logging.INFO, logger="sparkmirror.connect.trouble")
    trouble = Trouble("g/member")
    trouble.ends()
    assert (trouble.sentence, caplog.messages) == (None, [])
    trouble.begins("cannot join", "no answer after 1 s.")
    trouble.begins("cannot join", "no answer after 2 s.")
    assert trouble.sentence == "This worker cannot join: no answer after 2 s."
    trouble.begins("stands by")
    assert trouble.sentence == "This worker stands by."
    trouble.ends()
    trouble.ends()
    assert trouble.sentence is None
    assert caplog.messages == [
        "g/member: This worker cannot join: no answer after 1 s.",
        "g/member: This worker stands by.",
        "g/member: this worker has its place in the group.",
    ]
