# SPDX-License-Identifier: Apache-2.0
"""Flows over every protocol and mechanism, between listeners of one real, guarded broker.

Source and target are the same broker, reached by different aliases: the rights of a flow are told
apart by its users, and one start is enough.
"""

from __future__ import annotations

import base64
import json
import re
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path

import pytest

from sparkmirror.devcluster.ports import ReservedPort
from support.clients.librdkafka import (
    await_copy,
    compare_topics,
    create_topics,
    end_offsets,
    numbered,
    produce,
    read_topic,
)
from support.clients.load_generator import Load, await_more
from support.clusters.secure_cluster import (
    MASTER,
    STORE_PASSWORD,
    USERS,
    SecureCluster,
    secure_cluster,
)
from support.data.certificates import Authority
from support.data.security_configs import WAYS, Keys, Way, file_lines, login, reached, trusting
from support.mirrors.java_connect import ConnectTopics
from support.mirrors.mirror_process import MirrorProcess
from support.mirrors.worker_process import WorkerProcess
from support.peers.secure_broker import AUTHENTICATE, SecureBroker
from support.peers.token_endpoint import ResponseMode
from support.secret_search import leaks, log_everything
from support.unique_names import unique_name
from support.waiting import PATIENCE_SECONDS, eventually

HUB = "scram512"
SESSION_SECONDS = 3.0
TOKEN_SECONDS = 8.0
BUCKETS, SPARKS_OWN = "s3cret-of-a-bucket", "s3cret-of-executors"
PROVIDER = "org.apache.kafka.common.config.provider.DirectoryConfigProvider"
_BASE64 = re.compile(rb"[A-Za-z0-9+/]{40,}")
QUIET = (
    "emit.heartbeats.enabled = false",
    "heartbeats.replication.enabled = false",
    "emit.checkpoints.enabled = false",
    "sync.topic.acls.enabled = false",
    "replication.factor = 1",
    "config.providers = directory",
    f"config.providers.directory.class = {PROVIDER}",
)


@pytest.fixture(scope="module")
def secure(
    tmp_path_factory: pytest.TempPathFactory, kafka_version: str, *, is_thorough: bool
) -> Iterator[SecureCluster]:
    """One broker for all; whoever logs in has to do it again every few seconds (KIP-368).

    In the ordinary run nothing lasts for so long that it would have to.
    """
    seconds = SESSION_SECONDS if is_thorough else PATIENCE_SECONDS
    with secure_cluster(
        tmp_path_factory.mktemp("secure"),
        version=kafka_version,
        reauthenticates_ms=round(seconds * 1000),
    ) as started:
        yield started


def clusters(
    secure: SecureCluster, folder: Path, aliases: Sequence[str], ways: Mapping[str, Way] = WAYS
) -> list[str]:
    """The lines about some ways to reach the broker."""
    lines = [f"clusters = {', '.join(aliases)}"]
    for alias in aliases:
        (folder / alias).mkdir()
        lines += file_lines(alias, ways[alias](secure, folder / alias))
    return lines


def test_records_flow_over_every_protocol_and_mechanism(
    secure: SecureCluster, tmp_path: Path, *, is_thorough: bool
) -> None:
    """One file with all of them: each flow copies its topic, and no secret is anywhere.

    The long version has each of them on both sides of a flow, and looks at Spark's pages, too.
    """
    aliases = list(WAYS)
    routes = list(zip(aliases, [*aliases[1:], aliases[0]], strict=True))
    if is_thorough:
        _copy_and_search(secure, tmp_path, routes)
    else:
        _copy_and_search(secure, tmp_path, routes[::2], has_pages=False)


