# SPDX-License-Identifier: Apache-2.0
"""Memory, collections and threads of Spark's driver JVM, read over py4j."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class JvmMemory:
    """One area of the JVM's memory, in bytes; -1: no maximum."""

    used: int
    committed: int
    maximum: int


@dataclass(frozen=True, slots=True)
class JvmFigures:
    """The JVM at one moment."""

    memory: Mapping[str, JvmMemory]  # heap and nonheap
    collections: Mapping[str, tuple[int, float]]  # by collector: number and seconds
    threads: int
    executors: int


def read_jvm_figures(jvm: Any, scala_context: Any) -> JvmFigures:
    """Read them. Raises Py4JError or OSError if the JVM does not answer."""
    management = jvm.java.lang.management.ManagementFactory
    bean = management.getMemoryMXBean()
    areas = {"heap": bean.getHeapMemoryUsage(), "nonheap": bean.getNonHeapMemoryUsage()}
    collectors = management.getGarbageCollectorMXBeans()
    # The driver has a block manager, too; a local one is also the executor.
    managers = scala_context.getExecutorMemoryStatus().size()
    return JvmFigures(
        {
            name: JvmMemory(one.getUsed(), one.getCommitted(), one.getMax())
            for name, one in areas.items()
        },
        {
            one.getName(): (one.getCollectionCount(), one.getCollectionTime() / 1000)
            for one in collectors
        },
        management.getThreadMXBean().getThreadCount(),
        managers if scala_context.isLocal() else managers - 1,
    )
