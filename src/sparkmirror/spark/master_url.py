# SPDX-License-Identifier: Apache-2.0
"""What is wrong with a Spark master before Spark tries it.

Spark itself retries an unknown standalone master for a minute, and reports most other mistakes as
Java stack traces.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from pathlib import Path

LOCAL = re.compile(r"local(\[(?P<threads>\d+|\*)(,(?P<failures>\d+))?])?$")
_LOCAL_CLUSTER = re.compile(r"local-cluster\[\s*\d+\s*,\s*\d+\s*,\s*\d+\s*]$")
_STANDALONE = "spark://"
_KUBERNETES = re.compile(r"k8s://(https?://)?[^/:\s]+(:\d+)?(/\S*)?$")
_ADDRESS = re.compile(r"(?P<host>[^\s:/@,\[\]]+|\[[0-9a-fA-F:.]+]):(?P<port>\d{1,5})$")
_IMAGE_KEYS = ("spark.kubernetes.container.image", "spark.kubernetes.executor.container.image")
_HADOOP_VARIABLES = ("HADOOP_CONF_DIR", "YARN_CONF_DIR")
_FORMS = "local[N], spark://host:7077, yarn or k8s://https://host:6443"


def master_problem(
    master: str, options: Mapping[str, str], environment: Mapping[str, str] = os.environ
) -> str:
    """Return a sentence with the remedy if this master cannot work; empty if it may."""
    is_local = LOCAL.match(master) or _LOCAL_CLUSTER.match(master)
    unsupported = _unsupported(master, options, environment)
    if unsupported or is_local:
        return unsupported
    kind, separator, _ = master.partition("://")
    if kind == "yarn" and not separator:
        return _yarn_problem(environment)
    known = {"spark": _standalone_problem, "k8s": _kubernetes_problem}
    if separator and kind in known:
        return known[kind](master, options)
    return f"Invalid spark.master {master!r}: set {_FORMS}."


def _unsupported(master: str, options: Mapping[str, str], environment: Mapping[str, str]) -> str:
    remote = options.get("spark.remote") or environment.get("SPARK_REMOTE")
    if remote or master.startswith("sc://"):
        source = "spark.remote" if options.get("spark.remote") else "SPARK_REMOTE"
        what = f"{source}={remote}" if remote else f"spark.master={master}"
        return (
            f"{what} is a Spark Connect server, which sparkmirror does not support: it needs a "
            f"SparkContext. Set spark.master to {_FORMS} and remove {source if remote else 'sc://'}."
        )
    if options.get("spark.submit.deployMode") == "cluster":
        return (
            "spark.submit.deployMode=cluster is not supported: the driver is the process that runs "
            "sparkmirror. Remove the key, or set it to client."
        )
    is_dynamic = options.get("spark.dynamicAllocation.enabled", "").strip().lower() == "true"
    if is_dynamic and not LOCAL.match(master):  # a local Spark ignores it
        return (
            "spark.dynamicAllocation.enabled=true is not supported: copy tasks hold their slots "
            "for minutes, so no executor is ever idle. Set it to false, and the size with "
            "spark.cores.max or spark.executor.instances; a flow uses executors that join later."
        )
    return ""


def _standalone_problem(master: str, _options: Mapping[str, str]) -> str:
    for address in master.removeprefix(_STANDALONE).split(","):
        found = _ADDRESS.match(address)
        if not found or not 0 < int(found["port"]) <= 65535:  # noqa: PLR2004 - the highest port
            return (
                f"Invalid address {address!r} in spark.master={master}: write host:port, for "
                "example spark://host:7077 or spark://host1:7077,host2:7077."
            )
    return ""


def _yarn_problem(environment: Mapping[str, str]) -> str:
    folders = [environment[name] for name in _HADOOP_VARIABLES if environment.get(name)]
    if not folders:
        return (
            "spark.master=yarn needs the environment variable HADOOP_CONF_DIR or YARN_CONF_DIR: "
            "set it to the directory with yarn-site.xml."
        )
    if not any(Path(folder).is_dir() for folder in folders):
        return (
            f"spark.master=yarn: HADOOP_CONF_DIR or YARN_CONF_DIR is {folders[0]}, which is not a "
            "directory; set it to the one with yarn-site.xml."
        )
    return ""


def _kubernetes_problem(master: str, options: Mapping[str, str]) -> str:
    if not _KUBERNETES.match(master):
        return (
            f"Invalid spark.master {master!r}: write the address of the API server, for example "
            "k8s://https://host:6443."
        )
    if not any(options.get(key) for key in _IMAGE_KEYS):
        return (
            f"spark.master={master} needs {_IMAGE_KEYS[0]}: set an image with Spark, the driver's "
            "Python version and sparkmirror's packages."
        )
    return ""
