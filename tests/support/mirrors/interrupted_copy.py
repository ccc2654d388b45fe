# SPDX-License-Identifier: Apache-2.0
"""A mirror that died between copying and storing, as most take-over tests need it.

A first task copied records 0 to 29 and stored its position; a second one copied 30 to 49, in two
record batches, and died before it stored anything.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from sparkmirror.formats.source_offsets import StoredPosition
from sparkmirror.state.incidents import IncidentKind
from support.mirrors.scripted_mirror import Crash, ScriptedMirror, TaskRun, mirror
from support.peers.scripted_log import ScriptedLog, bodies

STORED, COPIED = 30, 50


@contextmanager
def interrupted(
    before_last: Callable[[ScriptedMirror], None] = lambda _flow: None,
) -> Iterator[ScriptedMirror]:
    """The mirror after its second task died; `before_last` is called between the two tasks."""
    with mirror() as made:
        made.small_batches()
        fill(made.source_log, "r", 0, 3)
        made.run()
        before_last(made)
        fill(made.source_log, "r", 30, 2)
        life = made.run(Crash(produces=2, is_answered=True))
        assert life.was_killed
        assert stored(made).offset == STORED - 1
        assert made.target_log.end == COPIED
        yield made


def fill(log: ScriptedLog, prefix: str, first: int, batches: int) -> None:
    """Append record batches of ten."""
    for at in range(first, first + 10 * batches, 10):
        log.append(bodies(prefix, at, 10))


def stored(flow: ScriptedMirror) -> StoredPosition:
    """The position in the offsets topic."""
    found = flow.stored()
    assert found is not None
    return found


def kinds(life: TaskRun) -> list[str]:
    """The kinds of incidents of a life."""
    return [str(one.kind) for one in life.incidents]


def ledger_offsets(flow: ScriptedMirror, kind: IncidentKind) -> list[int]:
    """The source offsets that ledger entries of a kind name, each as often as it is named."""
    return sorted(
        at
        for one in flow.ledger()
        if one.kind == kind
        for at in range(one.first_offset, one.last_offset + 1)
    )


def resume(flow: ScriptedMirror, **more: Any) -> TaskRun:
    """Run the successor to its end."""
    life = flow.run(**more)
    assert not life.is_stuck, life.troubles
    return life


def resume_with_more(flow: ScriptedMirror) -> TaskRun:
    """Run the successor to its end, with ten more records to copy."""
    fill(flow.source_log, "new", 0, 1)
    return resume(flow)
