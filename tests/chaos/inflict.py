# SPDX-License-Identifier: Apache-2.0
"""Injects and reverts each fault: one function per kind, run in its own thread.

A function returns when the fault is over: the broker serves, the network works, the process runs.
It does not check whether records flow.
"""

from __future__ import annotations

import contextlib
import signal
from collections.abc import Callable, Sequence

import psutil

from chaos import moved
from chaos.arena import Environment
from chaos.conditions import METADATA_SECONDS, await_condition, await_full_membership
from chaos.plan import STANDALONE, Fault, Kind
from sparkmirror.devcluster.broker import LocalBroker
from support.clients.librdkafka import admin
from support.clusters.client_quotas import set_quota
from support.peers.tcp_proxy import NetworkLink

_DRIVER_EXCUSE_SECONDS = 30.0
_QUOTAS = {"bytes": ("producer_byte_rate", 20_000.0), "requests": ("request_percentage", 1.0)}
_SLOWEST_SECONDS = 1.2
_LOOKUP_SECONDS = 3.0


def inflict(fault: Fault, arena: Environment) -> None:
    """Inject a fault. Returns when it is over."""
    _HOW[fault.kind](fault, arena)


def is_possible(fault: Fault, arena: Environment) -> bool:
    """Whether this machine and this run support the fault."""
    if fault.kind in STANDALONE:
        return arena.spark is not None
    return fault.kind is not Kind.TARGET_FULL or bool(arena.disks)


# --- Spark's processes


def _copying(arena: Environment) -> list[psutil.Process]:
    """Return the Python workers that are connected to the target."""
    ports = {
        int(server.rpartition(":")[2])
        for server in arena.target.proxied_bootstrap_servers.split(",")
    }
    return [
        worker
        for worker in arena.keeper.python_workers()
        if any(one.raddr and one.raddr.port in ports for one in worker.net_connections("tcp"))
    ]


def _kill(processes: Sequence[psutil.Process]) -> None:
    for one in processes:
        with contextlib.suppress(psutil.NoSuchProcess):
            one.kill()


def _hit(fault: Fault, found: list[psutil.Process]) -> list[psutil.Process]:
    return found if fault.way == "all" else [found[fault.choose(found)]]


def _kill_worker(fault: Fault, arena: Environment) -> None:
    _kill(_hit(fault, await_condition(arena, lambda: _copying(arena), "a worker copies")))


def _kill_executor(fault: Fault, arena: Environment) -> None:
    await_condition(arena, lambda: _copying(arena), "a worker copies")
    _kill(_hit(fault, await_condition(arena, arena.keeper.executors, "there is an executor")))


def _kill_driver(fault: Fault, arena: Environment) -> None:
    await_condition(arena, lambda: _copying(arena), "a worker copies")
    arena.keeper.excuse(_DRIVER_EXCUSE_SECONDS)
    mirror = arena.keeper.current
    if fault.way == "everything":
        mirror.kill_everything()
    elif fault.way == "jvm":
        jvm = mirror.driver_jvm()
        _kill([jvm] if jvm else [])
    else:
        mirror.kill_driver()
    await_condition(
        arena, lambda: arena.keeper.current is not mirror, "the driver is started again"
    )


def _stop_worker(fault: Fault, arena: Environment) -> None:
    workers = await_condition(arena, lambda: _copying(arena), "a worker copies")
    victims = [workers[fault.choose(workers)]]
    if fault.way == "executor":
        executors = await_condition(arena, arena.keeper.executors, "there is an executor")
        executor = next(
            (one for one in executors if victims[0] in one.children(recursive=True)), executors[0]
        )
        victims = [executor, *executor.children(recursive=True)]
    try:
        _signal(victims, signal.SIGSTOP)
        arena.wait(fault.seconds)
    finally:
        _signal(victims, signal.SIGCONT)


def _suspend(fault: Fault, arena: Environment) -> None:
    """Suspend and continue all processes of the mirror, as when a machine sleeps."""
    await_condition(arena, lambda: _copying(arena), "a worker copies")
    everyone = arena.keeper.processes()
    try:
        _signal(everyone, signal.SIGSTOP)
        arena.wait(fault.seconds)
    finally:
        _signal(everyone, signal.SIGCONT)


def _signal(processes: Sequence[psutil.Process], number: signal.Signals) -> None:
    for one in processes:
        with contextlib.suppress(psutil.NoSuchProcess):
            one.send_signal(number)


def _kill_spark_worker(fault: Fault, arena: Environment) -> None:
    """A machine goes away with its executors; another one comes."""
    assert arena.spark
    await_condition(arena, lambda: _copying(arena), "a worker copies")
    alive = [one for one in arena.spark.workers if one.pid]
    arena.spark.kill_worker(alive[fault.choose(alive)])
    try:
        arena.wait(fault.seconds)
    finally:
        arena.spark.add_worker(cores=arena.scenario.slots)


def _kill_spark_master(fault: Fault, arena: Environment) -> None:
    """It returns on the same port and knows no application."""
    assert arena.spark
    await_condition(arena, lambda: _copying(arena), "a worker copies")
    arena.spark.master.kill()
    try:
        arena.wait(fault.seconds)
    finally:
        arena.spark.start_master()


# --- brokers


def _kill_source_broker(fault: Fault, arena: Environment) -> None:
    cluster = arena.sources[fault.choose(arena.sources)]
    cluster.brokers[0].kill()
    arena.wait(fault.seconds)
    cluster.brokers[0].start()


