# SPDX-License-Identifier: Apache-2.0
"""Certificates and passwords change under a flow, and nobody sends a signal.

They are mounted as Kubernetes does it. Source and target are listeners of one guarded broker, at
which whoever logs in has to do it again every few seconds, with what is right by then.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from support.clients.librdkafka import await_copy, compare_topics, create_topics
from support.clients.load_generator import Load, await_more
from support.clusters.secure_cluster import (
    CHANGING,
    MASTER,
    STORE_PASSWORD,
    USERS,
    SecureCluster,
    secure_cluster,
)
from support.data.certificates import Authority
from support.data.mounted_secret import MountedSecret
from support.data.security_configs import Keys, file_lines, login, reached, showing, trusting
from support.mirrors.java_connect import ConnectTopics, heartbeat_config
from support.mirrors.mirror_process import MirrorProcess
from support.mirrors.worker_process import WorkerProcess
from support.secret_search import leaks
from support.unique_names import unique_name
from support.waiting import PATIENCE_SECONDS, eventually

pytestmark = pytest.mark.thorough

SESSION_SECONDS = 3.0
TOKEN_SECONDS = 20.0
NEW_PASSWORD = "aft3r-the-change"
QUIET = {
    "heartbeats.replication.enabled": "false",
    "sync.topic.acls.enabled": "false",
    "replication.factor": "1",
}


@pytest.fixture(scope="module")
def secure(tmp_path_factory: pytest.TempPathFactory, kafka_version: str) -> Iterator[SecureCluster]:
    """One broker for all."""
    with secure_cluster(
        tmp_path_factory.mktemp("rotation"),
        version=kafka_version,
        reauthenticates_ms=round(SESSION_SECONDS * 1000),
    ) as started:
        yield started


@dataclass(slots=True)
class Rotation:
    """What is mounted: stores for the source, and a password for the target."""

    secure: SecureCluster
    mounted: MountedSecret
    old: Authority = field(init=False)
    new: Authority = field(default_factory=lambda: Authority("the next authority"))
    password: str = USERS[CHANGING]

    def __post_init__(self) -> None:
        self.old = self.secure.authority
        self.publish(self.old, trusted=(self.old,))

    def publish(
        self, shown: Authority, *, trusted: tuple[Authority, ...], is_broken: bool = False
    ) -> None:
        """Another version of all files; a broken one has half of a key store."""

        def fill(folder: Path) -> None:
            trusting(folder, "PKCS12", *trusted)
            showing(folder, shown)
            trusting(folder, "PEM", self.old)  # of the other listener, which does not change
            (folder / "password").write_text(self.password, encoding="utf-8")
            (folder / "store-password").write_text(STORE_PASSWORD, encoding="utf-8")
            if is_broken:
                whole = (folder / "me.p12").read_bytes()
                (folder / "me.p12").write_bytes(whole[: len(whole) // 2])

        self.mounted.publish(fill)

    def _at(self, name: str) -> str:
        return str(self.mounted.path / name)

    def _provided(self, name: str) -> str:
        return f"${{directory:{self.mounted.path}:{name}}}"

    def mutual(self) -> Keys:
        """The source: certificates on both sides."""
        password = self._provided("store-password")
        return {
            **reached(self.secure, "MUTUAL"),
            "ssl.truststore.type": "PKCS12",
            "ssl.truststore.location": self._at("trust.pkcs12"),
            "ssl.truststore.password": password,
            "ssl.keystore.type": "PKCS12",
            "ssl.keystore.location": self._at("me.p12"),
            "ssl.keystore.password": password,
        }

    def secret(self) -> Keys:
        """The target: a name and a password."""
        return {
            **reached(self.secure, "TLSLOGIN"),
            "ssl.truststore.type": "PEM",
            "ssl.truststore.location": self._at("trust.pem"),
            **login("SCRAM-SHA-512", CHANGING, self._provided("password")),
        }

    def certificates(self, afterwards: ExitStack, begun_anew: Callable[[], int]) -> None:
        """Both sides get certificates of another authority, in the order in which people do it."""
        secure, old, new = self.secure, self.old, self.new
        afterwards.callback(secure.trust, "MUTUAL", old)
        secure.trust("MUTUAL", old, new)
        before = begun_anew()
        self.publish(new, trusted=(old, new))
        eventually(lambda: begun_anew() > before, PATIENCE_SECONDS, "the new certificate is in use")
        afterwards.callback(secure.show, "MUTUAL", old.identity())
        secure.show("MUTUAL", new.identity())
        secure.trust("MUTUAL", new)
        before = begun_anew()
        self.publish(new, trusted=(new,))
        eventually(lambda: begun_anew() > before, PATIENCE_SECONDS, "the old one is not trusted")

    def passwords(self, afterwards: ExitStack, begun_anew: Callable[[], int]) -> None:
        """The user gets another password."""
        afterwards.callback(self.secure.set_scram_passwords, {CHANGING: USERS[CHANGING]})
        before = begun_anew()
        self.secure.set_scram_passwords({CHANGING: NEW_PASSWORD})
        self.password = NEW_PASSWORD
        self.publish(self.new, trusted=(self.new,))
        eventually(lambda: begun_anew() > before, PATIENCE_SECONDS, "the new password is in use")


def test_certificates_and_passwords_change_under_a_flow(
    secure: SecureCluster, tmp_path: Path
) -> None:
    """Nothing is lost, nothing comes twice; a broken store in between does no harm."""
    topic, flow = unique_name("orders"), "mutual->secret"
    create_topics(secure, {topic: 2})
    rotation = Rotation(secure, MountedSecret(tmp_path / "mounted"))
    file = tmp_path / "mm2.properties"
    lines = [
        "clusters = mutual, secret",
        *file_lines("mutual", rotation.mutual()),
        *file_lines("secret", rotation.secret()),
        *(f"{key} = {value}" for key, value in QUIET.items()),
        "emit.heartbeats.enabled = false",
        "emit.checkpoints.enabled = false",
        f"{flow}.enabled = true",
        f"topics = {topic}",
    ]
    file.write_text("\n".join([*lines, ""]), encoding="utf-8")
    with ExitStack() as afterwards, MirrorProcess(file) as mirror:

        def begun_anew() -> int:
            return mirror.log.count(f"restarted {flow}")

        with Load(secure, topic, per_second=1000, partitions=2) as load:
            mirror.await_log(f"{flow}: RUNNING", PATIENCE_SECONDS)
            rotation.publish(rotation.old, trusted=(rotation.old,), is_broken=True)
            mirror.await_log("mm2.properties was rejected", PATIENCE_SECONDS)
            await_more(secure, f"mutual.{topic}", load)
            assert begun_anew() == 0

            rotation.certificates(afterwards, begun_anew)
            await_more(secure, f"mutual.{topic}", load)
            rotation.passwords(afterwards, begun_anew)
            await_more(secure, f"mutual.{topic}", load)
        await_copy(secure, topic, secure, f"mutual.{topic}", PATIENCE_SECONDS)
        assert mirror.terminate()[0] == 0
    assert compare_topics(secure, topic, secure, f"mutual.{topic}") == load.sent
    assert NEW_PASSWORD not in mirror.log
    assert begun_anew() == 3


def test_a_token_in_a_file_is_renewed_under_a_flow(
    secure: SecureCluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By another program, as Kubernetes does it; the flow outlives several tokens."""
    topic, flow = unique_name("orders"), "token->hub"
    create_topics(secure, {topic: 2})
    mounted, issued = MountedSecret(tmp_path / "mounted"), list[str]()

    def renew() -> None:
        issued.append(secure.tokens.token(MASTER))
        mounted.publish(lambda folder: (folder / "token").write_text(f"{issued[-1]}\n"))

    renew()
    source = {
        **reached(secure, "LOGIN"),
        "sasl.mechanism": "OAUTHBEARER",
        "sasl.oauthbearer.token.endpoint.url": (mounted.path / "token").as_uri(),
    }
    file = tmp_path / "mm2.properties"
    lines = [
        "clusters = token, hub",
        *file_lines("token", source),
        *file_lines("hub", {**reached(secure, "LOGIN"), **login("PLAIN")}),
        *(f"{key} = {value}" for key, value in QUIET.items()),
        "emit.heartbeats.enabled = false",
        "emit.checkpoints.enabled = false",
        f"{flow}.enabled = true",
        f"topics = {topic}",
    ]
    file.write_text("\n".join([*lines, ""]), encoding="utf-8")
    with MirrorProcess(file) as mirror:

        def await_anew(times: int) -> None:
            again = f"restarted {flow}"
            eventually(lambda: mirror.log.count(again) == times, PATIENCE_SECONDS, again)

        with Load(secure, topic, per_second=1000, partitions=2) as load:
            mirror.await_log(f"{flow}: RUNNING", PATIENCE_SECONDS)
            monkeypatch.setattr(secure.tokens, "lifetime_seconds", TOKEN_SECONDS)
            for count in (1, 2):
                renew()
                await_anew(count)
                await_more(secure, f"token.{topic}", load)
        await_copy(secure, topic, secure, f"token.{topic}", PATIENCE_SECONDS)
        mirror.await_log("has expired", PATIENCE_SECONDS)
        said = next(line for line in mirror.log.splitlines() if "has expired" in line)
        assert f"The token in {(mounted.path / 'token').as_uri()} has expired" in said
        assert "Check token.sasl.oauthbearer.token.endpoint.url" in said
        renew()
        await_anew(3)
        assert mirror.terminate()[0] == 0
    assert compare_topics(secure, topic, secure, f"token.{topic}") == load.sent
    assert not any(token in mirror.log for token in issued)


