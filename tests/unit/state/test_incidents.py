# SPDX-License-Identifier: Apache-2.0
"""Incidents: text, ledger decision, one table of kinds."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import pytest

from sparkmirror.config.keys.table import CONNECTOR
from sparkmirror.metrics.table import METRICS
from sparkmirror.state.incidents import INCIDENT_RULES, Incident, IncidentKind

GAP = Incident(
    IncidentKind.GAP,
    "orders",
    3,
    10,
    19,
    10,
    "offsets below 20 are gone",
    1_700_000_000_123,
    "continue",
)


def test_an_incident_reads_as_a_sentence() -> None:
    """What, where, which offsets, how many, why, and which policy was applied."""
    assert str(GAP) == (
        "gap: orders-3: offsets 10 to 19 (10 records): the source deleted records before they "
        "were copied: offsets below 20 are gone [gap.policy=continue]"
    )


def test_what_is_not_known_is_not_said() -> None:
    """One offset, no offset, an unknown number of records, no policy."""
    one = replace(GAP, last_offset=10, records=1)
    assert str(one).startswith("gap: orders-3: offset 10 (1 record): ")
    bare = replace(
        GAP, kind=IncidentKind.NO_READ, first_offset=-1, last_offset=-1, records=-1, policy=""
    )
    assert str(bare).startswith("no-read: orders-3: the target cannot be read")
    assert "[" not in str(bare)


def test_every_kind_has_its_rule_and_every_rule_a_real_key() -> None:
    """The table is complete and names only keys that exist."""
    assert set(INCIDENT_RULES) == set(IncidentKind)
    named = {rule.policy_key for rule in INCIDENT_RULES.values()} - {""}
    assert named <= CONNECTOR.keys()


def test_the_page_about_incidents_is_complete() -> None:
    """Every kind with its key and its default; its metrics exist."""
    page = (Path(__file__).parents[3] / "docs" / "incidents.md").read_text("utf-8")
    for kind, rule in INCIDENT_RULES.items():
        assert f"| `{kind}` |" in page
        if rule.policy_key:
            assert f"`{rule.policy_key}` = `{CONNECTOR[rule.policy_key].default}`" in page
    assert set(re.findall(r"`(sparkmirror_\w+)`", page)) <= {one.name for one in METRICS}


@pytest.mark.parametrize(
    ("kind", "policy", "is_entered"),
    [
        (IncidentKind.GAP, "continue", True),
        (IncidentKind.GAP, "stop", False),
        (IncidentKind.DEAD_LETTER, "dead-letter", True),
        (IncidentKind.CORRUPT_BATCH, "skip", True),
        (IncidentKind.OPEN_TRANSACTION, "", False),
        (IncidentKind.RESUME_MISMATCH, "", True),
    ],
)
def test_the_ledger_lists_what_left_a_mark(
    kind: IncidentKind, policy: str, is_entered: bool
) -> None:
    """A waiting partition has lost nothing yet."""
    assert replace(GAP, kind=kind, policy=policy).belongs_in_ledger == is_entered


def test_the_same_thing_seen_again_is_the_same() -> None:
    """Another time or wording does not matter; other offsets do."""
    assert replace(GAP, time_ms=5, cause="other words").identity == GAP.identity
    assert replace(GAP, first_offset=11).identity != GAP.identity
