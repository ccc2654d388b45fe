# SPDX-License-Identifier: Apache-2.0
"""ACL sync between real brokers with authorizers; confluent-kafka grants and is the witness.

Everybody is the same user on these listeners, but not everybody has the same address: the sync
comes from another one than the witness, so that rights can be taken from it, and given back.
"""

from __future__ import annotations

import logging
import shutil
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path

import pytest

from sparkmirror.config.mirror_config import MirrorConfig
from sparkmirror.config.settings import FlowSettings
from sparkmirror.connectors.acl_sync import AclSync
from sparkmirror.connectors.config_sync import ConfigSync
from sparkmirror.connectors.source_topics import topic_rules
from sparkmirror.devcluster.cluster import LocalCluster, start_all
from sparkmirror.errors import BrokerError
from sparkmirror.kafka.acls import (
    SECURITY_DISABLED,
    AclAdmin,
    AclBinding,
    Operation,
    PatternType,
    Permission,
    ResourceType,
)
from sparkmirror.kafka.admin import ClusterAdmin
from sparkmirror.kafka.cluster_client import ClusterClient
from sparkmirror.model import Flow
from sparkmirror.policy.loading import load_policy
from sparkmirror.spark.flow_status import FlowStatus
from sparkmirror.state.granted_acls import GrantedAcls
from sparkmirror.topology.acls import AclPlan, GrantAcl, RevokeAcl
from support.clients.acls import AUTHORIZER, acls, grant, revoke
from support.clients.librdkafka import create_topics
from support.clusters.memory_disk import keep_in_memory
from support.mirrors.mirror_file import mirror_file
from support.mirrors.mirror_process import MirrorProcess
from support.peers.tcp_proxy import NetworkLink
from support.unique_names import unique_name
from support.waiting import PATIENCE_SECONDS, eventually

SYNC_HOST = "127.0.0.2"
EVERYTHING = AclBinding(
    ResourceType.CLUSTER,
    "kafka-cluster",
    PatternType.LITERAL,
    "User:ANONYMOUS",
    "*",
    Operation.ALL,
    Permission.ALLOW,
)


@dataclass(frozen=True, slots=True)
class Pair:
    """Two clusters with authorizers."""

    source: LocalCluster
    target: LocalCluster


@pytest.fixture(scope="module")
def pair(tmp_path_factory: pytest.TempPathFactory, kafka_version: str) -> Iterator[Pair]:
    """One broker each; whatever ACLs come to a cluster, we may still do everything to it."""
    directory = tmp_path_factory.mktemp("acls")
    clusters: list[LocalCluster] = []

    def port_of(number: int) -> Callable[[], int]:
        def port() -> int:
            detour = clusters[number].brokers[0].proxied_listener
            assert detour is not None
            return detour.port

        return port

    with ExitStack() as stack:
        line = stack.enter_context(NetworkLink("acl-sync", SYNC_HOST))
        for number, name in enumerate(("source", "target")):
            cluster = LocalCluster(
                name,
                directory / name,
                version=kafka_version,
                config=AUTHORIZER,
                proxy_ports=[line.proxy(port_of(number))],
            )
            for folder in keep_in_memory(cluster):
                stack.callback(shutil.rmtree, folder)
            stack.callback(cluster.stop)
            clusters.append(cluster)
        start_all(clusters)
        for cluster in clusters:
            grant(cluster, EVERYTHING)
        yield Pair(*clusters)