@pytest.mark.thorough
def test_executors_get_secrets_in_memory_only(secure: SecureCluster, tmp_path: Path) -> None:
    """The same with executors that are processes and have folders of their own."""
    _copy_and_search(
        secure,
        tmp_path,
        [("mutual", "strimzi"), ("scram256", "inline")],
        "spark.master = local-cluster[2,2,1024]",
        "spark.cores.max = 4",
        "spark.scheduler.minRegisteredResourcesRatio = 1.0",
        "spark.authenticate = true",
        f"spark.authenticate.secret = {SPARKS_OWN}",
        are_told=SPARKS_OWN,
    )


@pytest.mark.thorough
def test_no_level_of_the_log_shows_a_secret(secure: SecureCluster, tmp_path: Path) -> None:
    """Not of what libraries say either: whole records, and the closure with an epoch's token."""
    topic, name = unique_name("orders"), unique_name("mirror")
    create_topics(secure, {topic: 1})
    produce(secure, topic, numbered(50))
    source, target = WAYS["plain"](secure, tmp_path), WAYS["scram256"](secure, tmp_path)
    config = {
        "connector.class": "org.apache.kafka.connect.mirror.MirrorSourceConnector",
        "source.cluster.alias": "plain",
        "target.cluster.alias": "scram256",
        **{f"source.cluster.{key}": value for key, value in source.items()},
        **{f"target.cluster.{key}": value for key, value in target.items()},
        **{f"producer.override.{key}": value for key, value in target.items()},
        **dict(line.split(" = ") for line in QUIET if "providers" not in line),
        "topics": topic,
    }
    topics = ConnectTopics(unique_name("loud"))
    worker_way = WAYS["tokens"](secure, tmp_path)
    own = {key.replace(".", "_"): value for key, value in worker_way.items()}
    with WorkerProcess(secure, tmp_path, topics, **own) as worker:
        worker.await_health()
        worker.request_ok("PUT", "/admin/loggers/root", {"level": "TRACE"})
        worker.create(name, config)
        await_copy(secure, topic, secure, f"plain.{topic}", PATIENCE_SECONDS)
        assert worker.get("/admin/loggers/py4j")["level"] == "TRACE"
        assert worker.process.terminate()[0] == 0
    said = worker.process.log.encode()
    said += _decoded(said)
    keys = [
        one.value for one in read_topic(secure, topics.configs)[0] if b"session" in (one.key or b"")
    ]
    assert keys
    password = USERS[MASTER].rpartition("'")[2]  # quotes may have been escaped
    secrets = [password.encode(), STORE_PASSWORD.encode(), b"PRIVATE KEY"]
    secrets += [json.loads(one)["key"].encode() for one in keys if one]
    assert [one for one in (*secrets, b"Invitation", b"Bearer") if one in said] == []


