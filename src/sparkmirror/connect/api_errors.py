# SPDX-License-Identifier: Apache-2.0
"""Error responses of a worker, with Connect's messages and statuses."""

from __future__ import annotations

from http import HTTPStatus

from sparkmirror.connect.api import ApiError

OFFSETS_ALTERED = "The offsets for this connector have been altered successfully"
OFFSETS_RESET = "The offsets for this connector have been reset successfully"


def connector_not_found(name: str) -> ApiError:
    """For a query or a deletion."""
    return ApiError(HTTPStatus.NOT_FOUND, f"Connector {name} not found")


def no_source_connector(name: str) -> ApiError:
    """Rejects an offset reset: only a source connector has positions."""
    return ApiError(
        HTTPStatus.BAD_REQUEST, f"Connector {name} is no source connector: it copies no records."
    )


def copies_nothing(name: str) -> ApiError:
    """For the lag of a connector that has none."""
    return ApiError(HTTPStatus.NOT_FOUND, f"Connector {name} copies no topics, so it has no lag")


def unknown_connector(name: str) -> ApiError:
    """For a pause, resume or stop."""
    return ApiError(HTTPStatus.NOT_FOUND, f"Unknown connector {name}")


def restart_target_not_found(name: str) -> ApiError:
    """For a restart of the connector or a task."""
    return ApiError(HTTPStatus.NOT_FOUND, f"Unknown connector: {name}")


def unknown_task(name: str, task: int) -> ApiError:
    """For a restart."""
    return ApiError(HTTPStatus.NOT_FOUND, f"Unknown task: {name}-{task}")


def status_not_found(name: str) -> ApiError:
    """Before the first status of a connector."""
    return ApiError(HTTPStatus.NOT_FOUND, f"No status found for connector {name}")


def task_status_not_found(name: str, task: int) -> ApiError:
    """Before the first status of a task."""
    return ApiError(HTTPStatus.NOT_FOUND, f"No status found for task {name}-{task}")


def connector_exists(name: str) -> ApiError:
    return ApiError(HTTPStatus.CONFLICT, f"Connector {name} already exists")


def not_stopped(name: str) -> ApiError:
    """Offsets can be altered only while nothing reads or writes them."""
    return ApiError(
        HTTPStatus.BAD_REQUEST,
        "Connectors must be in the STOPPED state before their offsets can be modified. This can "
        f"be done for the specified connector by issuing a 'PUT' request to the "
        f"'/connectors/{name}/stop' endpoint",
    )


def config_write_failed() -> ApiError:
    """The config topic did not accept it, for example because it is too large."""
    return ApiError(
        HTTPStatus.INTERNAL_SERVER_ERROR, "Error writing connector configuration to Kafka"
    )


def still_starting(stage: str) -> ApiError:
    """The worker has not read its topics yet."""
    return ApiError(HTTPStatus.SERVICE_UNAVAILABLE, f"This worker is still starting: {stage}")


def no_leader() -> ApiError:
    """There is no leader to forward to."""
    return ApiError(
        HTTPStatus.CONFLICT,
        "Cannot complete request momentarily due to no known leader URL, likely because a "
        "rebalance was underway.",
    )


def stale_configuration() -> ApiError:
    """The group is about to rebalance."""
    return ApiError(
        HTTPStatus.CONFLICT,
        "Cannot complete request momentarily due to stale configuration (typically caused by a "
        "concurrent config change)",
    )
