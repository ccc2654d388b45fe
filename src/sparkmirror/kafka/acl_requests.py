# SPDX-License-Identifier: Apache-2.0
"""Protocol messages about ACLs, built from our values with kafka-python's classes.

As in `requests`, each try builds its own.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from kafka.protocol.admin import CreateAclsRequest, DeleteAclsRequest, DescribeAclsRequest

if TYPE_CHECKING:
    from sparkmirror.kafka.acls import AclBinding

_ANY = 1  # in all four enumerations


def describe_request(resource_type: int) -> object:
    """All ACLs on resources of a type."""
    return DescribeAclsRequest(
        resource_type_filter=resource_type,
        resource_name_filter=None,
        pattern_type_filter=_ANY,
        principal_filter=None,
        host_filter=None,
        operation=_ANY,
        permission_type=_ANY,
    )


def create_request(bindings: Sequence[AclBinding]) -> object:
    """Creation of these ACLs."""
    return CreateAclsRequest(
        creations=[
            CreateAclsRequest.AclCreation(
                resource_type=one.resource_type,
                resource_name=one.name,
                resource_pattern_type=one.pattern,
                principal=one.principal,
                host=one.host,
                operation=one.operation,
                permission_type=one.permission,
            )
            for one in bindings
        ]
    )


def delete_request(bindings: Sequence[AclBinding]) -> object:
    """Deletion of exactly these ACLs."""
    return DeleteAclsRequest(
        filters=[
            DeleteAclsRequest.DeleteAclsFilter(
                resource_type_filter=one.resource_type,
                resource_name_filter=one.name,
                pattern_type_filter=one.pattern,
                principal_filter=one.principal,
                host_filter=one.host,
                operation=one.operation,
                permission_type=one.permission,
            )
            for one in bindings
        ]
    )
