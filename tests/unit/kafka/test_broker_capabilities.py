# SPDX-License-Identifier: Apache-2.0
"""What older brokers lack, by the API versions of real releases."""

from __future__ import annotations

import pytest
from kafka.protocol.broker_version_data import BROKER_API_VERSIONS

from sparkmirror.kafka.broker_capabilities import CAPABILITIES, Role, missing_capabilities
from support.clusters.event_hubs import EVENT_HUBS

FETCH, PRODUCE, METADATA, JOIN_GROUP, EPOCHS, PRODUCERS, ALTER = 1, 0, 3, 11, 23, 61, 44


def lacking(versions: dict[int, tuple[int, int]], role: Role) -> set[tuple[int, int]]:
    """APIs and versions that a broker lacks in a role."""
    return {(one.api_key, one.version) for one in missing_capabilities(versions, {role})}


def test_each_row_of_the_table_is_one_case() -> None:
    """The same API, version and role never has two sentences."""
    cases = [(one.api_key, one.version, one.role) for one in CAPABILITIES]
    assert len(set(cases)) == len(cases)
    assert [one.is_required for one in CAPABILITIES] == sorted(
        (one.is_required for one in CAPABILITIES), reverse=True
    ), "the worst first"


@pytest.mark.parametrize("role", Role)
def test_a_new_broker_lacks_nothing(role: Role) -> None:
    """The newest release that kafka-python knows."""
    assert lacking(BROKER_API_VERSIONS[max(BROKER_API_VERSIONS)], role) == set()


def test_kafka_2_4_reads_and_writes_with_limits() -> None:
    """No diverging epochs, no topic ids, no DescribeProducers; sessions and epochs are there."""
    versions = BROKER_API_VERSIONS[2, 4]
    source, target = lacking(versions, Role.SOURCE), lacking(versions, Role.TARGET)
    assert {(FETCH, 12), (METADATA, 10), (PRODUCERS, 0)} <= source
    assert not {(FETCH, 7), (FETCH, 10), (EPOCHS, 0)} & source
    assert {(METADATA, 10), (PRODUCERS, 0)} <= target
    assert not {(PRODUCE, 7), (ALTER, 0)} & target
    assert not any(one.is_required for one in missing_capabilities(versions, set(Role)))


def test_event_hubs_lacks_more_and_nothing_that_is_needed() -> None:
    """Sessions, epochs and config changes."""
    versions = dict(EVENT_HUBS)
    assert {(FETCH, 7), (FETCH, 10), (EPOCHS, 0)} <= lacking(versions, Role.SOURCE)
    assert {(ALTER, 0), (PRODUCERS, 0)} <= lacking(versions, Role.TARGET)
    assert not any(one.is_required for one in missing_capabilities(versions, set(Role)))


def test_a_broker_that_is_too_old_lacks_what_is_needed() -> None:
    """Before 0.11 there were no record batches."""
    needed = [
        (one.api_key, one.role)
        for one in missing_capabilities(BROKER_API_VERSIONS[0, 10, 2], set(Role))
        if one.is_required
    ]
    assert needed[0] == (FETCH, Role.SOURCE)
    assert {api for api, role in needed if role is Role.TARGET} == {PRODUCE, JOIN_GROUP, 22}
