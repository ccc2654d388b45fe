# SPDX-License-Identifier: Apache-2.0
"""Everything below `/connector-plugins`: what can be configured, and whether it is right."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Query, Request
from fastapi.responses import JSONResponse, Response

from sparkmirror.connect.api import ConnectApi
from sparkmirror.rest import entities
from sparkmirror.rest.bodies import read_texts
from sparkmirror.rest.connectors import restored
from sparkmirror.rest.documentation import config_schema, problems
from sparkmirror.rest.parameters import Flag, Named, TheDesk, is_set

router = APIRouter(prefix="/connector-plugins", tags=["plugins"])


@router.get("", response_model=list[entities.PluginInfo], responses=problems())
async def list_plugins(
    request: Request,
    desk: TheDesk,
    connectorsOnly: Flag = None,  # noqa: N803 - Connect's name
) -> Response:
    """Connector classes; with `connectorsOnly=false` converters as well."""
    del connectorsOnly
    connectors_only = is_set(request, "connectorsOnly", default=True)
    return await desk.answer(
        request,
        lambda api: JSONResponse(
            [entities.plugin_json(one) for one in api.plugins(connectors_only=connectors_only)]
        ),
    )


@router.get(
    "/{plugin}/config",
    response_model=list[entities.ConfigKeyInfo],
    responses=problems(400, 404),
)
async def get_plugin_config(
    request: Request,
    desk: TheDesk,
    plugin: Named,
    version: Annotated[str | None, Query(description="Not set: the only one.")] = None,
) -> Response:
    """The keys of a plugin."""
    return await desk.answer(
        request,
        lambda api: JSONResponse(
            [entities.definition_json(one) for one in api.plugin_config(plugin, version)]
        ),
    )


@router.put(
    "/{plugin}/config/validate",
    response_model=entities.ConfigInfos,
    responses=problems(400, 413, 415),
    openapi_extra=config_schema(),
)
async def validate(request: Request, desk: TheDesk, plugin: Named) -> Response:
    """Look at a configuration without creating anything; 200 also if it is wrong."""
    body = await desk.body(request)

    def call(api: ConnectApi) -> Response:
        config = read_texts(body)
        shown = restored(api, config.get("name") or "", config)
        return JSONResponse(entities.validation_json(api.validate(plugin, shown)))

    return await desk.answer(request, call, body)