@dataclass(slots=True)
class Bench:
    """A flow of ACLs with an alias and its own user; may be started again."""

    source: LocalCluster
    target: LocalCluster
    alias: str = field(default_factory=lambda: unique_name("acl"))
    other: str = "target"
    user: str = field(default_factory=lambda: unique_name("User:u"))
    lines: tuple[str, ...] = ()
    status: FlowStatus = field(default_factory=lambda: FlowStatus(""))
    syncs: list[AclSync] = field(default_factory=list)

    @property
    def settings(self) -> FlowSettings:
        """Those of the flow under the present lines."""
        clusters = ((self.alias, self.source), (self.other, self.target))
        text = [
            f"clusters = {self.alias}, {self.other}",
            *(f"{name}.bootstrap.servers = {_address(one)}" for name, one in clusters),
            f"{self.alias}->{self.other}.enabled = true",
            *self.lines,
        ]
        return MirrorConfig.parse("\n".join(text)).flow_settings(Flow(self.alias, self.other))

    def start(self, *lines: str) -> AclSync:
        """A new process, as far as ACL sync can tell; of another file, if there are lines."""
        self.lines = lines or self.lines
        settings = self.settings
        self.status = FlowStatus(str(settings.flow))
        policy = load_policy(settings.policy, settings.flow)
        self.syncs.append(AclSync(settings, policy, self.status))
        return self.syncs[-1]

    def close(self) -> None:
        """Hang up."""
        for sync in self.syncs:
            sync.close()

    def acl(
        self,
        name: str,
        operation: Operation = Operation.READ,
        permission: Permission = Permission.ALLOW,
        *,
        kind: ResourceType = ResourceType.TOPIC,
        pattern: PatternType = PatternType.LITERAL,
    ) -> AclBinding:
        """An ACL of the user."""
        return AclBinding(kind, name, pattern, self.user, "*", operation, permission)

    def remote(self, binding: AclBinding) -> AclBinding:
        """The same for the remote topic."""
        return replace(binding, name=f"{self.alias}.{binding.name}")

    def on_target(self, *expected: AclBinding) -> None:
        """Wait until the user's ACLs on the target are these."""
        eventually(
            lambda: acls(self.target, self.user) == set(expected),
            PATIENCE_SECONDS,
            f"on the target: {', '.join(map(str, expected))}",
        )

    def remembered(self, *more: AclBinding) -> set[AclBinding]:
        """What the memory holds, with these topic ACLs entered in addition."""
        with closing(ClusterClient(self.settings.target_admin)) as client:
            memory = GrantedAcls(client, f"mm2-acls.{self.alias}.internal")
            memory.refresh()
            memory.add([self.remote(one) for one in more])
            return memory.bindings

    @property
    def counts(self) -> dict[str, int]:
        """What happened since the start."""
        return dict(self.status.snapshot().topology_changes)

    @property
    def troubles(self) -> tuple[str, ...]:
        """What the status says."""
        return self.status.snapshot().problems


@contextmanager
def denied(bench: Bench, side: str, operation: Operation) -> Iterator[None]:
    """For a while the sync may not do this to the source or the target.

    Orders are checked by the controller, which may hear of a rule later than the broker.
    """
    cluster = bench.source if side == "source" else bench.target
    settings = bench.settings.source_admin if side == "source" else bench.settings.target_admin
    rule = replace(EVERYTHING, host=SYNC_HOST, operation=operation, permission=Permission.DENY)
    never_there = bench.acl(unique_name("never"))

    def is_refused() -> bool:
        if operation is Operation.ALTER:
            return orders.delete([never_there])[never_there] is not None
        try:
            orders.describe()
        except BrokerError:
            return True
        return False

    with AclAdmin(settings) as orders:
        grant(cluster, rule)
        eventually(is_refused, PATIENCE_SECONDS, f"{operation.name} is denied")
        try:
            yield
        finally:
            revoke(cluster, rule)
            eventually(lambda: not is_refused(), PATIENCE_SECONDS, f"{operation.name} is allowed")


def _address(cluster: LocalCluster) -> str:
    return cluster.proxied_bootstrap_servers or cluster.bootstrap_servers


@pytest.fixture
def bench(pair: Pair) -> Iterator[Bench]:
    """From the one cluster to the other; its ACLs are gone at the end."""
    made = Bench(pair.source, pair.target)
    yield made
    made.close()
    for cluster in (pair.source, pair.target):
        revoke(cluster, *acls(cluster, made.user))


def test_acls_are_filtered_and_renamed_as_in_mm2(bench: Bench) -> None:
    """MM2's testAclFiltering and testAclTransformation: literal ones, no WRITE, ALL as READ."""
    sync = bench.start()
    all_of_it = bench.acl("all", Operation.ALL)
    denied = bench.acl("denied", Operation.ALL, Permission.DENY)
    grant(
        bench.source,
        bench.acl("read"),
        bench.acl("write", Operation.WRITE),
        bench.acl("__hidden"),
        bench.acl("prefix", pattern=PatternType.PREFIXED),
        bench.acl("group", kind=ResourceType.GROUP),
        bench.acl("*"),
        all_of_it,
        denied,
    )
    sync.sync(["read"])
    expected = [
        bench.remote(bench.acl("read")),
        bench.remote(bench.acl("*")),
        bench.remote(replace(all_of_it, operation=Operation.READ)),
        bench.remote(denied),
    ]
    bench.on_target(*expected)
    sync.sync(["read"])
    assert bench.troubles == ()
    assert bench.counts == {"granted": 4}