def _decoded(text: bytes) -> bytes:
    """What is base64 in it; py4j has a letter before it."""
    begins = [one[at:] for one in _BASE64.findall(text) for at in range(4)]
    return b"".join(base64.b64decode(one[: len(one) // 4 * 4]) for one in begins)


def _copy_and_search(
    secure: SecureCluster,
    tmp_path: Path,
    routes: Sequence[tuple[str, str]],
    *more: str,
    are_told: str = "",
    has_pages: bool = True,
) -> None:
    """Flows along these routes copy what there is; then everything they wrote is looked through.

    Executors `are_told` a secret by Spark itself, in their environment. Spark's own web pages and
    its event log cost a few seconds.
    """
    topics = {source: unique_name(source) for source, _ in routes}
    create_topics(secure, dict.fromkeys(topics.values(), 1))
    for topic in topics.values():
        produce(secure, topic, numbered(50))
    aliases = sorted({alias for route in routes for alias in route})
    lines = [*clusters(secure, tmp_path, aliases), *QUIET, *more]
    for source, target in routes:
        lines += [f"{source}->{target}.enabled = true"]
        lines += [f"{source}->{target}.topics = {topics[source]}"]
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    pages = ReservedPort()
    pages.reserve()
    lines += [f"spark.hadoop.fs.s3a.secret.key = {BUCKETS}"]
    if has_pages:
        lines += [
            f"spark.ui.port = {pages.number}",
            "spark.eventLog.enabled = true",
            "spark.eventLog.compress = false",
            f"spark.eventLog.dir = {scratch.as_uri()}",
        ]
    file = tmp_path / "mm2.properties"
    file.write_text("\n".join([*lines, ""]), encoding="utf-8")
    places = dict.fromkeys(("TMPDIR", "SPARK_LOCAL_DIRS", "SPARK_WORKER_DIR"), str(scratch))
    with MirrorProcess(file, environment=places) as mirror:
        log_everything(mirror)
        for source, topic in topics.items():
            await_copy(secure, topic, secure, f"{source}.{topic}", PATIENCE_SECONDS)
            assert compare_topics(secure, topic, secure, f"{source}.{topic}") == 50
        secrets = [*USERS.values(), STORE_PASSWORD, "PRIVATE KEY", BUCKETS]
        written = (scratch, secure.cluster.brokers[0].data)
        port = pages.number if has_pages else None
        assert leaks(secrets, mirror, *written, spark_port=port, file=file) == []
        if are_told:
            found = leaks([are_told], mirror, *written, spark_port=port, file=file)
            assert {where.partition(" of ")[0] for where in found} == {"environment"}
        assert [one.name for one in scratch.iterdir()]  # it was there that Spark wrote
        assert mirror.terminate()[0] == 0
    pages.release()
    assert [one for one in secrets if one in mirror.log] == []


def expired(secure: SecureCluster, folder: Path) -> Keys:
    """The broker's certificate is of yesterday."""
    return {**reached(secure, "EXPIRED"), **trusting(folder, "PEM", secure.authority)}


def elsewhere(secure: SecureCluster, folder: Path) -> Keys:
    """The broker's certificate is of another machine."""
    return {**reached(secure, "ELSEWHERE"), **trusting(folder, "PEM", secure.authority)}


def stranger(secure: SecureCluster, folder: Path) -> Keys:
    """The client trusts another CA."""
    return {**reached(secure, "TLS"), **trusting(folder, "PEM", Authority("somebody else"))}


def nameless(secure: SecureCluster, folder: Path) -> Keys:
    """We show no certificate."""
    return {**reached(secure, "MUTUAL"), **trusting(folder, "PEM", secure.authority)}


def forgetful(secure: SecureCluster, _folder: Path) -> Keys:
    """The password is another one."""
    return {**reached(secure, "LOGIN"), **login("SCRAM-SHA-256", password="another")}


def tokenless(secure: SecureCluster, _folder: Path) -> Keys:
    """Nobody listens where the tokens should come from."""
    return {
        **reached(secure, "LOGIN"),
        **login("OAUTHBEARER"),
        "sasl.oauthbearer.token.endpoint.url": "http://127.0.0.1:9/token",
    }


def careless(secure: SecureCluster, folder: Path) -> Keys:
    """The broker's certificate is of another machine, and that is all right."""
    return {**elsewhere(secure, folder), "ssl.endpoint.identification.algorithm": ""}


# What is wrong, what becomes of the flow, and what the sentence leads to.
WRONG_WAYS: Mapping[str, tuple[Way, str, str]] = {
    "expired": (expired, "FAILED", "renew it on the brokers"),
    "elsewhere": (elsewhere, "FAILED", "elsewhere.ssl.endpoint.identification.algorithm"),
    "stranger": (stranger, "FAILED", "stranger.ssl.truststore.location"),
    "nameless": (nameless, "FAILED", "nameless.ssl.keystore.location"),
    "forgetful": (forgetful, "FAILED", "forgetful.sasl.jaas.config"),
    "tokenless": (tokenless, "RETRYING", "tokenless.sasl.oauthbearer.token.endpoint.url"),
}


@pytest.mark.thorough
def test_an_invalid_flow_is_reported_and_does_not_affect_others(
    secure: SecureCluster, tmp_path: Path
) -> None:
    """Certificates, passwords and endpoints that are wrong: a sentence that names the key."""
    topic = unique_name("orders")
    create_topics(secure, {topic: 1})
    produce(secure, topic, numbered(50))
    right = ("plain", "careless")
    ways = {**WAYS, "careless": careless, **{alias: way for alias, (way, *_) in WRONG_WAYS.items()}}
    lines = [*clusters(secure, tmp_path, [*right, HUB, *WRONG_WAYS], ways), *QUIET]
    lines += [f"{alias}->{HUB}.enabled = true" for alias in (*right, *WRONG_WAYS)]
    lines += [f"{HUB}->forgetful.enabled = true", f"topics = {topic}"]
    file = tmp_path / "mm2.properties"
    file.write_text("\n".join([*lines, ""]), encoding="utf-8")
    with MirrorProcess(file) as mirror:
        for alias in right:
            await_copy(secure, topic, secure, f"{alias}.{topic}", PATIENCE_SECONDS)
        for alias, (_, state, remedy) in WRONG_WAYS.items():
            begin = f"{alias}->{HUB}: {state} Cluster '{alias}': "
            mirror.await_log(begin, PATIENCE_SECONDS)
            said = [line for line in mirror.log.splitlines() if begin in line]
            assert [remedy in line for line in said] == [True]  # once
        mirror.await_log(f"{HUB}->forgetful: FAILED", PATIENCE_SECONDS)
        produce(secure, topic, numbered(50, first=50))
        await_copy(secure, topic, secure, f"plain.{topic}", PATIENCE_SECONDS)
        secure.show("EXPIRED", secure.authority.identity())
        await_copy(secure, topic, secure, f"expired.{topic}", PATIENCE_SECONDS)
        assert mirror.terminate()[0] == 0
    assert compare_topics(secure, topic, secure, f"plain.{topic}") == 100


@pytest.mark.thorough
def test_a_refused_login_is_repeated_slowly(secure: SecureCluster, tmp_path: Path) -> None:
    """By the whole process, whatever of it wants to go there: accounts get locked."""
    with SecureBroker(login=b"nobody") as peer:
        refusing: Keys = {
            "bootstrap.servers": str(peer.address),
            "security.protocol": "SASL_PLAINTEXT",
            **login("PLAIN"),
        }
        lines = [
            *clusters(secure, tmp_path, ["plain"]),
            "clusters = plain, refusing",
            *file_lines("refusing", refusing),
            "plain->refusing.enabled = true",
            "refusing->plain.enabled = true",
        ]
        file = tmp_path / "mm2.properties"
        file.write_text("\n".join([*lines, ""]), encoding="utf-8")
        with MirrorProcess(file) as mirror:
            mirror.await_log("refused the login", PATIENCE_SECONDS)
            time.sleep(20)
            # After 0, 1, 3, 7 and 15 s; at the beginning several find it out at once.
            assert 4 <= peer.seen.count(AUTHENTICATE) <= 10
            assert mirror.terminate()[0] == 0


@pytest.mark.thorough
def test_logins_are_renewed_mid_stream(
    secure: SecureCluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Sessions and tokens end every few seconds: connections stay, no record is lost or twice."""
    flows = {"tokens": HUB, "plain": "strimzi"}
    topics = {source: unique_name(source) for source in flows}
    create_topics(secure, dict.fromkeys(topics.values(), 1))
    lines = [*clusters(secure, tmp_path, [*flows, *flows.values()]), *QUIET]
    for source, target in flows.items():
        lines += [f"{source}->{target}.enabled = true"]
        lines += [f"{source}->{target}.topics = {topics[source]}"]
    file = tmp_path / "mm2.properties"
    file.write_text("\n".join([*lines, ""]), encoding="utf-8")
    ports = {int(secure.servers(one).rpartition(":")[2]) for one in ("LOGIN", "TLSLOGIN")}
    monkeypatch.setattr(secure.tokens, "lifetime_seconds", TOKEN_SECONDS)
    with MirrorProcess(file) as mirror, ExitStack() as loads:
        for topic in topics.values():
            loads.enter_context(Load(secure, topic, per_second=1000))
        for source, target in flows.items():
            mirror.await_log(f"{source}->{target}: RUNNING", PATIENCE_SECONDS)
        issued, since = secure.tokens.issued, dict[tuple[int, int], float]()

        def have_outlived_their_tokens() -> bool:
            now = time.monotonic()
            present = connections(mirror, ports)
            for one in present:
                since.setdefault(one, now)
            return bool(present) and all(now - since[one] > 2 * TOKEN_SECONDS for one in present)

        # A broker hangs up on whoever does not log in again.
        eventually(have_outlived_their_tokens, PATIENCE_SECONDS, "connections that stay")
        assert secure.tokens.issued > issued
        loads.close()
        for source, topic in topics.items():
            await_copy(secure, topic, secure, f"{source}.{topic}", PATIENCE_SECONDS)
            compare_topics(secure, topic, secure, f"{source}.{topic}")
        assert mirror.terminate()[0] == 0


@pytest.mark.thorough
@pytest.mark.parametrize(
    "mood", [None, ResponseMode.BROKEN, ResponseMode.NONSENSE, ResponseMode.SILENT]
)
def test_a_token_endpoint_fails_for_a_while(
    secure: SecureCluster,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    mood: ResponseMode | None,
) -> None:
    """The flow waits for tokens and says so, the other one does not notice; nothing is lost."""
    waiting, other = unique_name("waiting"), unique_name("other")
    create_topics(secure, {waiting: 1, other: 1})
    key = "tokens.sasl.oauthbearer.token.endpoint.url"
    lines = [
        *clusters(secure, tmp_path, ["tokens", "plain", HUB]),
        *QUIET,
        f"tokens->{HUB}.enabled = true",
        f"tokens->{HUB}.topics = {waiting}",
        "tokens.sasl.login.read.timeout.ms = 1000",
        f"plain->{HUB}.enabled = true",
        f"plain->{HUB}.topics = {other}",
    ]
    file = tmp_path / "mm2.properties"
    file.write_text("\n".join([*lines, ""]), encoding="utf-8")
    monkeypatch.setattr(secure.tokens, "lifetime_seconds", TOKEN_SECONDS)
    with MirrorProcess(file) as mirror:
        with Load(secure, waiting, per_second=200) as load, Load(secure, other, per_second=200):
            for alias in ("tokens", "plain"):
                mirror.await_log(f"{alias}->{HUB}: RUNNING", PATIENCE_SECONDS)
            await_more(secure, f"tokens.{waiting}", load)
            with ExitStack() as again:
                if mood is None:
                    again.callback(secure.tokens.start)
                    secure.tokens.stop()
                else:
                    again.callback(setattr, secure.tokens, "mood", ResponseMode.WILLING)
                    secure.tokens.mood = mood
                mirror.await_log(key, PATIENCE_SECONDS)
                written = sum(end_offsets(secure, other).values())
                eventually(
                    lambda: sum(end_offsets(secure, f"plain.{other}").values()) >= written,
                    PATIENCE_SECONDS,
                    "the other flow is up to date",
                )
            await_more(secure, f"tokens.{waiting}", load)
        for alias, topic in (("tokens", waiting), ("plain", other)):
            await_copy(secure, topic, secure, f"{alias}.{topic}", PATIENCE_SECONDS)
            compare_topics(secure, topic, secure, f"{alias}.{topic}")
        assert [line for line in mirror.log.splitlines() if key in line and "plain->" in line] == []
        assert mirror.terminate()[0] == 0


def connections(mirror: MirrorProcess, ports: set[int]) -> set[tuple[int, int]]:
    """The tasks' connections to some ports: process and own port."""
    return {
        (worker.pid, one.laddr.port)
        for worker in mirror.python_workers()
        for one in worker.net_connections("tcp")
        if one.raddr and one.raddr.port in ports
    }
