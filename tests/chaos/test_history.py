# SPDX-License-Identifier: Apache-2.0
"""The history accepts true ledger entries and finds wrong and missing ones."""

from __future__ import annotations

import pytest

from chaos.history import (
    GAP,
    TARGET_RECREATED,
    TARGET_TRUNCATED,
    TRUNCATED,
    Entry,
    History,
)
from chaos.verdict import Seen

STREAM = ("us", 0)
LOG = [Seen(offset, offset * 4, offset) for offset in range(100)]


def truncated() -> History:
    """A source truncated at 60; everything before 80 was copied."""
    history = History()
    history.source_truncated(STREAM, LOG, LOG[:60], LOG[:80])
    return history


def deleted() -> History:
    """A source that deleted records before 90; everything before 80 was copied."""
    history = History()
    history.source_deleted(STREAM, LOG, LOG[90:], LOG[:80])
    return history


def test_what_the_source_lost_is_remembered() -> None:
    """With digests, so that copies of it can be compared."""
    gone = truncated().gone(STREAM)
    assert gone == {one.number: one.digest for one in LOG[60:]}


def test_an_exact_entry_is_true() -> None:
    assert truncated().untruths([Entry(TRUNCATED, STREAM, 60, 79, 20)]) == []
    assert deleted().untruths([Entry(GAP, STREAM, 80, 89, 10)]) == []


@pytest.mark.parametrize(
    "entry",
    [
        Entry(TRUNCATED, STREAM, 60, 80, 21),  # 80 was never copied
        Entry(TRUNCATED, STREAM, 60, 78, 19),
        Entry(TRUNCATED, STREAM, 59, 79, 21),  # 59 is still on the source
        Entry(TRUNCATED, STREAM, 60, 79, 7),
        Entry(TRUNCATED, ("us", 1), 60, 79, 20),
        Entry(GAP, STREAM, 60, 79, 20),
    ],
)
def test_an_entry_that_is_not_exact_is_found(entry: Entry) -> None:
    assert len(truncated().untruths([entry])) == 2


def test_a_gap_of_copied_records_is_found() -> None:
    """They are on the target: no gap."""
    assert len(deleted().untruths([Entry(GAP, STREAM, 50, 89, 40)])) == 2
    history = History()
    history.source_deleted(STREAM, LOG, LOG[70:], LOG[:80])
    assert history.untruths([]) == []
    assert len(history.untruths([Entry(GAP, STREAM, 50, 69, 20)])) == 1


def test_an_entry_about_nothing_is_found() -> None:
    assert len(History().untruths([Entry("resume-mismatch", STREAM, 5, 5, -1)])) == 1


def test_a_missing_entry_is_found() -> None:
    """Unless the ledger itself was restored from an older copy."""
    history = truncated()
    assert len(history.untruths([])) == 1
    history.target_restored()
    assert history.untruths([]) == []


def test_offsets_that_compaction_left_empty_do_not_matter() -> None:
    """An entry may begin or end there, and count records or offsets."""
    log = [one for one in LOG if one.offset % 10 != 9]
    history = History()
    history.source_truncated(STREAM, log, log[:54], [one for one in log if one.offset < 80])
    for records in (18, 20):
        assert history.untruths([Entry(TRUNCATED, STREAM, 60, 79, records)]) == []
    assert history.untruths([Entry(TRUNCATED, STREAM, 60, 78, 18)]) == []


def test_an_entry_replaces_an_older_one_that_begins_at_the_same_offset() -> None:
    """The ledger is compacted."""
    history = truncated()
    log = [Seen(offset, offset * 4 + 1, offset) for offset in range(70)]
    history.source_truncated(STREAM, log, log[:60], log[:65])
    assert history.untruths([Entry(TRUNCATED, STREAM, 60, 64, 5)]) == []


def test_an_entry_of_the_target_names_nothing_that_it_did_not_lose() -> None:
    history = History()
    history.target_truncated(STREAM, LOG, LOG[:80], LOG[:70])
    assert history.untruths([]) == []
    assert history.untruths([Entry(TARGET_TRUNCATED, STREAM, 72, 79, 8)]) == []
    assert len(history.untruths([Entry(TARGET_TRUNCATED, STREAM, 68, 79, 12)])) == 1
    assert len(history.untruths([Entry(TARGET_TRUNCATED, STREAM, 72, 82, 11)])) == 1


def test_a_topic_that_was_made_again_is_in_the_ledger() -> None:
    """For every partition."""
    history = History()
    history.target_recreated(STREAM)
    assert history.untruths([Entry(TARGET_RECREATED, STREAM, 0, 0, -1)]) == []
    assert len(history.untruths([])) == 1
