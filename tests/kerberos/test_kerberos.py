# SPDX-License-Identifier: Apache-2.0
"""Kerberos with a real KDC and real brokers: `make kerberos`.

Two clusters, each with its own user, unknown to the other one. Sessions end every three
seconds (KIP-368) and tickets after forty, so that both are renewed while a test looks.
"""

from __future__ import annotations

import base64
import time
from collections.abc import Iterator, Mapping
from pathlib import Path

import gssapi
import pytest

from sparkmirror.config.mirror_config import MirrorConfig
from sparkmirror.devcluster.cluster import start_all
from sparkmirror.errors import AuthenticationError
from sparkmirror.kafka.admin import ClusterAdmin
from sparkmirror.wire.settings import ConnectionSettings
from support.clients.librdkafka import await_copy, compare_topics, create_topics, numbered, produce
from support.clients.load_generator import Load
from support.clusters.kerberos_cluster import KerberosCluster, Keys, jaas
from support.data.security_configs import file_lines
from support.mirrors.mirror_process import MirrorProcess
from support.peers.kerberos_realm import NAME, KerberosRealm
from support.secret_search import leaks
from support.unique_names import unique_name
from support.waiting import eventually

FLOW_SECONDS = 90.0
SESSION_MS = 3000
TICKET_SECONDS = 40
KEY = slice(42, 72)  # where the first key is in a keytab of these users, in threes for base64
QUIET = (
    "emit.heartbeats.enabled = false",
    "heartbeats.replication.enabled = false",
    "emit.checkpoints.enabled = false",
    "sync.topic.acls.enabled = false",
    "replication.factor = 1",
)


@pytest.fixture(scope="module")
def realm(tmp_path_factory: pytest.TempPathFactory) -> Iterator[KerberosRealm]:
    """The KDC, which this process finds, too."""
    folder = tmp_path_factory.mktemp("realm")
    with (
        KerberosRealm(folder, ticket_seconds=TICKET_SECONDS) as started,
        pytest.MonkeyPatch.context() as patch,
    ):
        for name, value in started.environment.items():
            patch.setenv(name, value)
        yield started


@pytest.fixture(scope="module")
def clusters(
    realm: KerberosRealm, tmp_path_factory: pytest.TempPathFactory, kafka_version: str
) -> Iterator[dict[str, KerberosCluster]]:
    """`source` is the service kafka, as usual; `target` has a name that must be said."""
    folder = tmp_path_factory.mktemp("kerberos")
    made = {
        name: KerberosCluster(
            name,
            folder / name,
            realm,
            version=kafka_version,
            user=user,
            service=service,
            reauthenticates_ms=SESSION_MS,
        )
        for name, user, service in (("source", "reader", "kafka"), ("target", "writer", "bus"))
    }
    try:
        start_all(one.cluster for one in made.values())
        yield made
    finally:
        for one in made.values():
            one.cluster.stop()


@pytest.fixture(scope="module")
def source(clusters: dict[str, KerberosCluster]) -> KerberosCluster:
    """Its user is reader."""
    return clusters["source"]


@pytest.fixture(scope="module")
def target(clusters: dict[str, KerberosCluster]) -> KerberosCluster:
    """Its user is writer."""
    return clusters["target"]


def written(folder: Path, ways: Mapping[str, Keys], *lines: str) -> Path:
    """A file with these clusters."""
    text = [f"clusters = {', '.join(ways)}", *QUIET]
    for alias, keys in ways.items():
        text += file_lines(alias, keys)
    file = folder / "mm2.properties"
    file.write_text("\n".join([*text, *lines, ""]), encoding="utf-8")
    return file


