# SPDX-License-Identifier: Apache-2.0
"""Replication factors: used or rejected if set, limited by the brokers if not."""

import logging

import pytest

from sparkmirror.config.settings import ReplicationFactor
from sparkmirror.errors import ReplicationFactorError
from sparkmirror.topology.replication_factors import ReplicationFactorChooser, choose_factor


def unset(preferred: int) -> ReplicationFactor:
    """A factor that the file does not mention."""
    return ReplicationFactor("replication.factor", None, preferred)


@pytest.mark.parametrize(("brokers", "expected"), [(1, 1), (2, 2), (3, 3), (5, 3)])
def test_an_unset_factor_is_what_the_cluster_can_hold(brokers: int, expected: int) -> None:
    """MM2's default, limited by the number of brokers."""
    assert choose_factor(unset(3), "b", brokers) == expected


def test_a_set_factor_is_kept() -> None:
    assert choose_factor(ReplicationFactor("replication.factor", 1, 2), "b", 3) == 1


def test_a_set_factor_that_cannot_be_met_names_key_cluster_and_brokers() -> None:
    factor = ReplicationFactor("replication.factor", 3, 2)
    with pytest.raises(
        ReplicationFactorError, match=r"replication\.factor=3 .* 'b', which has 1 broker\."
    ) as caught:
        choose_factor(factor, "b", 1)
    assert (caught.value.key, caught.value.cluster) == ("replication.factor", "b")


def test_minus_one_leaves_the_factor_to_the_brokers() -> None:
    """As in MM2."""
    assert choose_factor(ReplicationFactor("replication.factor", -1, 2), "b", 1) == -1


def test_each_cluster_is_warned_about_once(caplog: pytest.LogCaptureFixture) -> None:
    """One warning per cluster, for many topics."""
    factors = ReplicationFactorChooser()
    with caplog.at_level(logging.WARNING):
        chosen = [factors.choose(unset(3), alias, 1) for alias in ("b", "b", "c", "b")]
        factors.choose(unset(3), "large", 3)
    assert chosen == [1, 1, 1, 1]
    assert [("'b'" in line, "'c'" in line) for line in caplog.messages] == [
        (True, False),
        (False, True),
    ]
    assert "1 broker" in caplog.messages[0]