def test_a_look_touches_nothing(bench: Bench) -> None:
    """It is what `plan` shows; applying it leaves nothing to do."""
    sync = bench.start()
    grant(bench.source, bench.acl("orders"))
    plan = sync.plan(["orders"])
    assert [one.binding for one in plan.grants if one.binding.principal == bench.user] == [
        bench.remote(bench.acl("orders"))
    ]
    assert acls(bench.target, bench.user) == set()
    assert {one.error for one in sync.apply(plan)} == {None}
    bench.on_target(bench.remote(bench.acl("orders")))
    assert sync.plan(["orders"]) == AclPlan()


def test_an_acl_deleted_on_the_target_comes_back(bench: Bench) -> None:
    """The source says what there is to be."""
    sync = bench.start()
    grant(bench.source, bench.acl("orders"))
    remote = bench.remote(bench.acl("orders"))
    sync.sync(["orders"])
    bench.on_target(remote)
    revoke(bench.target, remote)
    sync.sync(["orders"])
    bench.on_target(remote)


def test_the_scope_of_all_carries_every_kind(bench: Bench) -> None:
    """Prefixed ones of mirrored topics, groups, transactional ids, the cluster; '*' as a prefix."""
    sync = bench.start("sync.acls.scope = all")
    kept = [
        bench.acl("group", kind=ResourceType.GROUP),
        bench.acl("gr", kind=ResourceType.GROUP, pattern=PatternType.PREFIXED),
        bench.acl("tx", Operation.WRITE, kind=ResourceType.TRANSACTIONAL_ID),
        bench.acl("kafka-cluster", Operation.IDEMPOTENT_WRITE, kind=ResourceType.CLUSTER),
    ]
    prefixed = bench.acl("ord", Operation.ALL, pattern=PatternType.PREFIXED)
    grant(
        bench.source,
        *kept,
        prefixed,
        bench.acl("*", Operation.DESCRIBE),
        bench.acl("elsewhere", pattern=PatternType.PREFIXED),
        bench.acl("console-consumer-1", kind=ResourceType.GROUP),
    )
    sync.sync(["orders"])
    bench.on_target(
        *kept,
        bench.remote(replace(prefixed, operation=Operation.READ)),
        bench.acl(f"{bench.alias}.", Operation.DESCRIBE, pattern=PatternType.PREFIXED),
    )
    assert bench.troubles == ()


def test_a_migration_lets_writers_write(bench: Bench) -> None:
    """The identity policy keeps names, so rights to write go along."""
    sync = bench.start(
        "sync.acls.scope = all",
        "replication.policy.class=org.apache.kafka.connect.mirror.IdentityReplicationPolicy",
    )
    found = [
        bench.acl("orders", Operation.WRITE),
        bench.acl("ord", Operation.ALL, pattern=PatternType.PREFIXED),
    ]
    grant(bench.source, *found)
    sync.sync(["orders"])
    bench.on_target(*found)


def test_only_acls_of_ours_are_removed(bench: Bench) -> None:
    """Those of others stay, a restart forgets nothing, and it takes two looks."""
    sync = bench.start("sync.acls.removals.enabled = true")
    ours, theirs = bench.acl("ours"), bench.acl("theirs")
    stranger = bench.acl(f"{bench.alias}.stranger")
    grant(bench.target, bench.remote(theirs), stranger)
    grant(bench.source, ours, theirs)
    sync.sync(["ours", "theirs"])
    bench.on_target(bench.remote(ours), bench.remote(theirs), stranger)
    revoke(bench.source, ours, theirs)
    sync = bench.start()
    assert sync.plan([]).revocations == (RevokeAcl(bench.remote(ours)),)
    sync.sync([])
    assert bench.counts == {}
    sync.sync([])
    bench.on_target(bench.remote(theirs), stranger)
    assert bench.counts == {"revoked": 1}
    assert bench.start().plan([]) == AclPlan()


