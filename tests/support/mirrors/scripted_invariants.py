# SPDX-License-Identifier: Apache-2.0
"""Invariants after the tasks of a scripted mirror, checked by brute force.

Records are identified by their values, which must be unique.
"""

from __future__ import annotations

from sparkmirror.state.incidents import IncidentKind
from sparkmirror.state.ledger import LedgerEntry
from support.mirrors.scripted_mirror import ScriptedMirror


def violations(mirror: ScriptedMirror) -> list[str]:
    """Return all violations after the last task; empty if there are none."""
    return [*copy_violations(mirror), *translation_violations(mirror), *ledger_violations(mirror)]


def copy_violations(mirror: ScriptedMirror) -> list[str]:
    """Each source record must be on the target once, in order, unless deleted there."""
    deleted = _deleted(mirror)
    wanted = [body for body in mirror.source_log.bodies if body not in deleted]
    known = set(wanted)
    found = [body for body in mirror.target_log.bodies if body in known]
    if found == wanted:
        return []
    lost = [body for body in wanted if body not in set(found)]
    twice = sorted({body or b"" for body in found if found.count(body) > 1})
    if not lost and not twice:
        return [f"the order is lost: {found}"]
    return [f"lost {_some(lost)}"] * bool(lost) + [f"twice {_some(twice)}"] * bool(twice)


def _deleted(mirror: ScriptedMirror) -> set[bytes | None]:
    """The values of records that retention on the target removed."""
    return {one.record.value for one in mirror.target_log.removed if one.how == "deleted"}


def translation_violations(mirror: ScriptedMirror) -> list[str]:
    """No translated offset lies behind the true record, the last copy of it."""
    places = {one.value: one.offset for one in mirror.target_log.records}
    deleted = _deleted(mirror)
    end = mirror.target_log.end
    truth = {
        one.offset: places.get(one.value, end)
        for one in mirror.source_log.records
        if one.value in places or one.value not in deleted
    }
    found = []
    following = end
    for offset in range(mirror.source_log.end, mirror.source_log.start - 1, -1):
        following = truth.get(offset, following)
        translation = mirror.translate(offset)
        if translation is not None and translation.offset > following:
            found.append(
                f"source offset {offset} is translated to {translation.offset} "
                f"({translation.fit.value}), behind the true {following}"
            )
    return found[:3]


def ledger_violations(mirror: ScriptedMirror) -> list[str]:
    """Check that ledger entries are true and complete."""
    return [*_false_gaps(mirror), *_false_cuts(mirror), *_missing_entries(mirror)]


def _false_gaps(mirror: ScriptedMirror) -> list[str]:
    """A gap names only records that are on neither side."""
    source, target = mirror.source_log, mirror.target_log
    there = {*source.bodies, *target.bodies}
    latest = {one.record.offset: one.record.value for one in source.removed}
    latest |= {one.offset: one.value for one in source.records}
    found = []
    for entry in _entries(mirror, IncidentKind.GAP):
        wrong = [at for at in _offsets(entry) if latest.get(at) in there]
        if wrong:
            found.append(f"the gap {_range(entry)} names offsets that are there: {wrong[:5]}")
    return found


def _false_cuts(mirror: ScriptedMirror) -> list[str]:
    """A source-truncated entry names only records that are on the target and not on the source."""
    source, target = mirror.source_log, mirror.target_log
    copied = {*target.bodies, *(one.record.value for one in target.removed)}
    right = {
        one.record.offset
        for one in source.removed
        if one.how == "compacted" or (one.how == "cut" and one.record.value in copied)
    }
    found = []
    for entry in _entries(mirror, IncidentKind.SOURCE_TRUNCATED):
        wrong = [at for at in _offsets(entry) if at not in right]
        if wrong:
            found.append(
                f"source-truncated {_range(entry)} names offsets that are not on the target only: "
                f"{wrong[:5]}"
            )
    return found


def _missing_entries(mirror: ScriptedMirror) -> list[str]:
    """Find missing records without a ledger entry or an earlier mismatch entry.

    If retention or the cleaner removed what was written after a truncation, this is undecidable.
    """
    source, target = mirror.source_log, mirror.target_log
    on_target = {*target.bodies}
    copied = on_target | {one.record.value for one in target.removed}
    gaps = {at for entry in _entries(mirror, IncidentKind.GAP) for at in _offsets(entry)}
    cuts = {
        at for entry in _entries(mirror, IncidentKind.SOURCE_TRUNCATED) for at in _offsets(entry)
    }
    mismatches = [entry.first_offset for entry in _entries(mirror, IncidentKind.RESUME_MISMATCH)]
    first_mismatch = min(mismatches, default=source.end + len(source.removed))
    cleaned = {one.record.offset for one in source.removed if one.how == "compacted"}
    reused = {one.record.offset for one in source.removed if one.how == "cut"}
    lost = [
        one.record.offset
        for one in source.removed
        if one.how == "deleted"
        and one.record.offset >= mirror.first_offset
        and one.record.value not in copied
        and one.record.offset not in gaps | reused
    ]
    kept = [
        one.record.offset
        for one in source.removed
        if one.how == "cut"
        and one.record.value in on_target
        and one.record.offset not in cuts | cleaned
        and source.start <= one.record.offset < first_mismatch
    ]
    found = []
    if lost:
        found.append(f"lost by retention and in no gap entry: offsets {lost[:5]}")
    if kept:
        found.append(f"cut from the source, on the target, and in no entry: offsets {kept[:5]}")
    return found


def _entries(mirror: ScriptedMirror, kind: IncidentKind) -> list[LedgerEntry]:
    """All that were ever written; a newer one with the same first offset replaces an older one."""
    return [entry for entry in mirror.ledger(is_whole=True) if entry.kind == kind]


def _offsets(entry: LedgerEntry) -> range:
    return range(entry.first_offset, entry.last_offset + 1)


def _range(entry: LedgerEntry) -> str:
    return f"{entry.first_offset} to {entry.last_offset}"


def _some(bodies: list[bytes | None] | list[bytes]) -> str:
    names = [(body or b"").decode() for body in bodies]
    return f"{len(names)}: {', '.join(names[:5])}"
