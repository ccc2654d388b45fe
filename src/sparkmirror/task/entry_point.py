# SPDX-License-Identifier: Apache-2.0
"""What Spark ships: a function that knows only where the driver is.

Its input is a split's number, its output the receipts as plain rows. The split, the settings and
with them anything secret come over the control channel, never in the closure.
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
    """The function for `flatMap`: copies a split to its end."""

    def copy(index: int) -> list[Row]:
        control = ControlClient(invitation, index)
        loop = EventLoop()
        try:
            control.start(loop.wake)
            receipts = CopyTask(control.split, control.settings, control, loop).run()
        finally:
            control.close()
            loop.close()
        return [tuple(receipt) for receipt in receipts]

    return copy