def test_records_flow_while_sessions_and_tickets_end(
    realm: KerberosRealm, source: KerberosCluster, target: KerberosCluster, tmp_path: Path
) -> None:
    """With keytabs and nothing else; connections stay, no record is lost or comes twice."""
    topic = unique_name("orders")
    create_topics(source, {topic: 2})
    ways = {
        "source": {**source.reached("LOGIN"), **source.login()},
        "target": {**target.reached("TLSLOGIN"), **target.login()},
    }
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    lines = (
        "source->target.enabled = true",
        f"topics = {topic}",
        "spark.eventLog.enabled = true",
        "spark.eventLog.compress = false",
        f"spark.eventLog.dir = {scratch.as_uri()}",
    )
    file = written(tmp_path, ways, *lines)
    ports = {int(ways[one]["bootstrap.servers"].rpartition(":")[2]) for one in ways}
    # Before the start: this writes the keytabs again, and the mirror would reload them.
    contents = [realm.keytab(one.user).read_bytes()[KEY] for one in (source, target)]
    keys = [base64.b64encode(one).decode() for one in contents]
    places = {"TMPDIR": str(scratch), "SPARK_LOCAL_DIRS": str(scratch)}
    with MirrorProcess(file, environment=places) as mirror:
        with Load(source, topic, per_second=1000, partitions=2):
            mirror.await_log("source->target: RUNNING", FLOW_SECONDS)
            before, since = realm.issued(source.user), dict[tuple[int, int], float]()

            def have_outlived_their_tickets() -> bool:
                now = time.monotonic()
                present = {
                    (worker.pid, one.laddr.port)
                    for worker in mirror.python_workers()
                    for one in worker.net_connections("tcp")
                    if one.raddr and one.raddr.port in ports
                }
                for one in present:
                    since.setdefault(one, now)
                return bool(present) and all(
                    now - since[one] > TICKET_SECONDS + 2 * SESSION_MS / 1000 for one in present
                )

            eventually(have_outlived_their_tickets, FLOW_SECONDS, "connections that stay")
            assert realm.issued(source.user) > before
        await_copy(source, topic, target, f"source.{topic}", FLOW_SECONDS)
        assert compare_topics(source, topic, target, f"source.{topic}") > 20_000
        assert leaks(keys, mirror, scratch) == []
        files = [one.read_bytes() for one in scratch.rglob("*") if one.is_file()]
        assert files
        assert [one for one in files if any(key in one for key in contents)] == []
        assert mirror.terminate()[0] == 0
    assert [one for one in (*keys, "RETRYING", "FAILED") if one in mirror.log] == []


def stale(cluster: KerberosCluster, user: str = "stale") -> Keys:
    """The key was changed after the keytab was made."""
    cluster.realm.add(user)
    line = jaas(keytab=cluster.realm.keytab(user), principal=f"{user}@{NAME}")
    cluster.realm.change_key(user)
    return {**cluster.reached("LOGIN"), "sasl.jaas.config": line}


def unknown(cluster: KerberosCluster) -> Keys:
    """The KDC has forgotten who we are."""
    cluster.realm.add("unknown")
    line = jaas(keytab=cluster.realm.keytab("unknown"), principal=f"unknown@{NAME}")
    cluster.realm.remove("unknown")
    return {**cluster.reached("LOGIN"), "sasl.jaas.config": line}


def elsewhere(cluster: KerberosCluster) -> Keys:
    """The brokers are called otherwise."""
    keys = {**cluster.reached("LOGIN"), **cluster.login()}
    return {**keys, "sasl.kerberos.service.name": "nobody"}


def ticketless(cluster: KerberosCluster) -> Keys:
    """Nobody has run kinit."""
    line = jaas(useTicketCache="true", ticketCache="/no/such/cache")
    return {**cluster.reached("LOGIN"), "sasl.jaas.config": line}


# What is wrong, what becomes of the flow, and what the sentence says.
WRONG_WAYS = {
    "stale": (stale, "FAILED", "differs from the KDC"),
    "unknown": (unknown, "FAILED", f"the KDC does not know unknown@{NAME}"),
    "elsewhere": (elsewhere, "FAILED", "the KDC does not know nobody/127.0.0.1"),
    "ticketless": (ticketless, "RETRYING", "there is no valid ticket in /no/such/cache"),
}


def test_an_invalid_flow_is_reported_and_does_not_affect_others(
    source: KerberosCluster, target: KerberosCluster, tmp_path: Path
) -> None:
    """By cluster and key, once."""
    topic = unique_name("orders")
    create_topics(source, {topic: 1})
    produce(source, topic, numbered(50))
    ways = {
        "right": {**source.reached("LOGIN"), **source.login()},
        "target": {**target.reached("LOGIN"), **target.login()},
        **{alias: way(source) for alias, (way, *_) in WRONG_WAYS.items()},
    }
    flows = [f"{one}->target.enabled = true" for one in ("right", *WRONG_WAYS)]
    with MirrorProcess(written(tmp_path, ways, *flows, f"topics = {topic}")) as mirror:
        await_copy(source, topic, target, f"right.{topic}", FLOW_SECONDS)
        for alias, (_, state, sentence) in WRONG_WAYS.items():
            begin = f"{alias}->target: {state} Cluster '{alias}': "
            mirror.await_log(begin, FLOW_SECONDS)
            (line,) = [one for one in mirror.log.splitlines() if begin in one]
            assert sentence in line
            assert f"{alias}.sasl.jaas.config" in line
        assert mirror.terminate()[0] == 0


# --- clients of the control plane, without Spark


def connection(keys: Keys) -> ConnectionSettings:
    """The admin client of a cluster that is reached so."""
    lines = [*file_lines("a", keys), "clusters = a, b", "b.bootstrap.servers = 127.0.0.1:1"]
    config = MirrorConfig.parse("\n".join([*lines, "a->b.enabled = true"]))
    return config.flow_settings(config.flows()[0]).source_admin


