# SPDX-License-Identifier: Apache-2.0
"""The table of policies: what a flow does when something goes wrong that it cannot mend.

Each default loses nothing that can still be had, and goes on where waiting would gain nothing.
Whatever is chosen, the incident is logged, counted and shown, and recorded in the ledger if
source and target are not the same afterwards.
"""

from __future__ import annotations

from sparkmirror.config.key import Importance, Key
from sparkmirror.config.value_types import Type, at_least, one_of


def _policy(name: str, values: tuple[str, ...], doc: str) -> Key:
    """A choice; the first value is the default."""
    return Key(name=name, type=Type.STRING, default=values[0], doc=doc, checks=(one_of(*values),))


POLICY_KEYS = (
    _policy(
        "gap.policy",
        ("continue", "stop"),
        "The source deleted records before they were copied: continue at the earliest one left "
        "(nobody can bring the others back), or stop the partition.",
    ),
    _policy(
        "source.recreated.policy",
        ("stop", "restart"),
        "A source topic was deleted and created again, so that its offsets mean other records: "
        "stop the topic (its copy may hold all that is left of the old one), or restart at the "
        "new topic's beginning, behind the old records.",
    ),
    _policy(
        "source.truncated.policy",
        ("continue", "stop"),
        "The source lost records that were copied already (unclean leader election): continue "
        "where its log now differs (the target keeps the lost ones), or stop the partition.",
    ),
    _policy(
        "target.recreated.policy",
        ("continue", "restart", "stop"),
        "A remote topic was deleted and created again: continue with the next record (whoever "
        "deleted the copies meant it), restart at the source's beginning, or stop the topic.",
    ),
    _policy(
        "target.truncated.policy",
        ("recopy", "stop"),
        "The target lost records that it had acknowledged: recopy them, or stop the partition.",
    ),
    _policy(
        "corrupt.batch.policy",
        ("stop", "skip"),
        "A record batch on the source does not match its checksum, however often it is read: stop "
        "the partition and look again now and then (another replica may be whole), or skip it.",
    ),
    _policy(
        "refused.record.policy",
        ("dead-letter", "skip", "stop"),
        "The target refuses a record for what it is (too large, a timestamp out of range): write "
        "it to the dead-letter topic on the target, skip it, or stop the partition.",
    ),
    Key(
        name="open.transaction.warning.ms",
        type=Type.LONG,
        default="120000",
        doc="How long a transaction on the source may hold back everything behind it before its "
        "producer is named; twice the time that Kafka's producers give a transaction.",
        checks=(at_least(1),),
        importance=Importance.LOW,
    ),
)
