# SPDX-License-Identifier: Apache-2.0
"""A task's own hand in the dead-letter topic, one record batch at a time.

A letter that the topic refuses is written again with less in it, until it fits. Nothing is given
up: whoever sends a letter is told when it is on the target, and not before.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from sparkmirror.pipeline.dead_letters import Form, Refusal, RefusedRecord, dead_letter
from sparkmirror.pipeline.side_topic import SideTopic
from sparkmirror.wire.new_batch import new_batch


@dataclass(frozen=True, slots=True)
class _Letter:
    records: tuple[RefusedRecord, ...]
    refusal: Refusal
    then: Callable[[], None] | None
    form: Form = Form.WHOLE


class DeadLetterWriter:
    """Writes to the dead-letter topic of one flow."""

    def __init__(self, topic: SideTopic) -> None:
        self.topic = topic
        self._letters: deque[_Letter] = deque()
        self._ticket = 0  # of the first letter, once it has been handed to the producer

    @property
    def is_idle(self) -> bool:
        """Every letter is on the target."""
        return not self._letters

    def send(
        self, records: Sequence[RefusedRecord], refusal: Refusal, then: Callable[[], None]
    ) -> None:
        """Queue records; `then` is called when they are on the target."""
        self._letters.append(_Letter(tuple(records), refusal, then))
        self.look()

    def look(self) -> None:
        """Write the next letter if the one before it has arrived."""
        while self._letters:
            if not self._ticket:
                self._write(self._letters[0])
            if not self.topic.has(self._ticket):
                return
            self._ticket = 0
            done = self._letters.popleft()
            if done.then is not None:
                done.then()

    def _write(self, letter: _Letter) -> None:
        records = [dead_letter(one, letter.refusal, letter.form) for one in letter.records]
        self._ticket = self.topic.write(new_batch(records, int(time.time() * 1000)), len(records))

    def refused(self) -> bool:
        """The topic does not take the first letter: whether there is another form to try."""
        letter = self._letters[0]
        if len(letter.records) > 1:
            *others, last = letter.records
            smaller = [replace(letter, records=(one,), then=None) for one in others]
            smaller.append(replace(letter, records=(last,)))
        elif letter.form < Form.BARE:
            smaller = [replace(letter, form=Form(letter.form + 1))]
        else:
            return False
        self._letters.popleft()
        self._letters.extendleft(reversed(smaller))
        self.topic.withdrawn(len(letter.records))
        self._ticket = 0
        return True
