# SPDX-License-Identifier: Apache-2.0
"""Remarks about the lines of a file: repeated keys, unknown clusters, keys that do nothing."""

from __future__ import annotations

from collections.abc import Collection, Iterator

from sparkmirror.config.keys import DRIVER, nearest
from sparkmirror.config.keys_worker import GLOBAL_WORKER_PREFIXES
from sparkmirror.config.notices import Level, Notice, notice
from sparkmirror.config.placement import Remark, cluster_key, flow_key, global_key
from sparkmirror.config.properties import Entry, PropertyFile
from sparkmirror.config.providers import undeclared_provider
from sparkmirror.config.settings import FlowSettings
from sparkmirror.config.value_types import Rejected, topic_characters
from sparkmirror.model import Flow

_ARROW = "->"


def alias_notices(aliases: Collection[str], entry: Entry) -> list[Notice]:
    """What is wrong with the aliases that `clusters` names."""
    found = []
    for alias in aliases:
        try:
            topic_characters(alias)
        except Rejected as error:
            message = f"clusters: an alias {error}."
            found.append(notice(Level.ERROR, "clusters", entry.line, message))
    return found


def file_notices(file: PropertyFile, aliases: Collection[str]) -> Iterator[Notice]:
    """Everything worth saying about single lines."""
    for entry in file.repeated:
        winner = file.entries[entry.key]
        message = f"{entry.key} is repeated; only the last one, line {winner.line}, counts."
        yield notice(Level.WARNING, entry.key, entry.line, message)
    for entry in file.entries.values():
        if entry.key.startswith("spark.") or (_ARROW not in entry.key and not aliases):
            continue  # without clusters nothing can be said about prefixes
        yield from _driver_value(entry)
        for remark in _remarks(file, entry, aliases):
            yield notice(remark.level, entry.key, entry.line, remark.text)


def idle_notices(
    file: PropertyFile, aliases: Collection[str], enabled: Collection[Flow]
) -> Iterator[Notice]:
    """Lines that tune the reading of a cluster from which nothing is copied."""
    sources = {flow.source for flow in enabled}
    for entry in file.entries.values():
        alias, _, rest = entry.key.partition(".consumer.")
        if enabled and rest and alias in aliases and alias not in sources:
            message = f"{entry.key} does nothing: no enabled flow reads from {alias}."
            yield notice(Level.INFO, entry.key, entry.line, message)


def shared_id_notices(enabled: Collection[FlowSettings]) -> Iterator[Notice]:
    """Exactly-once flows that would fence each other because their tasks have the same ids."""
    holders: dict[tuple[str, str], Flow] = {}
    for settings in enabled:
        if not settings.transactions.is_enabled:
            continue
        flow = settings.flow
        other = holders.setdefault((flow.target, settings.transactions.id_prefix), flow)
        if other != flow:
            key = f"{flow.target}.group.id"
            message = (
                f"{key} is the same for {other} and {flow}: their transactional ids would be the "
                "same, and each would fence the other. Remove the line."
            )
            yield notice(Level.ERROR, key, 0, message)


def _remarks(file: PropertyFile, entry: Entry, aliases: Collection[str]) -> Iterator[Remark]:
    key = entry.key
    if _ARROW in key:
        yield from _flow_line(file, entry, aliases)
        return
    if entry.text.startswith(_ARROW):
        yield Remark(
            Level.ERROR,
            f"{key} {entry.text.partition('=')[0]}: a blank ends a key; write "
            f"{key}{_ARROW}B.<key> without blanks.",
        )
        return
    if key.startswith("config.providers."):
        sentence = undeclared_provider(file, key)
        if sentence:
            yield Remark(Level.WARNING, sentence)
        return
    alias = max((a for a in aliases if key.startswith(f"{a}.")), key=len, default=None)
    remark = global_key(key, aliases)
    if alias is not None and remark is not None:
        rest = key.removeprefix(f"{alias}.")
        remark = cluster_key(alias, rest)
        if rest.startswith(GLOBAL_WORKER_PREFIXES) and rest in file.entries and remark is None:
            winner = file.entries[rest]
            remark = Remark(
                Level.WARNING,
                f"{key} loses against {rest} on line {winner.line}: for these keys the whole "
                "file's line wins.",
            )
    if remark is not None:
        yield remark


def _flow_line(file: PropertyFile, entry: Entry, aliases: Collection[str]) -> Iterator[Remark]:
    key = entry.key
    for source in aliases:
        for target in aliases:
            flow = Flow(source, target)
            if not key.startswith(f"{flow}."):
                continue
            rest = key.removeprefix(f"{flow}.")
            if source == target:
                yield _to_itself(flow, key, rest, entry.text)
                return
            remark = flow_key(flow, rest) or _beaten(file, flow, rest) or _loose(key, rest, entry)
            if remark is not None:
                yield remark
            return
    yield Remark(Level.ERROR, f"{key}: {_unknown_alias(key, aliases)}")


def _to_itself(flow: Flow, key: str, rest: str, text: str) -> Remark:
    if rest == "enabled" and text.strip().lower() == "true":
        return Remark(
            Level.ERROR,
            f"{key}=true: a flow cannot lead from {flow.source} to itself; name another target or "
            "remove the line.",
        )
    return Remark(Level.WARNING, f"{key} does nothing: no flow leads from a cluster to itself.")


def _beaten(file: PropertyFile, flow: Flow, rest: str) -> Remark | None:
    """`A->B.consumer.x` against `A.consumer.x`: MM2 lets the cluster's line win."""
    for role, side, alias in (
        ("consumer", "source", flow.source),
        ("admin", "source", flow.source),
        ("admin", "target", flow.target),
    ):
        winner = file.entries.get(f"{alias}.{rest}")
        if rest.startswith(f"{role}.") and winner is not None:
            return Remark(
                Level.WARNING,
                f"{flow}.{rest} loses against {winner.key} on line {winner.line}; write "
                f"{flow}.{side}.{rest} to win.",
            )
    return None


def _loose(key: str, rest: str, entry: Entry) -> Remark | None:
    """MM2 compares the text of `enabled` with `true` before anything is trimmed."""
    text = entry.text.lower()
    if rest == "enabled" and text != "true" and text.strip() == "true":
        return Remark(Level.WARNING, f"{key}: there is a blank behind true; remove it.")
    return None


def _unknown_alias(key: str, aliases: Collection[str]) -> str:
    source, _, rest = key.partition(_ARROW)
    target = rest.partition(".")[0]
    unknown = [name for name in dict.fromkeys((source, target)) if name not in aliases]
    if not unknown:
        return (
            f"there is no key behind the flow; write for example {source}{_ARROW}{target}.topics."
        )
    names = " and ".join(repr(name) for name in unknown)
    meant = nearest(unknown[0], aliases)
    if meant:
        hint = f"did you mean {meant!r}?"
    else:
        hint = f"it names {', '.join(aliases) or 'nothing'}. Add it there or remove the line."
    return f"clusters does not name {names}; {hint}"


def _driver_value(entry: Entry) -> Iterator[Notice]:
    declared = DRIVER.get(entry.key)
    if declared is None or entry.key == "clusters" or "${" in entry.text:
        return
    try:
        declared.parse(entry.text)
    except Rejected as error:
        yield notice(Level.ERROR, entry.key, entry.line, f"{entry.key} {error}.")