def test_a_memory_of_what_was_never_created_does_no_harm(bench: Bench) -> None:
    """Killed between the memory's record and the ACL: granted if it is wanted, or forgotten."""
    first, wanted, unwanted = bench.acl("first"), bench.acl("wanted"), bench.acl("unwanted")
    grant(bench.source, first)
    bench.start("sync.acls.removals.enabled = true").sync([])
    bench.on_target(bench.remote(first))
    assert bench.remembered(wanted, unwanted) == {*map(bench.remote, (first, wanted, unwanted))}
    grant(bench.source, wanted)
    sync = bench.start()
    plan = sync.plan([])
    assert plan == AclPlan(
        grants=(GrantAcl(bench.remote(wanted)),), vanished=(bench.remote(unwanted),)
    )
    sync.sync([])
    sync.sync([])
    bench.on_target(bench.remote(first), bench.remote(wanted))
    assert bench.start().plan([]) == AclPlan()


def test_what_came_from_the_target_does_not_go_back(bench: Bench) -> None:
    """Flows in both directions: an ACL withdrawn where it was made is not brought back."""
    group = bench.acl("readers", kind=ResourceType.GROUP)
    own = bench.acl("writers", kind=ResourceType.GROUP)
    there = bench.start("sync.acls.scope = all", "sync.acls.removals.enabled = true")
    grant(bench.source, group)
    there.sync([])
    bench.on_target(group)
    grant(bench.target, own)
    revoke(bench.source, group)
    back = Bench(bench.target, bench.source, "target", bench.alias, bench.user, bench.lines)
    plan = back.start().plan([])
    back.close()
    assert own in {action.binding for action in plan.grants}
    assert group not in {action.binding for action in plan.grants}


def test_a_target_that_refuses_is_reported_once_and_tried_again(
    bench: Bench, caplog: pytest.LogCaptureFixture
) -> None:
    """The status has the count and the first reason until it works."""
    sync = bench.start("sync.acls.scope = all")
    caplog.set_level(logging.INFO, "sparkmirror")
    grant(bench.source, bench.acl("one"), bench.acl("two"))
    with denied(bench, "target", Operation.ALTER):
        sync.sync(["one"])
        sync.sync(["one"])
        (trouble,) = bench.troubles
        assert "needs ALTER on the cluster" in trouble
        assert "2 failed" in trouble
        assert bench.counts == {"acl refused": 4}
        assert sum("needs ALTER" in record.getMessage() for record in caplog.records) == 1
        assert acls(bench.target, bench.user) == set()
        assert bench.remembered() == set()
    sync.sync(["one"])
    bench.on_target(bench.remote(bench.acl("one")), bench.remote(bench.acl("two")))
    assert bench.troubles == ()


def test_a_source_that_denies_acls_is_a_problem_until_it_responds(bench: Bench) -> None:
    """The principal lacks DESCRIBE on the cluster, and the status says so."""
    sync = bench.start()
    grant(bench.source, bench.acl("orders"))
    with denied(bench, "source", Operation.DESCRIBE):
        sync.sync(["orders"])
        (trouble,) = bench.troubles
        assert "needs DESCRIBE on the cluster" in trouble
        assert acls(bench.target, bench.user) == set()
    sync.sync(["orders"])
    assert bench.troubles == ()
    bench.on_target(bench.remote(bench.acl("orders")))


def test_a_target_that_does_not_tell_gets_each_acl_once(bench: Bench) -> None:
    """As MM2 would, but not again and again; nothing of it counts as ours."""
    sync = bench.start("sync.acls.removals.enabled = true")
    grant(bench.source, bench.acl("orders"))
    with denied(bench, "target", Operation.DESCRIBE):
        sync.sync(["orders"])
        bench.on_target(bench.remote(bench.acl("orders")))
        plan = sync.plan(["orders"])
        assert (plan.target_unreadable, plan.grants) == (True, ())
    revoke(bench.source, bench.acl("orders"))
    assert sync.plan(["orders"]) == AclPlan()


