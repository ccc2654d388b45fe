# SPDX-License-Identifier: Apache-2.0
"""Asks the master of a standalone Spark cluster why an application has no executors.

Spark tells an application nothing about workers, and a master that was restarted without recovery
mode does not tell it that it is forgotten. The request is the one of the master's own web page,
sent over the RPC connection of the SparkContext.
"""

from __future__ import annotations

import socket
from dataclasses import dataclass
from typing import Any

from sparkmirror.quantities import counted
from sparkmirror.spark.context import RunningSpark
from sparkmirror.spark.spark_problem import SparkProblem

_PREFIX = "spark://"
_DEFAULT_PORT = 7077
_CONNECT_SECONDS = 3.0
_MAX_SIZES = 3  # of workers that a message lists
_PAGE = "See docs/spark-cluster.md."


@dataclass(frozen=True, slots=True)
class MasterState:
    """The active master's view; cores and MiB of its workers.

    A master remembers lost workers for some time, and does not send which are lost or in use.
    """

    knows_application: bool
    workers: tuple[tuple[int, int], ...]


def is_standalone(master: str) -> bool:
    return master.startswith(_PREFIX)


def master_addresses(master: str) -> list[tuple[str, int]]:
    """Return the addresses in `spark://h1:7077,h2:7077`."""
    found = []
    for one in master.removeprefix(_PREFIX).split(","):
        host, _, port = one.strip().rpartition(":")
        found.append((host, int(port)) if port.isdecimal() and host else (one, _DEFAULT_PORT))
    return found


def connection_problem(master: str) -> str:
    """Try to connect to each master. Returns why none answers; empty if one does.

    Spark tries for a minute and then fails with an unrelated exception.
    """
    reasons = []
    for host, port in master_addresses(master):
        try:
            socket.create_connection((host.strip("[]"), port), _CONNECT_SECONDS).close()
        except OSError as error:
            reasons.append(f"{host}:{port}: {error.strerror or error}")
        else:
            return ""
    return f"Cannot reach the Spark master {master} ({'; '.join(reasons)})."


def read_master_state(running: RunningSpark, master: str) -> MasterState | None:
    """Ask the masters; None if no active one answers. Raises Py4JError as the calls do."""
    from py4j.protocol import Py4JJavaError  # noqa: PLC0415 - comes with Spark, which starts late

    jvm = running.gateway.jvm
    application = running.context.applicationId
    rpc = running.scala_context.schedulerBackend().rpcEnv()
    request = _scala_object(jvm.org.apache.spark.deploy, "DeployMessages$RequestMasterState$")
    tag = _scala_object(jvm.scala.reflect, "ClassTag$").apply(
        jvm.java.lang.Class.forName("java.lang.Object")
    )
    for host, port in master_addresses(master):
        try:
            address = jvm.org.apache.spark.rpc.RpcAddress(host, port)
            state = rpc.setupEndpointRef(address, "Master").askSync(request, tag)
        except Py4JJavaError:
            continue  # this one is down
        if state.status().toString() == "ALIVE":
            return MasterState(
                any(one.id() == application for one in state.activeApps()),
                tuple((one.cores(), one.memory()) for one in state.workers()),
            )
    return None


def _scala_object(package: Any, name: str) -> Any:
    return getattr(getattr(package, name), "MODULE$")


def executor_problem(
    master: str, state: MasterState | None, executor_mib: int, executor_cores: int
) -> SparkProblem | None:
    """Return why an application that the master knows gets no executors, as far as it shows. Pure.

    `executor_cores` is 1 if the file does not set it: an executor then takes what a worker has.
    """
    if state is None:
        return SparkProblem(f"The Spark master {master} does not answer; waiting for it.")
    if not state.workers:
        return SparkProblem(f"The Spark cluster {master} has no workers. Start one.")
    if not any(c >= executor_cores and m >= executor_mib for c, m in state.workers):
        sizes = sorted(set(state.workers), reverse=True)[:_MAX_SIZES]
        listed = ", ".join(f"{counted(cores, 'core')} and {mib} MiB" for cores, mib in sizes)
        needed = f"{counted(executor_cores, 'core')} and {executor_mib} MiB"
        return SparkProblem(
            f"No worker of {master} can run an executor: it needs {needed}, and the largest "
            f"workers have {listed}. Reduce spark.executor.memory or spark.executor.cores. {_PAGE}",
            is_hopeless=True,
        )
    return None
