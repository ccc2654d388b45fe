# SPDX-License-Identifier: Apache-2.0
"""The ACLs of a cluster: who may do what, from where, to which resources.

Answers are read ACL by ACL: one that is refused does not hide the others. Any broker tells what
there is; orders go to the controller, which in KRaft is whichever broker the metadata names.

An `AclAdmin` belongs to one thread.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from enum import IntEnum
from functools import partial
from typing import Any, Self, TypeVar

from kafka.protocol.admin import CreateAclsRequest, DeleteAclsRequest, DescribeAclsRequest

from sparkmirror.errors import BrokerError, UnsupportedVersionError, WireError
from sparkmirror.kafka.cluster_client import Closable, ClusterClient
from sparkmirror.kafka.request import Request
from sparkmirror.kafka.topic_requests import chunks
from sparkmirror.wire.settings import ConnectionSettings

SECURITY_DISABLED = 54  # the cluster has no authorizer
CLUSTER_AUTHORIZATION_FAILED = 31
UNSUPPORTED_VERSION = 35  # the service does not know the request, as Azure Event Hubs does not
WILDCARD = "*"  # as a literal name: every resource of the type
# A KRaft controller refuses requests that would write more than 10,000 metadata records.
_CREATIONS_A_REQUEST = 500
# For each of these it looks at every ACL that it has: 10,000 take 2.5 ms.
_DELETIONS_A_REQUEST = 100

_ANY = 1  # in all four enumerations
_OLDEST, _NEWEST = 1, 3  # of all three requests; before, there were no pattern types


class ResourceType(IntEnum):
    """What an ACL is about."""

    ANY = 1  # in a question only
    TOPIC = 2
    GROUP = 3
    CLUSTER = 4
    TRANSACTIONAL_ID = 5
    DELEGATION_TOKEN = 6
    USER = 7


class PatternType(IntEnum):
    """How an ACL names its resources."""

    ANY = 1  # in a question only
    MATCH = 2  # in a question only
    LITERAL = 3
    PREFIXED = 4


class Operation(IntEnum):
    """What is allowed or denied."""

    ANY = 1  # in a question only
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
    """Allowed, or denied whatever else is allowed."""

    ANY = 1  # in a question only
    DENY = 2
    ALLOW = 3


E = TypeVar("E", bound=IntEnum)
_NOT_IN_ACLS = frozenset({"ANY", "MATCH"})


@dataclass(frozen=True, order=True, slots=True)
class AclBinding:
    """One ACL; equal ones are the same ACL for a cluster, too."""

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
        """The ACL in JSON; always in the same order, so that the text can be a key."""
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
        """The ACL that `as_dict` wrote; WireError if it is none."""
        return cls(
            _named(ResourceType, fields, "resourceType"),
            _text(fields, "name"),
            _named(PatternType, fields, "patternType"),
            _text(fields, "principal"),
            _text(fields, "host"),
            _named(Operation, fields, "operation"),
            _named(Permission, fields, "permission"),
        )


class AclAdmin(Closable):
    """Connects at the first call; a lost connection is opened anew."""

    def __init__(self, connection: ConnectionSettings, client: ClusterClient | None = None) -> None:
        self._client = client or ClusterClient(connection)
        self.unknown_acls = (
            0  # ACLs that the last answer held and that this version has no words for
        )

    @property
    def alias(self) -> str:
        """The cluster's alias."""
        return self._client.connection.alias

    def close(self) -> None:
        """Closes the connections; a later call would open them again."""
        self._client.close()

    def describe(self, resource_type: ResourceType = ResourceType.ANY) -> list[AclBinding]:
        """All ACLs on resources of a type, sorted.

        SECURITY_DISABLED without an authorizer, UNSUPPORTED_VERSION where there are no ACLs.
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
        """Creates ACLs; None for each that is there now, also if it was there before."""
        doing, some = "creating an ACL", chunks(list(dict.fromkeys(bindings)), _CREATIONS_A_REQUEST)
        return self._send_to_controller(doing, some, _create_acls_request, _created)

    def delete(self, bindings: Sequence[AclBinding]) -> dict[AclBinding, BrokerError | None]:
        """Deletes ACLs; None for each that is gone now, also if it was gone before."""
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
        portions: Sequence[Sequence[AclBinding]],
        make_request: Callable[[Sequence[AclBinding]], Request],
        results: Callable[[Any], list[tuple[int, str | None]]],
    ) -> dict[AclBinding, BrokerError | None]:
        answers: dict[AclBinding, BrokerError | None] = {}
        for some in portions:
            step = partial(self._client.send_to_controller, make_request(some))
            answer = self._client.retry(doing, step)
            for one, (code, message) in zip(some, results(answer), strict=True):
                error = self._client.broker_error(doing, code, None, message) if code else None
                if code == SECURITY_DISABLED and error is not None:
                    raise error
                answers[one] = error
        return answers


def _created(answer: Any) -> list[tuple[int, str | None]]:
    return [(result.error_code, result.error_message) for result in answer.results]


def _deleted(answer: Any) -> list[tuple[int, str | None]]:
    """The first refusal of each filter: of the filter itself, or of what it matched."""
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
    """None for what only a newer version knows."""
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
    if found.name in _NOT_IN_ACLS:
        raise ValueError(number)
    return found


def _named(kind: type[E], fields: Mapping[str, object], name: str) -> E:
    found = kind.__members__.get(_text(fields, name))
    if found is None or found.name in _NOT_IN_ACLS:
        raise WireError(f"An ACL has no {name} '{fields[name]}'.")
    return found


def _text(fields: Mapping[str, object], name: str) -> str:
    found = fields.get(name)
    if not isinstance(found, str):
        raise WireError(f"An ACL has no text '{name}'.")
    return found


def _describe_acls_request(resource_type: int) -> Request:
    """All ACLs on resources of a type."""
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
    """Creation of these ACLs."""
    message = CreateAclsRequest(
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
    return Request(message, _OLDEST, _NEWEST)


def _delete_acls_request(bindings: Sequence[AclBinding]) -> Request:
    """Deletion of exactly these ACLs."""
    message = DeleteAclsRequest(
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
    return Request(message, _OLDEST, _NEWEST)
