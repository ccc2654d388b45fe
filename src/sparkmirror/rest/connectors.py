# SPDX-License-Identifier: Apache-2.0
"""`/connectors`, except offsets and topics.

`internal_router` has the requests of workers to their leader, which are signed and not documented.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from http import HTTPStatus
from typing import Annotated, Any
from urllib.parse import quote

from fastapi import APIRouter, Query
from fastapi.responses import JSONResponse, Response
from starlette.datastructures import Headers

from sparkmirror.config.keys.secret_keys import restore_secrets
from sparkmirror.connect.api import ApiError, ConnectApi, ConnectorInfo, SignedBody
from sparkmirror.model import HIDDEN
from sparkmirror.rest import entities
from sparkmirror.rest.dispatch import (
    FORWARDED,
    BooleanParam,
    ConnectorParam,
    RestCallParam,
    TaskIdParam,
    empty_response,
    parse_task_id,
)
from sparkmirror.rest.openapi import body_schema, config_schema, error_responses
from sparkmirror.rest.request_bodies import (
    parse_create_request,
    parse_string_map,
    parse_string_maps,
)

log = logging.getLogger(__name__)
router = APIRouter(prefix="/connectors", tags=["connectors"])
internal_router = APIRouter(prefix="/connectors", include_in_schema=False)

Texts = Mapping[str, str | None]


@router.get("", response_model=entities.Connectors, responses=error_responses())
async def list_connectors(
    call: RestCallParam,
    expand: Annotated[list[str] | None, Query(description="status, info, or both")] = None,
) -> Response:
    """List connectors; `expand` adds their status or configuration."""
    return await call.json(
        lambda api: api.connectors() if expand is None else _expanded(api, expand)
    )


def _expanded(api: ConnectApi, parts: list[str]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for name in api.connectors():
        try:
            found[name] = _parts(api, name, parts)
        except ApiError as error:
            if error.status != HTTPStatus.NOT_FOUND:
                raise
            log.debug(f"Connector '{name}' was deleted while connectors were listed.")
    return found


def _parts(api: ConnectApi, name: str, parts: list[str]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    if "status" in parts:
        found["status"] = entities.status_json(api.status(name))
    if "info" in parts:
        found["info"] = entities.info_json(api.info(name))
    return found


@router.post(
    "",
    status_code=201,
    response_model=entities.ConnectorInfo,
    responses=error_responses(400, 409, 413, 415),
    openapi_extra=body_schema(entities.CreateConnectorRequest),
    dependencies=FORWARDED,
)
async def create_connector(call: RestCallParam) -> Response:
    """Create a connector."""

    def create(api: ConnectApi, body: bytes) -> Response:
        wanted = parse_create_request(body)
        config = _named(wanted.name, wanted.config)
        return _created(call.base_url, api.create(wanted.name, config, wanted.initial_state))

    return await call.with_body(create)


@router.get("/{connector}", response_model=entities.ConnectorInfo, responses=error_responses(404))
async def get_connector(call: RestCallParam, connector: ConnectorParam) -> Response:
    """Get the configuration and tasks of a connector."""
    return await call.json(lambda api: entities.info_json(api.info(connector)))


@router.get("/{connector}/config", response_model=entities.Config, responses=error_responses(404))
async def get_config(call: RestCallParam, connector: ConnectorParam) -> Response:
    """Get the configuration of a connector."""
    return await call.json(lambda api: entities.info_json(api.info(connector))["config"])


@router.put(
    "/{connector}/config",
    response_model=entities.ConnectorInfo,
    responses={201: {"model": entities.ConnectorInfo}, **error_responses(400, 409, 413, 415)},
    openapi_extra=config_schema(),
    dependencies=FORWARDED,
)
async def put_config(call: RestCallParam, connector: ConnectorParam) -> Response:
    """Create a connector, or replace its configuration."""

    def put(api: ConnectApi, body: bytes) -> Response:
        config = _named(connector, parse_string_map(body))
        info, is_new = api.put_config(connector, with_stored_secrets(api, connector, config))
        return _created(call.base_url, info) if is_new else JSONResponse(entities.info_json(info))

    return await call.with_body(put)


@router.patch(
    "/{connector}/config",
    response_model=entities.ConnectorInfo,
    responses=error_responses(400, 404, 409, 413, 415),
    openapi_extra=config_schema(),
    dependencies=FORWARDED,
)
async def patch_config(call: RestCallParam, connector: ConnectorParam) -> Response:
    """Change keys of a configuration; null removes a key."""

    def patch(api: ConnectApi, body: bytes) -> Response:
        changes = parse_string_map(body)
        if "name" in changes:
            _named(connector, changes)
        info = api.patch_config(connector, with_stored_secrets(api, connector, changes))
        return JSONResponse(entities.info_json(info))

    return await call.with_body(patch)


@router.delete(
    "/{connector}",
    status_code=204,
    response_class=Response,
    responses=error_responses(404, 409),
    dependencies=FORWARDED,
)
async def delete_connector(call: RestCallParam, connector: ConnectorParam) -> Response:
    """Delete a connector; its offsets stay."""
    return await call.empty(HTTPStatus.NO_CONTENT, lambda api: api.delete(connector))


@router.get(
    "/{connector}/status",
    response_model=entities.ConnectorStateInfo,
    responses=error_responses(404),
)
async def get_status(call: RestCallParam, connector: ConnectorParam) -> Response:
    """Get the state of a connector and its tasks."""
    return await call.json(lambda api: entities.status_json(api.status(connector)))


@router.get(
    "/{connector}/tasks", response_model=list[entities.TaskInfo], responses=error_responses(404)
)
async def get_tasks(call: RestCallParam, connector: ConnectorParam) -> Response:
    """Get the configurations of the tasks of a connector."""
    return await call.json(
        lambda api: entities.task_configs_json(connector, api.task_configs(connector))
    )


@router.get(
    "/{connector}/tasks/{task}/status",
    response_model=entities.TaskState,
    responses=error_responses(404),
)
async def get_task_status(
    call: RestCallParam, connector: ConnectorParam, task: TaskIdParam
) -> Response:
    """Get the state of a task."""
    number = parse_task_id(task)
    return await call.json(
        lambda api: entities.task_json(number, api.task_status(connector, number))
    )


@router.post(
    "/{connector}/tasks/{task}/restart",
    status_code=204,
    response_class=Response,
    responses=error_responses(404, 409),
    dependencies=FORWARDED,
)
async def restart_task(
    call: RestCallParam, connector: ConnectorParam, task: TaskIdParam
) -> Response:
    """Restart a task."""
    number = parse_task_id(task)
    return await call.empty(HTTPStatus.NO_CONTENT, lambda api: api.restart_task(connector, number))


@router.post(
    "/{connector}/restart",
    status_code=204,
    response_class=Response,
    responses={202: {"model": entities.ConnectorStateInfo}, **error_responses(404, 409)},
    dependencies=FORWARDED,
)
async def restart(
    call: RestCallParam,
    connector: ConnectorParam,
    includeTasks: BooleanParam = None,  # noqa: ARG001, N803 - Connect's name
    onlyFailed: BooleanParam = None,  # noqa: ARG001, N803 - Connect's name
) -> Response:
    """Restart a connector; `includeTasks` with its tasks, `onlyFailed` only what has failed."""
    include_tasks, only_failed = call.query_flag("includeTasks"), call.query_flag("onlyFailed")

    def run(api: ConnectApi) -> Response:
        status = api.restart(connector, include_tasks=include_tasks, only_failed=only_failed)
        if status is None:
            return empty_response(HTTPStatus.NO_CONTENT)
        return JSONResponse(entities.status_json(status), HTTPStatus.ACCEPTED)

    return await call.run(run)


@router.put(
    "/{connector}/pause",
    status_code=202,
    response_class=Response,
    responses=error_responses(404),
)
async def pause(call: RestCallParam, connector: ConnectorParam) -> Response:
    """Pause a connector and its tasks."""
    return await call.empty(HTTPStatus.ACCEPTED, lambda api: api.pause(connector))


@router.put(
    "/{connector}/resume",
    status_code=202,
    response_class=Response,
    responses=error_responses(404),
)
async def resume(call: RestCallParam, connector: ConnectorParam) -> Response:
    """Resume a connector that was paused or stopped."""
    return await call.empty(HTTPStatus.ACCEPTED, lambda api: api.resume(connector))


@router.put(
    "/{connector}/stop",
    status_code=204,
    response_class=Response,
    responses=error_responses(404, 409),
    dependencies=FORWARDED,
)
async def stop(call: RestCallParam, connector: ConnectorParam) -> Response:
    """Stop a connector and remove its tasks; its offsets can then be altered."""
    return await call.empty(HTTPStatus.NO_CONTENT, lambda api: api.stop(connector))


@internal_router.post("/{connector}/tasks")
async def put_task_configs(call: RestCallParam, connector: ConnectorParam) -> Response:
    """Publish the tasks of a connector; sent by the worker that runs it."""

    def put(api: ConnectApi, body: bytes) -> Response:
        api.put_tasks(connector, _signed(body, call.request.headers), parse_string_maps)
        return empty_response(HTTPStatus.NO_CONTENT)

    return await call.with_raw_body(put)


@internal_router.put("/{connector}/fence")
async def fence_zombies(call: RestCallParam, connector: ConnectorParam) -> Response:
    """Fence the earlier writers of a connector."""

    def fence(api: ConnectApi, body: bytes) -> Response:
        api.fence(connector, _signed(body, call.request.headers))
        return empty_response(HTTPStatus.NO_CONTENT)

    return await call.with_raw_body(fence)


def _signed(body: bytes, headers: Headers) -> SignedBody:
    return SignedBody(
        body,
        headers.get("x-connect-authorization"),
        headers.get("x-connect-request-signature-algorithm"),
    )


def _named(name: str, config: Texts) -> dict[str, str | None]:
    """Return the configuration with its name; ApiError 400 if it has another one."""
    inside = config.get("name")
    if inside is not None and inside != name:
        raise ApiError(
            HTTPStatus.BAD_REQUEST,
            f"Connector name configuration ({inside}) doesn't match connector name in the URL "
            f"({name})",
        )
    return {**config, "name": name}


def with_stored_secrets(api: ConnectApi, name: str, config: Texts) -> Texts:
    """Replace `[hidden]`, which a client has sent back, by the stored secrets."""
    if HIDDEN not in config.values():
        return config
    try:
        stored = api.info(name).config
    except ApiError as error:
        if error.status != HTTPStatus.NOT_FOUND:
            raise
        stored = {}
    return restore_secrets(config, stored)


def _created(base: str, info: ConnectorInfo) -> Response:
    url = f"{base}/connectors/{quote(info.name, safe='')}"
    return JSONResponse(entities.info_json(info), HTTPStatus.CREATED, headers={"Location": url})