def _kill_target_leader(fault: Fault, arena: Environment) -> None:
    broker = _leader(fault, arena)
    broker.kill()
    arena.wait(fault.seconds)
    broker.start()
    await_full_membership(arena)


def _restart_broker(fault: Fault, arena: Environment) -> None:
    brokers = arena.target.brokers
    if fault.way == "source":
        brokers = [cluster.brokers[0] for cluster in arena.sources]
    broker = brokers[fault.choose(brokers)]
    broker.stop()
    arena.wait(fault.seconds)
    broker.start()
    if fault.way == "target":
        await_full_membership(arena)


def _fill_target(fault: Fault, arena: Environment) -> None:
    leader = _leader(fault, arena)
    brokers = arena.target.brokers if fault.way == "all brokers" else [leader]
    disks = [arena.disks[arena.target.brokers.index(broker)] for broker in brokers]
    try:
        for disk in disks:
            disk.fill()
        await_condition(
            arena,
            lambda: not all(broker.running for broker in brokers),
            "a broker gives up without room",
        )
        arena.wait(fault.seconds)
    finally:
        for disk in disks:
            disk.make_room()
    for broker in brokers:
        broker.kill()  # one that still runs has lost its only log directory
    arena.target.start()
    await_full_membership(arena)


def _leader(fault: Fault, arena: Environment) -> LocalBroker:
    topic = arena.scenario.remote_topic
    client = admin(arena.target)

    def led() -> list[int]:
        found = client.list_topics(topic, timeout=METADATA_SECONDS).topics[topic].partitions
        return [found[index].leader for index in sorted(found) if found[index].leader > 0]

    leaders = await_condition(arena, led, f"{topic} has leaders")
    node = leaders[fault.choose(leaders)]
    return next(broker for broker in arena.target.brokers if broker.node_id == node)


# --- the network


def _source_line(fault: Fault, arena: Environment) -> NetworkLink:
    return arena.source_lines[fault.choose(arena.source_lines)]


def _target_line(_fault: Fault, arena: Environment) -> NetworkLink:
    return arena.target_line


def _cut(
    line_of: Callable[[Fault, Environment], NetworkLink],
) -> Callable[[Fault, Environment], None]:
    def cut(fault: Fault, arena: Environment) -> None:
        line = line_of(fault, arena)
        which, _, fate = fault.way.rpartition(" ")
        try:
            line.cut(to_broker=which != "replies", to_client=which != "requests")
            arena.wait(fault.seconds)
            if fate == "lost":
                line.reset()
        finally:
            line.heal()

    return cut


def _delay(
    line_of: Callable[[Fault, Environment], NetworkLink],
) -> Callable[[Fault, Environment], None]:
    def delay(fault: Fault, arena: Environment) -> None:
        line = line_of(fault, arena)
        seconds = fault.pick * _SLOWEST_SECONDS
        try:
            line.slow(
                to_broker=seconds if fault.way != "replies" else 0.0,
                to_client=seconds if fault.way != "requests" else 0.0,
            )
            arena.wait(fault.seconds)
        finally:
            line.heal()

    return delay


def _hinder_resolver(fault: Fault, arena: Environment) -> None:
    """Delay or fail name resolution, and reset every connection."""
    arena.resolver_file.write_text(f"{_LOOKUP_SECONDS}\n{fault.way}\n", encoding="utf-8")
    try:
        for line in (*arena.source_lines, arena.target_line):
            line.reset()
        arena.wait(fault.seconds)
    finally:
        arena.resolver_file.unlink()


# --- quotas


def _throttle(fault: Fault, arena: Environment) -> None:
    key, value = _QUOTAS[fault.way]
    _set_quota(arena, key, value)
    try:
        arena.wait(fault.seconds)
    finally:
        _set_quota(arena, key, None)


def _set_quota(arena: Environment, key: str, value: float | None) -> None:
    """Set it through any broker that serves."""

    def done() -> bool:
        for broker in arena.target.brokers:
            with contextlib.suppress(OSError):
                set_quota(broker.address, key, value)
                return True
        return False

    await_condition(arena, done, f"the quota {key} is set to {value}")


_HOW: dict[Kind, Callable[[Fault, Environment], None]] = {
    Kind.WORKER_KILL: _kill_worker,
    Kind.EXECUTOR_KILL: _kill_executor,
    Kind.DRIVER_KILL: _kill_driver,
    Kind.WORKER_STOP: _stop_worker,
    Kind.SOURCE_BROKER_KILL: _kill_source_broker,
    Kind.TARGET_LEADER_KILL: _kill_target_leader,
    Kind.BROKER_RESTART: _restart_broker,
    Kind.SOURCE_CUT: _cut(_source_line),
    Kind.TARGET_CUT: _cut(_target_line),
    Kind.SOURCE_DELAY: _delay(_source_line),
    Kind.TARGET_DELAY: _delay(_target_line),
    Kind.TARGET_FULL: _fill_target,
    Kind.TARGET_QUOTA: _throttle,
    Kind.SOURCE_TRUNCATE: moved.truncate_source,
    Kind.SOURCE_DELETE: moved.delete_from_source,
    Kind.SOURCE_COMPACT: moved.compact_source,
    Kind.TARGET_TRUNCATE: moved.truncate_target,
    Kind.TARGET_RECREATE: moved.recreate_target,
    Kind.PRODUCER_EXPIRY: moved.expire_producers,
    Kind.SUSPEND: _suspend,
    Kind.SLOW_RESOLVER: _hinder_resolver,
    Kind.SPARK_WORKER_KILL: _kill_spark_worker,
    Kind.SPARK_MASTER_KILL: _kill_spark_master,
}
