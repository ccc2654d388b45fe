# SPDX-License-Identifier: Apache-2.0
"""ACLs as values: there and back as JSON, and what only a newer broker knows."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from kafka.protocol.admin import DescribeAclsResponse

from sparkmirror.errors import BrokerError, UnsupportedVersionError, WireError
from sparkmirror.kafka.acls import (
    CLUSTER_AUTHORIZATION_FAILED,
    UNSUPPORTED_VERSION,
    AclAdmin,
    AclBinding,
    Operation,
    PatternType,
    Permission,
    ResourceType,
)
from sparkmirror.kafka.cluster_client import ClusterClient
from sparkmirror.kafka.error_mapping import broker_error
from sparkmirror.wire.settings import ConnectionSettings

BINDING = AclBinding(
    ResourceType.TOPIC,
    "orders",
    PatternType.PREFIXED,
    "User:app",
    "*",
    Operation.READ,
    Permission.ALLOW,
)


@given(
    st.builds(
        AclBinding,
        st.sampled_from([one for one in ResourceType if one.name != "ANY"]),
        st.text(),
        st.sampled_from([PatternType.LITERAL, PatternType.PREFIXED]),
        st.text(),
        st.text(),
        st.sampled_from([one for one in Operation if one.name != "ANY"]),
        st.sampled_from([Permission.ALLOW, Permission.DENY]),
    )
)
def test_an_acl_goes_through_json(binding: AclBinding) -> None:
    """Plans and the memory keep them so."""
    assert binding == AclBinding.from_dict(json.loads(json.dumps(binding.as_dict())))


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("name", 7),
        ("name", None),
        ("operation", "SING"),
        ("operation", "ANY"),
        ("patternType", "MATCH"),
        ("permission", "allow"),
    ],
)
def test_what_is_no_acl_is_refused(field: str, value: object) -> None:
    """With a sentence that names the field."""
    with pytest.raises(WireError, match=field):
        AclBinding.from_dict({**BINDING.as_dict(), field: value})


class NewerBroker(ClusterClient):
    """Answers with numbers that no broker of today sends."""

    def send(self, request: object, node_id: int | None = None) -> Any:  # noqa: ARG002
        """The same answer to every question."""
        resource = DescribeAclsResponse.DescribeAclsResource
        known = resource.AclDescription(
            principal="User:app", host="*", operation=3, permission_type=3
        )
        unknown = resource.AclDescription(
            principal="User:app", host="*", operation=99, permission_type=3
        )
        return DescribeAclsResponse(
            error_code=0,
            resources=[
                resource(
                    resource_type=kind,
                    resource_name="orders",
                    pattern_type=4,
                    acls=[known, unknown],
                )
                for kind in (2, 98)
            ],
        )


def test_an_acl_of_a_kind_unknown_today_is_left_out_and_counted() -> None:
    """The others are there."""
    admin = AclAdmin(connection := ConnectionSettings("a", ("a:1",), "x"), NewerBroker(connection))
    assert admin.describe() == [BINDING]
    assert admin.unknown_acls == 3


class ServiceWithoutAcls(ClusterClient):
    """One that does not offer the request, as Azure Event Hubs."""

    def send(self, request: object, node_id: int | None = None) -> Any:
        """Before anything is sent."""
        raise UnsupportedVersionError(f"{request} to {node_id}", api_key=29)


def test_a_service_that_knows_no_acls_is_reported_by_its_code() -> None:
    """Whoever asks can tell it from a trouble."""
    connection = ConnectionSettings("a", ("a:1",), "x")
    with pytest.raises(BrokerError) as refusal:
        AclAdmin(connection, ServiceWithoutAcls(connection)).describe()
    assert refusal.value.code == UNSUPPORTED_VERSION


def test_a_refusal_is_reported_in_the_same_words_every_time() -> None:
    """A broker names the request, its connection and its session; a log must say it once."""
    connection = ConnectionSettings("a", ("127.0.0.1:9",), "test")
    first, second = (
        str(broker_error(connection, "describing ACLs", CLUSTER_AUTHORIZATION_FAILED, said))
        for said in (
            f"Request Request(processor=0, connectionId=127.0.0.1:9092-127.0.0.1:5{number}-0, "
            f"session=org.apache.kafka.network.Session@{number}, "
            "listenerName=ListenerName(PLAINTEXT), buffer=null) needs DESCRIBE permission."
            for number in (1, 2)
        )
    )
    assert first == second
    assert "(31), this needs DESCRIBE permission. " in first
