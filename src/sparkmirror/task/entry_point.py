# SPDX-License-Identifier: Apache-2.0
"""The function that Spark runs on executors.

Its input is a split index, its output the receipts as plain rows. The closure contains only the
driver's control endpoint. The split and the settings, which include secrets, come over the control
channel.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from sparkmirror.task.control_client import ControlClient
from sparkmirror.task.control_protocol import ControlEndpoint
from sparkmirror.task.copy_task import CopyTask
from sparkmirror.wire.event_loop import EventLoop

Row = tuple[Any, ...]


def copy_function(invitation: ControlEndpoint) -> Callable[[int], list[Row]]:
    """Return the function for `flatMap` that copies one split."""

    def copy(index: int) -> list[Row]:
        control = ControlClient(invitation, index)
        loop = EventLoop()
        try:
            control.start(loop.wake)
            receipts = CopyTask(control.split, control.settings, control, loop).run()
            control.report_finished()
        finally:
            control.close()
            loop.close()
        return [tuple(receipt) for receipt in receipts]

    return copy
