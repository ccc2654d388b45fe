# SPDX-License-Identifier: Apache-2.0
"""`/connectors`, except offsets and topics."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from http import HTTPStatus
from typing import Annotated, Any
from urllib.parse import quote

from fastapi import APIRouter, Query, Request
from fastapi.responses import JSONResponse, Response

from sparkmirror.config.keys.secret_keys import restore_secrets
from sparkmirror.connect.api import ApiError, ConnectApi, ConnectorInfo
from sparkmirror.model import HIDDEN
from sparkmirror.rest import entities
from sparkmirror.rest.dispatch import (
    BooleanParam,
    ConnectorParam,
    DispatcherParam,
    ForwardParam,
    TaskIdParam,
    base_url,
    empty_response,
    parse_task_id,
    query_flag,
)
from sparkmirror.rest.openapi import body_schema, config_schema, error_responses
from sparkmirror.rest.request_bodies import parse_create_request, parse_string_map

log = logging.getLogger(__name__)
router = APIRouter(tags=["connectors"])

Texts = Mapping[str, str | None]


@router.get("/connectors", response_model=entities.Connectors, responses=error_responses())
async def list_connectors(
    request: Request,
    dispatcher: DispatcherParam,
    expand: Annotated[list[str] | None, Query(description="status, info, or both")] = None,
) -> Response:
    """List connectors; `expand` adds their status or configuration."""
    return await dispatcher.run(request, _list_connectors, expand)


def _list_connectors(api: ConnectApi, expand: list[str] | None) -> Response:
    return JSONResponse(api.connectors() if expand is None else _expanded(api, expand))


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
    "/connectors",
    status_code=201,
    response_model=entities.ConnectorInfo,
    responses=error_responses(400, 409, 413, 415),
    openapi_extra=body_schema(entities.CreateConnectorRequest),
)
async def create_connector(
    request: Request, dispatcher: DispatcherParam, forward: ForwardParam = None
) -> Response:
    """Create a connector."""
    del forward  # read by the dispatcher; declared for the OpenAPI document
    return await dispatcher.run_with_body(request, _create_connector, base_url(request))


def _create_connector(api: ConnectApi, body: bytes, base: str) -> Response:
    asked = parse_create_request(body)
    config = _named(asked.name, asked.config)
    return _created(base, api.create(asked.name, config, asked.initial_state))


@router.get(
    "/connectors/{connector}", response_model=entities.ConnectorInfo, responses=error_responses(404)
)
async def get_connector(
    request: Request, dispatcher: DispatcherParam, connector: ConnectorParam
) -> Response:
    """Get the configuration and tasks of a connector."""
    return await dispatcher.run(request, _get_connector, connector)


def _get_connector(api: ConnectApi, connector: str) -> Response:
    return JSONResponse(entities.info_json(api.info(connector)))


@router.get(
    "/connectors/{connector}/config", response_model=entities.Config, responses=error_responses(404)
)
async def get_config(
    request: Request, dispatcher: DispatcherParam, connector: ConnectorParam
) -> Response:
    """Get the configuration of a connector."""
    return await dispatcher.run(request, _get_config, connector)


def _get_config(api: ConnectApi, connector: str) -> Response:
    return JSONResponse(entities.info_json(api.info(connector))["config"])


@router.put(
    "/connectors/{connector}/config",
    response_model=entities.ConnectorInfo,
    responses={201: {"model": entities.ConnectorInfo}, **error_responses(400, 409, 413, 415)},
    openapi_extra=config_schema(),
)
async def put_config(
    request: Request,
    dispatcher: DispatcherParam,
    connector: ConnectorParam,
    forward: ForwardParam = None,
) -> Response:
    """Create a connector, or replace its configuration."""
    del forward
    return await dispatcher.run_with_body(request, _put_config, connector, base_url(request))


def _put_config(api: ConnectApi, body: bytes, connector: str, base: str) -> Response:
    config = _named(connector, parse_string_map(body))
    info, is_new = api.put_config(connector, with_stored_secrets(api, connector, config))
    return _created(base, info) if is_new else JSONResponse(entities.info_json(info))


@router.patch(
    "/connectors/{connector}/config",
    response_model=entities.ConnectorInfo,
    responses=error_responses(400, 404, 409, 413, 415),
    openapi_extra=config_schema(),
)
async def patch_config(
    request: Request,
    dispatcher: DispatcherParam,
    connector: ConnectorParam,
    forward: ForwardParam = None,
) -> Response:
    """Change keys of a configuration; null removes a key."""
    del forward
    return await dispatcher.run_with_body(request, _patch_config, connector)


def _patch_config(api: ConnectApi, body: bytes, connector: str) -> Response:
    changes = parse_string_map(body)
    if "name" in changes:
        _named(connector, changes)
    info = api.patch_config(connector, with_stored_secrets(api, connector, changes))
    return JSONResponse(entities.info_json(info))


@router.delete(
    "/connectors/{connector}",
    status_code=204,
    response_class=Response,
    responses=error_responses(404, 409),
)
async def delete_connector(
    request: Request,
    dispatcher: DispatcherParam,
    connector: ConnectorParam,
    forward: ForwardParam = None,
) -> Response:
    """Delete a connector; its offsets stay."""
    del forward
    return await dispatcher.run(request, _delete_connector, connector)


def _delete_connector(api: ConnectApi, connector: str) -> Response:
    api.delete(connector)
    return empty_response(HTTPStatus.NO_CONTENT)


@router.get(
    "/connectors/{connector}/status",
    response_model=entities.ConnectorStateInfo,
    responses=error_responses(404),
)
async def get_status(
    request: Request, dispatcher: DispatcherParam, connector: ConnectorParam
) -> Response:
    """Get the state of a connector and its tasks."""
    return await dispatcher.run(request, _get_status, connector)


def _get_status(api: ConnectApi, connector: str) -> Response:
    return JSONResponse(entities.status_json(api.status(connector)))


@router.get(
    "/connectors/{connector}/tasks",
    response_model=list[entities.TaskInfo],
    responses=error_responses(404),
)
async def get_tasks(
    request: Request, dispatcher: DispatcherParam, connector: ConnectorParam
) -> Response:
    """Get the configurations of the tasks of a connector."""
    return await dispatcher.run(request, _get_tasks, connector)


def _get_tasks(api: ConnectApi, connector: str) -> Response:
    return JSONResponse(entities.task_configs_json(connector, api.task_configs(connector)))


@router.get(
    "/connectors/{connector}/tasks/{task}/status",
    response_model=entities.TaskState,
    responses=error_responses(404),
)
async def get_task_status(
    request: Request, dispatcher: DispatcherParam, connector: ConnectorParam, task: TaskIdParam
) -> Response:
    """Get the state of a task."""
    return await dispatcher.run(request, _get_task_status, connector, parse_task_id(task))


def _get_task_status(api: ConnectApi, connector: str, task: int) -> Response:
    return JSONResponse(entities.task_json(task, api.task_status(connector, task)))


@router.post(
    "/connectors/{connector}/tasks/{task}/restart",
    status_code=204,
    response_class=Response,
    responses=error_responses(404, 409),
)
async def restart_task(
    request: Request,
    dispatcher: DispatcherParam,
    connector: ConnectorParam,
    task: TaskIdParam,
    forward: ForwardParam = None,
) -> Response:
    """Restart a task."""
    del forward
    return await dispatcher.run(request, _restart_task, connector, parse_task_id(task))


def _restart_task(api: ConnectApi, connector: str, task: int) -> Response:
    api.restart_task(connector, task)
    return empty_response(HTTPStatus.NO_CONTENT)


@router.post(
    "/connectors/{connector}/restart",
    status_code=204,
    response_class=Response,
    responses={202: {"model": entities.ConnectorStateInfo}, **error_responses(404, 409)},
)
async def restart(
    request: Request,
    dispatcher: DispatcherParam,
    connector: ConnectorParam,
    includeTasks: BooleanParam = None,  # noqa: N803 - Connect's name
    onlyFailed: BooleanParam = None,  # noqa: N803 - Connect's name
    forward: ForwardParam = None,
) -> Response:
    """Restart a connector; `includeTasks` with its tasks, `onlyFailed` only what has failed."""
    del includeTasks, onlyFailed, forward
    return await dispatcher.run(
        request,
        _restart,
        connector,
        include_tasks=query_flag(request, "includeTasks"),
        only_failed=query_flag(request, "onlyFailed"),
    )


def _restart(
    api: ConnectApi, connector: str, *, include_tasks: bool, only_failed: bool
) -> Response:
    found = api.restart(connector, include_tasks=include_tasks, only_failed=only_failed)
    if found is None:
        return empty_response(HTTPStatus.NO_CONTENT)
    return JSONResponse(entities.status_json(found), HTTPStatus.ACCEPTED)


@router.put(
    "/connectors/{connector}/pause",
    status_code=202,
    response_class=Response,
    responses=error_responses(404),
)
async def pause(
    request: Request, dispatcher: DispatcherParam, connector: ConnectorParam
) -> Response:
    """Pause a connector and its tasks."""
    return await dispatcher.run(request, _pause, connector)


def _pause(api: ConnectApi, connector: str) -> Response:
    api.pause(connector)
    return empty_response(HTTPStatus.ACCEPTED)


@router.put(
    "/connectors/{connector}/resume",
    status_code=202,
    response_class=Response,
    responses=error_responses(404),
)
async def resume(
    request: Request, dispatcher: DispatcherParam, connector: ConnectorParam
) -> Response:
    """Resume a connector that was paused or stopped."""
    return await dispatcher.run(request, _resume, connector)


def _resume(api: ConnectApi, connector: str) -> Response:
    api.resume(connector)
    return empty_response(HTTPStatus.ACCEPTED)


@router.put(
    "/connectors/{connector}/stop",
    status_code=204,
    response_class=Response,
    responses=error_responses(404, 409),
)
async def stop(
    request: Request,
    dispatcher: DispatcherParam,
    connector: ConnectorParam,
    forward: ForwardParam = None,
) -> Response:
    """Stop a connector and remove its tasks; its offsets can then be altered."""
    del forward
    return await dispatcher.run(request, _stop, connector)


def _stop(api: ConnectApi, connector: str) -> Response:
    api.stop(connector)
    return empty_response(HTTPStatus.NO_CONTENT)


def _named(name: str, config: Texts) -> dict[str, str | None]:
    """The configuration with its name; ApiError 400 if it has another one."""
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
    where = f"{base}/connectors/{quote(info.name, safe='')}"
    return JSONResponse(entities.info_json(info), HTTPStatus.CREATED, headers={"Location": where})
