# SPDX-License-Identifier: Apache-2.0
"""What must hold after the lives of a scripted mirror, found by brute force.

Records are told apart by their values, which a test makes unique.
"""

from __future__ import annotations

from sparkmirror.state.incidents import Kind
from support.scripted_lives import Mirror


def faults(mirror: Mirror) -> list[str]:
    """Everything that is wrong now that the last life is over; empty: all is right."""
    return [*copy_faults(mirror), *translation_faults(mirror), *ledger_faults(mirror)]


def copy_faults(mirror: Mirror) -> list[str]:
    """Each record that the source holds is on the target once, in order."""
    wanted = mirror.source_log.bodies
    known = set(wanted)
    found = [body for body in mirror.target_log.bodies if body in known]
    if found == wanted:
        return []
    lost = [body for body in wanted if body not in set(found)]
    twice = sorted({body or b"" for body in found if found.count(body) > 1})
    if not lost and not twice:
        return [f"the order is lost: {found}"]
    return [f"lost {_some(lost)}"] * bool(lost) + [f"twice {_some(twice)}"] * bool(twice)


def translation_faults(mirror: Mirror) -> list[str]:
    """No translated offset lies behind the true record."""
    places: dict[bytes | None, int] = {}
    for one in mirror.target_log.records:
        places.setdefault(one.value, one.offset)
    found = []
    end = mirror.target_log.end
    truth = {one.offset: places.get(one.value, end) for one in mirror.source_log.records}
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


def ledger_faults(mirror: Mirror) -> list[str]:
    """What the ledger says is true, and what must be in it is there."""
    source, target = mirror.source_log, mirror.target_log
    on_source, on_target = set(source.bodies), set(target.bodies)
    latest = {one.record.offset: one.record.value for one in source.removed}
    latest |= {one.offset: one.value for one in source.records}
    cut = {one.record.offset: one.record.value for one in source.removed if one.how == "cut"}
    gone_from_target = {one.record.value for one in target.removed}
    found = []
    entries = mirror.ledger()
    for entry in entries:
        offsets = range(entry.first_offset, entry.last_offset + 1)
        if entry.kind == Kind.GAP:
            there = [at for at in offsets if latest.get(at) in on_source | on_target]
            if there:
                found.append(f"the gap {_range(entry)} names offsets that are there: {there[:5]}")
        elif entry.kind == Kind.SOURCE_TRUNCATED:
            there = [
                at for at in offsets if at not in cut or cut[at] not in on_target | gone_from_target
            ]
            if there:
                found.append(
                    f"source-truncated {_range(entry)} names offsets that are not on the target "
                    f"only: {there[:5]}"
                )
    told = {
        (entry.kind, at)
        for entry in entries
        for at in range(entry.first_offset, entry.last_offset + 1)
    }
    missing = [
        one.record.offset
        for one in source.removed
        if one.how == "deleted"
        and one.record.value not in on_target | gone_from_target
        and (Kind.GAP, one.record.offset) not in told
        and one.record.offset >= mirror.first_offset
    ]
    if missing:
        found.append(f"lost by retention and in no gap entry: offsets {missing[:5]}")
    untold = [
        one.record.offset
        for one in source.removed
        if one.how == "cut"
        and one.record.value in on_target
        and (Kind.SOURCE_TRUNCATED, one.record.offset) not in told
    ]
    if untold:
        found.append(f"cut from the source, on the target, and in no entry: offsets {untold[:5]}")
    return found


def _range(entry: object) -> str:
    return f"{getattr(entry, 'first_offset', -1)} to {getattr(entry, 'last_offset', -1)}"


def _some(bodies: list[bytes | None] | list[bytes]) -> str:
    names = [(body or b"").decode() for body in bodies]
    return f"{len(names)}: {', '.join(names[:5])}"
