# SPDX-License-Identifier: Apache-2.0
"""What follows from the values that a cluster told."""

import pytest

from sparkmirror.kafka.descriptions import GroupListing


@pytest.mark.parametrize(
    ("state", "expected"),
    [
        ("Empty", False),
        ("Dead", False),
        ("", False),  # a broker before 2.6 does not tell
        ("Stable", True),
        ("PreparingRebalance", True),
        ("CompletingRebalance", True),
        ("Assigning", True),
        ("Reconciling", True),
        ("NotReady", True),  # streams groups; whatever else a broker may say, members cause it
    ],
)
def test_a_group_is_active_in_every_state_that_needs_members(state: str, expected: bool) -> None:
    """Only the states without members are known for sure."""
    assert GroupListing("g", state, "classic", "consumer").is_active is expected
