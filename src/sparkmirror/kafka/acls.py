# SPDX-License-Identifier: Apache-2.0
"""Describe, create and delete the ACLs of a cluster.

Each ACL has its own result: one failure does not affect the others. Any broker describes ACLs; the
controller creates and deletes them. In KRaft that is the broker that the metadata names.

An `AclAdmin` belongs to one thread.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import astuple, dataclass
from enum import IntEnum
from functools import partial
from typing import Any, Self, TypeVar

from kafka.protocol.admin import CreateAclsRequest, DeleteAclsRequest, DescribeAclsRequest

from sparkmirror.errors import BrokerError, UnsupportedVersionError, WireError
from sparkmirror.kafka.cluster_client import AdminClient, ClusterClient
from sparkmirror.kafka.request import Request
from sparkmirror.kafka.topic_requests import chunks
from sparkmirror.wire.settings import ConnectionSettings

SECURITY_DISABLED = 54  # the cluster has no authorizer
CLUSTER_AUTHORIZATION_FAILED = 31
UNSUPPORTED_VERSION = 35  # for example from Azure Event Hubs, which has no ACLs
WILDCARD = "*"  # as a literal name: every resource of the type
# A KRaft controller refuses requests that would write more than 10,000 metadata records.
_CREATIONS_A_REQUEST = 500
# For each deletion the controller scans all ACLs: 10,000 take 2.5 ms.
_DELETIONS_A_REQUEST = 100

_ANY = 1  # in all four enumerations
_OLDEST, _NEWEST = 1, 3  # of all three requests; 1 is the first with pattern types


class ResourceType(IntEnum):
    """The type of an ACL's resource."""

    ANY = 1  # in filters only
    TOPIC = 2
    GROUP = 3
    CLUSTER = 4
    TRANSACTIONAL_ID = 5
    DELEGATION_TOKEN = 6
    USER = 7


class PatternType(IntEnum):
    """How the name of an ACL's resource is matched."""

    ANY = 1  # in filters only
    MATCH = 2  # in filters only
    LITERAL = 3
    PREFIXED = 4


class Operation(IntEnum):
    """An operation on a resource."""

    ANY = 1  # in filters only
    ALL = 2
    READ = 3
    WRITE = 4
    CREATE = 5
    DELETE = 6
    ALTER = 7
    DESCRIBE = 8
    CLUSTER_ACTION = 9
    DESCRIBE_CONFIGS = 10
    ALTER_CONFIGS = 11
    IDEMPOTENT_WRITE = 12
    CREATE_TOKENS = 13
    DESCRIBE_TOKENS = 14
    TWO_PHASE_COMMIT = 15


class Permission(IntEnum):
    """DENY takes precedence over ALLOW."""

    ANY = 1  # in filters only
    DENY = 2
    ALLOW = 3


E = TypeVar("E", bound=IntEnum)
_FILTER_VALUES = frozenset({"ANY", "MATCH"})


@dataclass(frozen=True, order=True, slots=True)
class AclBinding:
    """One ACL; its fields are in the order of the ACL requests."""

    resource_type: ResourceType
    name: str
    pattern: PatternType
    principal: str
    host: str
    operation: Operation
    permission: Permission

    def __str__(self) -> str:
        what = self.resource_type.name.lower().replace("_", " ")
        return (
            f"{self.permission.name.lower()} {self.principal} {self.operation.name} from "
            f"{self.host} on {what} '{self.name}' ({self.pattern.name.lower()})"
        )

    def as_dict(self) -> dict[str, str]:
        """Return the JSON form; the field order is fixed, so that the text can be a key."""
        return {
            "resourceType": self.resource_type.name,
            "name": self.name,
            "patternType": self.pattern.name,
            "principal": self.principal,
            "host": self.host,
            "operation": self.operation.name,
            "permission": self.permission.name,
        }

    @classmethod
    def from_dict(cls, fields: Mapping[str, object]) -> Self:
        """Read the form of `as_dict`; WireError if it is not valid."""
        return cls(
            _named(ResourceType, fields, "resourceType"),
            _text(fields, "name"),
            _named(PatternType, fields, "patternType"),
            _text(fields, "principal"),
            _text(fields, "host"),
            _named(Operation, fields, "operation"),
            _named(Permission, fields, "permission"),
        )