def test_a_worker_and_its_connectors_follow_and_tell_no_secret(
    secure: SecureCluster, tmp_path: Path
) -> None:
    """The worker's own cluster wants the password that changes; one connector needs nothing."""
    topic, name, other = unique_name("orders"), unique_name("mirror"), unique_name("beats")
    create_topics(secure, {topic: 2})
    rotation = Rotation(secure, MountedSecret(tmp_path / "mounted"))
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    source, target = rotation.mutual(), rotation.secret()
    config = {
        "connector.class": "org.apache.kafka.connect.mirror.MirrorSourceConnector",
        "source.cluster.alias": "mutual",
        "target.cluster.alias": "secret",
        **{f"source.cluster.{key}": value for key, value in source.items()},
        **{f"target.cluster.{key}": value for key, value in target.items()},
        **{f"producer.override.{key}": value for key, value in target.items()},
        **QUIET,
        "tasks.max": "2",
        "topics": topic,
    }
    declared = {"config.providers": "directory"}  # what connectors may use
    logged = {
        "spark.eventLog.enabled": "true",
        "spark.eventLog.compress": "false",
        "spark.eventLog.dir": scratch.as_uri(),
    }
    own = {key.replace(".", "_"): value for key, value in {**target, **logged, **declared}.items()}
    places = {"TMPDIR": str(scratch), "SPARK_LOCAL_DIRS": str(scratch)}
    topics = ConnectTopics(unique_name("rotating"))
    with (
        ExitStack() as afterwards,
        WorkerProcess(secure, tmp_path, topics, environment=places, **own) as worker,
    ):

        def begun_anew() -> int:
            return worker.process.log.count(f"Connector {name} restarts: ")

        worker.await_health()
        plain = {"producer.override.bootstrap.servers": secure.bootstrap_servers}
        worker.create(other, heartbeat_config(secure) | plain)
        worker.create(name, config)
        with Load(secure, topic, per_second=500, partitions=2) as load:
            worker.await_states(name, "RUNNING", "RUNNING", "RUNNING")
            rotation.publish(rotation.old, trusted=(rotation.old,), is_broken=True)
            worker.process.await_log(f"Connector {name} keeps its settings", PATIENCE_SECONDS)
            eventually(
                lambda: (
                    "keystore" in worker.get(f"/connectors/{name}/status")["connector"]["warning"]
                ),
                PATIENCE_SECONDS,
                "the status says so",
                not_yet=(KeyError,),
            )
            await_more(secure, f"mutual.{topic}", load)
            assert begun_anew() == 0

            rotation.certificates(afterwards, begun_anew)
            await_more(secure, f"mutual.{topic}", load)
            rotation.passwords(afterwards, begun_anew)
            worker.process.await_log(
                "used for new connections to the worker's cluster", PATIENCE_SECONDS
            )
            await_more(secure, f"mutual.{topic}", load)
        await_copy(secure, topic, secure, f"mutual.{topic}", PATIENCE_SECONDS)
        worker.await_states(name, "RUNNING", "RUNNING", "RUNNING")
        worker.request_ok("PUT", f"/connectors/{other}/pause")  # written with the new password
        worker.await_states(other, "PAUSED", "PAUSED")
        assert f"Connector {other} restarts: " not in worker.process.log
        secrets = [*USERS.values(), NEW_PASSWORD, STORE_PASSWORD, "PRIVATE KEY"]
        data = secure.cluster.brokers[0].data
        assert leaks(secrets, worker.process, scratch, data, connectors=(name, other)) == []
        seen = leaks([topic], worker.process, scratch, data, connectors=(name, other))
        assert f"/connectors/{name}/config" in seen  # what is no secret is found
        assert any(topics.configs in place for place in seen)
        assert worker.process.terminate()[0] == 0
    assert compare_topics(secure, topic, secure, f"mutual.{topic}") == load.sent