def test_without_an_authorizer_there_is_one_line_and_no_problem(
    pair: Pair,
    source_cluster: LocalCluster,
    target_cluster: LocalCluster,
    caplog: pytest.LogCaptureFixture,
) -> None:
    """MM2's testNoBrokerAclAuthorizer, and the same where only the target has none."""
    caplog.set_level(logging.INFO, "sparkmirror")
    for source, target, bare in (
        (source_cluster, pair.target, "source"),
        (pair.source, target_cluster, "target"),
    ):
        bench = Bench(source, target)
        with bench.start() as sync:
            caplog.clear()
            sync.sync([])
            sync.sync([])
        (record,) = [one for one in caplog.records if "no authorizer" in one.getMessage()]
        alias = bench.alias if bare == "source" else "target"
        assert f"cluster '{alias}' has no authorizer" in record.message
        assert record.levelno == logging.INFO
        assert bench.troubles == ()
        assert bench.counts == {}


def test_acl_requests_to_a_cluster_without_authorizer_report_it(
    target_cluster: LocalCluster,
) -> None:
    """All three requests raise the broker's own code."""
    bench = Bench(target_cluster, target_cluster)
    some = [bench.acl("orders")]
    with AclAdmin(bench.settings.target_admin) as orders:
        for order in (orders.describe, partial(orders.create, some), partial(orders.delete, some)):
            with pytest.raises(BrokerError) as refusal:
                order()
            assert refusal.value.code == SECURITY_DISABLED


def test_a_running_flow_carries_acls_over(pair: Pair, tmp_path: Path) -> None:
    """Through the command, every few seconds; and those that we brought go with the source's."""
    alias, topic, user = unique_name("run"), unique_name("orders"), unique_name("User:reader")
    create_topics(pair.source, {topic: 1})
    here = AclBinding(
        ResourceType.TOPIC, topic, PatternType.LITERAL, user, "*", Operation.READ, Permission.ALLOW
    )
    file = mirror_file(
        tmp_path,
        {alias: pair.source, "target": pair.target},
        f"{alias}->target.enabled = true",
        f"{alias}->target.topics = {topic}",
        "sync.topic.acls.interval.seconds = 1",
        "sync.acls.removals.enabled = true",
    )
    with MirrorProcess(file) as mirror:
        mirror.await_log(f"{alias}->target: RUNNING", PATIENCE_SECONDS)
        grant(pair.source, here)
        there = replace(here, name=f"{alias}.{topic}")
        eventually(lambda: acls(pair.target, user) == {there}, PATIENCE_SECONDS, "it is granted")
        revoke(pair.source, here)
        eventually(lambda: acls(pair.target, user) == set(), PATIENCE_SECONDS, "it is revoked")
        mirror.await_log("1 ACL revoked on cluster 'target'", PATIENCE_SECONDS)


def test_missing_describe_configs(bench: Bench, caplog: pytest.LogCaptureFixture) -> None:
    """MM2's testMissingDescribeConfigsAcl: said with cluster and right, and the rest continues."""
    topic = unique_name("secretive")
    create_topics(bench.source, {topic: 1}, {"retention.ms": "100000"})
    create_topics(bench.target, {f"{bench.alias}.{topic}": 1})
    settings = bench.settings
    status = FlowStatus(str(settings.flow))
    sync = ConfigSync(
        settings.flow,
        topic_rules(load_policy(settings.policy, settings.flow), settings.flow),
        status,
    )
    rule = replace(
        EVERYTHING,
        resource_type=ResourceType.TOPIC,
        name=topic,
        host=SYNC_HOST,
        operation=Operation.DESCRIBE_CONFIGS,
        permission=Permission.DENY,
    )
    remotes = {topic: f"{bench.alias}.{topic}"}
    with (
        ClusterAdmin(settings.source_admin) as source,
        ClusterAdmin(settings.target_admin) as target,
    ):
        grant(bench.source, rule)
        try:
            sync.sync(remotes, source, target)
            sync.sync(remotes, source, target)
        finally:
            revoke(bench.source, rule)
        (trouble,) = status.snapshot().problems
        assert "cannot read the configs of" in trouble
        assert "TOPIC_AUTHORIZATION_FAILED" in trouble
        assert sum("cannot read" in one.getMessage() for one in caplog.records) == 1
        eventually(
            lambda: sync.sync(remotes, source, target) or not status.snapshot().problems,
            PATIENCE_SECONDS,
            "it is read again",
        )
    assert status.snapshot().topology_changes["altered"] == 1