class AclAdmin(AdminClient):
    """ACL requests to one cluster."""

    def __init__(self, connection: ConnectionSettings, client: ClusterClient | None = None) -> None:
        super().__init__(connection, client)
        self.unknown_acls = 0  # ACLs of the last response with values unknown to this version

    def describe(self, resource_type: ResourceType = ResourceType.ANY) -> list[AclBinding]:
        """Return all ACLs on resources of a type, sorted.

        BrokerError with SECURITY_DISABLED without an authorizer, UNSUPPORTED_VERSION from a service
        without ACLs.
        """
        doing = "describing ACLs"
        step = partial(self._send_describe, resource_type)
        answer = self._client.retry(doing, step)
        if answer.error_code:
            raise self._client.broker_error(doing, answer.error_code, None, answer.error_message)
        found = [_binding(resource, acl) for resource in answer.resources for acl in resource.acls]
        self.unknown_acls = found.count(None)
        return sorted(one for one in found if one is not None)

    def create(self, bindings: Sequence[AclBinding]) -> dict[AclBinding, BrokerError | None]:
        """Create ACLs; returns None for each that exists now, also if it existed before."""
        doing, some = "creating an ACL", chunks(list(dict.fromkeys(bindings)), _CREATIONS_A_REQUEST)
        return self._send_to_controller(doing, some, _create_acls_request, _created)

    def delete(self, bindings: Sequence[AclBinding]) -> dict[AclBinding, BrokerError | None]:
        """Delete ACLs; returns None for each that does not exist any more, or never did."""
        doing, some = "deleting an ACL", chunks(list(dict.fromkeys(bindings)), _DELETIONS_A_REQUEST)
        return self._send_to_controller(doing, some, _delete_acls_request, _deleted)

    def _send_describe(self, resource_type: ResourceType) -> Any:
        try:
            return self._client.send(_describe_acls_request(resource_type))
        except UnsupportedVersionError as error:
            raise self._client.broker_error("describing ACLs", UNSUPPORTED_VERSION, None) from error

    def _send_to_controller(
        self,
        doing: str,
        chunked: Sequence[Sequence[AclBinding]],
        make_request: Callable[[Sequence[AclBinding]], Request],
        results: Callable[[Any], list[tuple[int, str | None]]],
    ) -> dict[AclBinding, BrokerError | None]:
        answers: dict[AclBinding, BrokerError | None] = {}
        for some in chunked:
            answer = self._client.retry_on_controller(doing, make_request(some))
            for one, (code, message) in zip(some, results(answer), strict=True):
                error = self._client.broker_error(doing, code, None, message) if code else None
                if code == SECURITY_DISABLED and error is not None:
                    raise error
                answers[one] = error
        return answers


def _created(answer: Any) -> list[tuple[int, str | None]]:
    return [(result.error_code, result.error_message) for result in answer.results]


def _deleted(answer: Any) -> list[tuple[int, str | None]]:
    """The first error of each filter: of the filter, or of an ACL that it matched."""
    return [
        next(
            (
                (one.error_code, one.error_message)
                for one in (result, *result.matching_acls)
                if one.error_code
            ),
            (0, None),
        )
        for result in answer.filter_results
    ]


def _binding(resource: Any, acl: Any) -> AclBinding | None:
    """None if a value is unknown to this version."""
    try:
        return AclBinding(
            _concrete(ResourceType, resource.resource_type),
            resource.resource_name,
            _concrete(PatternType, resource.pattern_type),
            acl.principal,
            acl.host,
            _concrete(Operation, acl.operation),
            _concrete(Permission, acl.permission_type),
        )
    except ValueError:
        return None


def _concrete(kind: type[E], number: int) -> E:
    found = kind(number)
    if found.name in _FILTER_VALUES:
        raise ValueError(number)
    return found


def _named(kind: type[E], fields: Mapping[str, object], name: str) -> E:
    found = kind.__members__.get(_text(fields, name))
    if found is None or found.name in _FILTER_VALUES:
        raise WireError(f"An ACL has an unknown {name} '{fields[name]}'.")
    return found


def _text(fields: Mapping[str, object], name: str) -> str:
    found = fields.get(name)
    if not isinstance(found, str):
        raise WireError(f"An ACL needs a string '{name}'.")
    return found


def _describe_acls_request(resource_type: int) -> Request:
    message = DescribeAclsRequest(
        resource_type_filter=resource_type,
        resource_name_filter=None,
        pattern_type_filter=_ANY,
        principal_filter=None,
        host_filter=None,
        operation=_ANY,
        permission_type=_ANY,
    )
    return Request(message, _OLDEST, _NEWEST)


def _create_acls_request(bindings: Sequence[AclBinding]) -> Request:
    message = CreateAclsRequest(creations=[astuple(one) for one in bindings])
    return Request(message, _OLDEST, _NEWEST)


def _delete_acls_request(bindings: Sequence[AclBinding]) -> Request:
    message = DeleteAclsRequest(filters=[astuple(one) for one in bindings])
    return Request(message, _OLDEST, _NEWEST)
