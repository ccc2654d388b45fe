# SPDX-License-Identifier: Apache-2.0
"""`/connector-plugins`: connector classes, their keys, validation of configurations."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Query, Request
from fastapi.responses import JSONResponse, Response

from sparkmirror.connect.api import ConnectApi
from sparkmirror.rest import entities
from sparkmirror.rest.connectors import with_stored_secrets
from sparkmirror.rest.dispatch import BooleanParam, DispatcherParam, NameParam, query_flag
from sparkmirror.rest.openapi import config_schema, error_responses
from sparkmirror.rest.request_bodies import parse_string_map

router = APIRouter(prefix="/connector-plugins", tags=["plugins"])


@router.get("", response_model=list[entities.PluginInfo], responses=error_responses())
async def list_plugins(
    request: Request,
    dispatcher: DispatcherParam,
    connectorsOnly: BooleanParam = None,  # noqa: N803 - Connect's name
) -> Response:
    """List connector classes; `connectorsOnly=false` adds converters."""
    del connectorsOnly
    connectors_only = query_flag(request, "connectorsOnly", default=True)
    return await dispatcher.run(request, _list_plugins, connectors_only=connectors_only)


def _list_plugins(api: ConnectApi, *, connectors_only: bool) -> Response:
    found = api.plugins(connectors_only=connectors_only)
    return JSONResponse([entities.plugin_json(one) for one in found])


@router.get(
    "/{plugin}/config",
    response_model=list[entities.ConfigKeyInfo],
    responses=error_responses(400, 404),
)
async def get_plugin_config(
    request: Request,
    dispatcher: DispatcherParam,
    plugin: NameParam,
    version: Annotated[str | None, Query(description="Default: the only version.")] = None,
) -> Response:
    """Get the configuration keys of a plugin."""
    return await dispatcher.run(request, _get_plugin_config, plugin, version)


def _get_plugin_config(api: ConnectApi, plugin: str, version: str | None) -> Response:
    found = api.plugin_config(plugin, version)
    return JSONResponse([entities.definition_json(one) for one in found])


@router.put(
    "/{plugin}/config/validate",
    response_model=entities.ConfigInfos,
    responses=error_responses(400, 413, 415),
    openapi_extra=config_schema(),
)
async def validate(request: Request, dispatcher: DispatcherParam, plugin: NameParam) -> Response:
    """Validate a configuration; the status is 200 also if it is wrong."""
    return await dispatcher.run_with_body(request, _validate, plugin)


def _validate(api: ConnectApi, body: bytes, plugin: str) -> Response:
    config = parse_string_map(body)
    shown = with_stored_secrets(api, config.get("name") or "", config)
    return JSONResponse(entities.validation_json(api.validate(plugin, shown)))
