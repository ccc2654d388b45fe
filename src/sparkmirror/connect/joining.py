# SPDX-License-Identifier: Apache-2.0
"""One try to become a member of the next generation: join, decide if leader, take the assignment.

A try has a thread and a line of its own, for it may wait for a minute, and whoever began it must be
able to turn to something else. It is given values and reports what came of it; it may be abandoned
at any time, and then reports nothing more.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol, TypeAlias

from sparkmirror.config.worker_settings import GroupSettings
from sparkmirror.connect.assignor import (
    Circumstances,
    Configured,
    Decision,
    Memory,
    Placement,
    decide,
    undecided,
)
from sparkmirror.connect.session import Clock
from sparkmirror.errors import ClusterError, SparkmirrorError
from sparkmirror.formats.connect_protocol import (
    NO_ERROR,
    PROTOCOL_TYPE,
    Assignment,
    Metadata,
    Version,
)
from sparkmirror.kafka.group_line import GroupLine, Joined, Joining

log = logging.getLogger(__name__)

_PAUSE_SECONDS = 0.1
_OFFERS = {
    "sessioned": (Version.SESSIONED, Version.COMPATIBLE, Version.EAGER),
    "compatible": (Version.COMPATIBLE, Version.EAGER),
    "eager": (Version.EAGER,),
}


class Configs(Protocol):
    """What this worker knows of the config topic; may be asked by any thread."""

    def known(self) -> Configured:
        """What was read so far, at once."""
        ...

    def fresh(self) -> Configured:
        """What there is now, after reading to the end; raises a ClusterError if that fails."""
        ...


@dataclass(frozen=True, slots=True)
class Named:
    """The coordinator has given a name."""

    member_id: str


@dataclass(frozen=True, slots=True)
class Answered:
    """All members are there; from now on heartbeats are about this generation."""

    joined: Joined


@dataclass(frozen=True, slots=True)
class Placed:
    """A place in a generation, with the assignment, and what the leader is to remember."""

    joined: Joined
    version: Version
    assignment: Assignment
    asked_at: float
    known_offset: int
    memory: Memory | None
    config_error: ClusterError | None  # why the newest configs could not be read

    @property
    def may_begin(self) -> bool:
        """Whether this worker knows exactly the configs that the assignment is about."""
        return (
            self.assignment.error == NO_ERROR and self.known_offset == self.assignment.config_offset
        )


@dataclass(frozen=True, slots=True)
class Failed:
    """Nothing came of it."""

    error: Exception


News: TypeAlias = Named | Answered | Placed | Failed


@dataclass(frozen=True, slots=True)
class Candidate:
    """Who wants to join, and what it brings along."""

    member_id: str  # "" for somebody new
    url: str
    current: Assignment | None
    memory: Memory


class Try:
    """One try, in a thread of its own."""

    def __init__(
        self,
        candidate: Candidate,
        settings: GroupSettings,
        configs: Configs,
        line: GroupLine,
        report: Callable[[Try, News], None],
        *,
        placement: Placement,
        clock: Clock,
    ) -> None:
        self._candidate = candidate
        self._settings = settings
        self._configs = configs
        self._line = line
        self._report_to = report
        self._placement = placement
        self._clock = clock
        self._abandoned = False
        self._thread = threading.Thread(
            target=self._run, name=f"{settings.group_id}/join", daemon=True
        )

    def start(self) -> None:
        """Begin."""
        self._thread.start()

    def abandon(self) -> None:
        """Nobody wants to know any more; does not wait."""
        self._abandoned = True
        self._line.close()

    def _run(self) -> None:
        try:
            self._join()
        except SparkmirrorError as error:
            self._report(Failed(error))
        except Exception as error:
            # The root of the thread. A line that is closed under a question raises anything.
            if not self._abandoned:
                log.exception(f"{self._thread.name}: joining failed.")
            self._report(Failed(error))
        finally:
            self._line.close()

    def _join(self) -> None:
        known = self._configs.known()
        metadata = Metadata(self._candidate.url, known.offset, self._candidate.current)
        settings = self._settings
        how = Joining(
            PROTOCOL_TYPE,
            {version.protocol: metadata.encode(version) for version in _OFFERS[settings.protocol]},
            settings.session_timeout_ms,
            settings.rebalance_timeout_ms,
        )
        joined = self._line.join(
            self._candidate.member_id, how, lambda name: self._report(Named(name))
        )
        self._report(Answered(joined))
        version = Version.of(joined.protocol)
        memory, assignments = None, {}
        if joined.is_leader:
            members = {name: Metadata.decode(data) for name, data in joined.members.items()}
            known, decision = self._decide(joined, version, members, known)
            memory = decision.memory
            assignments = encoded(decision, joined.leader, self._candidate.url, version)
        asked_at = self._clock()
        assignment = Assignment.decode(self._line.sync(joined, how, assignments))
        offset, error = self._catch_up(known.offset, assignment)
        self._report(Placed(joined, version, assignment, asked_at, offset, memory, error))

    def _decide(
        self, joined: Joined, version: Version, members: dict[str, Metadata], known: Configured
    ) -> tuple[Configured, Decision]:
        if known.offset < max(member.config_offset for member in members.values()):
            try:
                known = self._configs.fresh()
            except ClusterError as error:
                # The others are told that their leader knows too little, and so is this worker.
                log.warning(f"{self._thread.name}: the leader cannot read the configs: {error}")
        circumstances = Circumstances(
            joined.generation,
            self._clock(),
            self._settings.rebalance_delay_ms / 1000,
            self._placement,
        )
        if version is not Version.EAGER:
            return known, decide(members, known, self._candidate.memory, circumstances)
        current = self._candidate.current
        if current is not None and current.version != Version.EAGER:
            # The group has just become eager, and nobody says what it still runs: one round without
            # an assignment, in which all of it ends.
            return known, undecided(members, known.offset, circumstances.generation)
        # Eager members have stopped everything, and cannot be told to wait.
        return known, decide(members, known, Memory(), circumstances)

    def _catch_up(self, offset: int, assignment: Assignment) -> tuple[int, ClusterError | None]:
        """Read the configs that the assignment is about, if they are not known yet."""
        deadline = self._clock() + self._settings.sync_timeout_ms / 1000
        error: ClusterError | None = None
        while offset < assignment.config_offset and not self._abandoned:
            try:
                offset = self._configs.fresh().offset
                error = None
            except ClusterError as reason:
                error = reason
            if offset >= assignment.config_offset or self._clock() > deadline:
                break
            time.sleep(_PAUSE_SECONDS)
        return offset, error

    def _report(self, news: News) -> None:
        if not self._abandoned:
            self._report_to(self, news)


def encoded(decision: Decision, leader: str, url: str, version: Version) -> dict[str, bytes]:
    """What the leader hands to the coordinator, by member."""
    return {
        member: Assignment(
            leader=leader,
            leader_url=url,
            config_offset=decision.config_offset,
            work=share.work,
            revoked=share.revoked,
            delay_ms=decision.delay_ms,
            error=decision.error,
            version=version,
        ).encode()
        for member, share in decision.shares.items()
    }
