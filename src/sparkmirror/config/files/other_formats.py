# SPDX-License-Identifier: Apache-2.0
"""Recognizes JSON and YAML where a properties file is expected."""

from __future__ import annotations

import json
import re

_KIND = re.compile(r"^kind:[ \t]*[\"']?(\w+)", re.MULTILINE)
_API_VERSION = re.compile(r"^apiVersion:[ \t]*\S", re.MULTILINE)
_MARK = re.compile(r"---[ \t]*(?:#.*)?$", re.MULTILINE)
_CONNECTOR_CLASS = "connector.class"


def describe_other_format(text: str) -> str:
    """Return what a text is, and what to do with it; empty if it may be a properties file.

    Looks at the beginning only: a line of a properties file may contain JSON.
    """
    start = text.lstrip()
    if start.startswith(("{", "[")):
        return _describe_json(start)
    if _MARK.match(start) or (_API_VERSION.search(text) and _KIND.search(text)):
        return _describe_yaml(text)
    return ""


def _describe_json(text: str) -> str:
    try:
        found = json.loads(text)
    except (ValueError, RecursionError):
        return "JSON with an error in it"
    if isinstance(found, dict):
        config = found.get("config")
        if _CONNECTOR_CLASS in found or (isinstance(config, dict) and _CONNECTOR_CLASS in config):
            return "JSON: the configuration of a connector; use sparkmirror deploy -f for it"
        if {"flows", "bytesPerSecond"} <= found.keys():
            return "JSON: a plan; use sparkmirror apply for it"
    return "JSON"


def _describe_yaml(text: str) -> str:
    kind = _KIND.search(text)
    if kind is None:
        return "YAML"
    if kind[1] == "KafkaMirrorMaker2":
        return (
            "YAML: a KafkaMirrorMaker2 resource of Strimzi; write its clusters and mirrors as "
            "lines of a properties file"
        )
    return f"YAML: a {kind[1]} resource of Kubernetes"