def ask(keys: Keys) -> set[str]:
    """The topics that we may see."""
    with ClusterAdmin(connection(keys)) as admin:
        return set(admin.topics().found)


def test_a_ticket_cache_is_used_while_it_lasts_and_then_the_keytab(
    realm: KerberosRealm, source: KerberosCluster, tmp_path: Path
) -> None:
    """As Java does it; without the keytab a cache that is over is told."""
    seconds, cache = 8, tmp_path / "cache"
    realm.add("brief", ticket_seconds=seconds)
    keytab = realm.keytab("brief")
    made = gssapi.Credentials(
        usage="initiate",
        name=gssapi.Name("brief", name_type=gssapi.NameType.kerberos_principal),
        store={"client_keytab": str(keytab), "ccache": f"FILE:{cache}"},
    )
    assert made.lifetime > 0  # only whoever asks for it gets a ticket
    over = time.monotonic() + seconds
    reached = source.reached("LOGIN")
    cached = {**reached, "sasl.jaas.config": jaas(useTicketCache="true", ticketCache=str(cache))}
    both = jaas(keytab, principal="brief", useTicketCache="true", ticketCache=f"FILE:{cache}")
    issued = realm.issued("brief")
    ask(cached)
    ask({**reached, "sasl.jaas.config": both})
    other = jaas(principal="writer", useTicketCache="true", ticketCache=str(cache))
    with pytest.raises(AuthenticationError, match="no valid ticket for writer"):
        ask({**reached, "sasl.jaas.config": other})
    assert realm.issued("brief") == issued
    eventually(lambda: time.monotonic() > over + 1, 2 * seconds, "the ticket is over")
    with pytest.raises(AuthenticationError, match=r"no valid ticket in .*cache.*kinit"):
        ask(cached)
    assert realm.issued("brief") == issued
    ask({**reached, "sasl.jaas.config": both})
    assert realm.issued("brief") > issued


def test_without_a_line_the_tickets_are_the_system_s(
    realm: KerberosRealm, source: KerberosCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As other programs get them."""
    monkeypatch.setenv("KRB5CCNAME", "MEMORY:of-the-system")
    with pytest.raises(AuthenticationError, match="no valid ticket in the system's cache"):
        ask(source.reached("LOGIN"))
    monkeypatch.setenv("KRB5_CLIENT_KTNAME", str(realm.keytab(source.user)))
    ask(source.reached("LOGIN"))


def test_a_kdc_that_is_down_is_reported_and_retried(
    realm: KerberosRealm, source: KerberosCluster
) -> None:
    """Tickets that are there continue; without one it is a matter of time, and tried again."""
    keys = {}
    for name in ("early", "late"):
        realm.add(name, ticket_seconds=TICKET_SECONDS // 2)
        line = jaas(keytab=realm.keytab(name), principal=f"{name}@{NAME}")
        keys[name] = {**source.reached("LOGIN"), "sasl.jaas.config": line}
    ask(keys["early"])
    realm.stop()
    try:
        ask(keys["early"])
        with pytest.raises(AuthenticationError, match="Cluster 'a': Kerberos: no KDC") as caught:
            ask(keys["late"])
        assert caught.value.retriable
        assert "a.sasl.jaas.config" in str(caught.value)
    finally:
        realm.start()
    ask(keys["late"])


def test_a_wrong_key_is_tried_slowly_and_a_new_one_at_once(
    realm: KerberosRealm, source: KerberosCluster
) -> None:
    """KDCs lock accounts; clients are opened again all the time."""
    user = "forgetful"
    keys = stale(source, user)
    began, seconds, asked = time.monotonic(), 2.5, 0
    while time.monotonic() < began + seconds:
        with pytest.raises(AuthenticationError, match="differs from the KDC"):
            ask(keys)
        asked += 1
    assert asked > 10
    assert 0 < realm.refused(user) <= 4  # at 0 and 1 s; the library may ask twice
    line = jaas(keytab=realm.keytab(user, "renewed.keytab"), principal=f"{user}@{NAME}")
    with pytest.raises(AuthenticationError, match="differs from the KDC"):
        ask(keys)
    ask({**source.reached("LOGIN"), "sasl.jaas.config": line})


def test_two_principals_of_a_process_are_not_mixed_up(
    source: KerberosCluster, target: KerberosCluster
) -> None:
    """Who is nobody on a cluster is let in there, and sees nothing."""
    topic = unique_name("mine")
    for one in (source, target):
        create_topics(one, {topic: 1})
    for _ in range(2):
        assert topic in ask({**source.reached("TLSLOGIN"), **source.login()})
        assert topic in ask({**target.reached("LOGIN"), **target.login()})
        assert topic not in ask({**target.reached("LOGIN"), **source.login()})
