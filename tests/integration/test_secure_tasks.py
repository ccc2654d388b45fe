# SPDX-License-Identifier: Apache-2.0
"""Tasks on a real broker that wants TLS, certificates and logins, again and again.

Copy tasks without Spark, from the broker to itself; it lets nobody in for longer than two seconds.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

import pytest

from sparkmirror.model import Secret
from sparkmirror.security.settings import (
    OAuthSettings,
    SaslMechanism,
    SaslSettings,
    SecurityProtocol,
    SecuritySettings,
    TlsSettings,
)
from sparkmirror.wire.sasl_authenticator import SaslAuthenticator
from sparkmirror.wire.settings import ConnectionSettings
from support.clients.librdkafka import compare_topics, numbered, produce
from support.clients.load_generator import Load
from support.clusters.secure_cluster import MASTER, USERS, SecureCluster, secure_cluster
from support.mirrors.copy_tasks import PARTITIONS, FakeControlChannel, TaskFlow
from support.waiting import PATIENCE_SECONDS, eventually

# In the ordinary run, flows over all protocols are in test_security.py.
pytestmark = pytest.mark.thorough

SESSION_MS = 2000
TOKEN_SECONDS = 4.0
LOAD_SECONDS = 5.0
RECORDS = 3_000


@pytest.fixture(scope="module")
def secured(
    tmp_path_factory: pytest.TempPathFactory, request: pytest.FixtureRequest
) -> Iterator[SecureCluster]:
    """A broker that wants to be told every two seconds who its clients are."""
    directory = tmp_path_factory.mktemp("secure-tasks")
    version = request.config.getoption("--kafka")
    with secure_cluster(directory, version=version, reauthenticates_ms=SESSION_MS) as cluster:
        cluster.tokens.lifetime_seconds = TOKEN_SECONDS
        yield cluster


class SecureFlow(TaskFlow):
    """Both sides are one broker, by its own listener."""

    def __init__(self, secured: SecureCluster, listener: str, security: SecuritySettings) -> None:
        super().__init__(secured.cluster, secured.cluster)
        self._settings = ConnectionSettings(
            "secured", (secured.servers(listener),), "secure-task", security=security
        )

    @property
    def changes(self) -> Mapping[str, object]:
        """Where the task connects to, and how."""
        return {"consumer": self._settings, "producer": self._settings}

    def check(self) -> int:
        """Nothing lost, nothing twice, everything in order."""
        assert not self.failures
        return compare_topics(self.source, self.topic, self.target, self.remote)


def tls(secured: SecureCluster, user: str = "") -> TlsSettings:
    """Who vouches for the broker, and for us."""
    settings = TlsSettings(trusted=secured.authority.pem)
    if not user:
        return settings
    own = secured.authority.identity(user)
    return replace(settings, chain=own.chain, key=Secret(own.key))


def login(mechanism: SaslMechanism, secured: SecureCluster, user: str = MASTER) -> SaslSettings:
    """A user's name and password, or where the tokens come from."""
    secret = Secret(USERS[user])
    if mechanism is SaslMechanism.OAUTHBEARER:
        trusted = TlsSettings(secured.authority.pem)
        source = OAuthSettings(secured.tokens.url, user, secret, tls=trusted)
        return SaslSettings(mechanism, oauth=source)
    return SaslSettings(mechanism, user, secret)


CASES = {
    "TLS": lambda secured: SecuritySettings(SecurityProtocol.SSL, tls(secured)),
    "MUTUAL": lambda secured: SecuritySettings(SecurityProtocol.SSL, tls(secured, MASTER)),
    "LOGIN": lambda secured: SecuritySettings(
        SecurityProtocol.SASL_PLAINTEXT, sasl=login(SaslMechanism.PLAIN, secured)
    ),
    "TLSLOGIN": lambda secured: SecuritySettings(
        SecurityProtocol.SASL_SSL, tls(secured), login(SaslMechanism.SCRAM_SHA_512, secured)
    ),
}


@pytest.mark.parametrize("listener", CASES)
def test_a_task_copies_over_every_protocol(secured: SecureCluster, listener: str) -> None:
    """From start to end, positions and all."""
    flow = SecureFlow(secured, listener, CASES[listener](secured))
    produce(flow.source, flow.topic, numbered(RECORDS, PARTITIONS))

    flow.finish()

    assert flow.check() == RECORDS


@pytest.mark.parametrize("mechanism", [SaslMechanism.SCRAM_SHA_256, SaslMechanism.OAUTHBEARER])
def test_logging_in_again_under_load_loses_nothing(
    secured: SecureCluster, mechanism: SaslMechanism, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also with tokens that die young: nothing lost, nothing twice, no connection lost either."""
    logins: Counter[SaslAuthenticator] = Counter()
    begin = SaslAuthenticator.authenticate

    def counted(self: SaslAuthenticator, versions: Any) -> None:
        logins[self] += 1
        begin(self, versions)

    monkeypatch.setattr(SaslAuthenticator, "authenticate", counted)
    security = SecuritySettings(SecurityProtocol.SASL_SSL, tls(secured), login(mechanism, secured))
    flow = SecureFlow(secured, "TLSLOGIN", security)
    issued = secured.tokens.issued
    load = Load(flow.source, flow.topic, per_second=2000, partitions=PARTITIONS)
    with flow.task() as driver:
        with load:
            time.sleep(LOAD_SECONDS)
        eventually(lambda: flow.copied() >= load.sent, PATIENCE_SECONDS, "all records arrive")

    assert flow.check() == load.sent
    assert _troubles(driver) == set()
    sessions = LOAD_SECONDS * 1000 // SESSION_MS
    assert max(logins.values()) > sessions, "it says again who it is before the broker forgets"
    assert len(logins) <= 6, "on the same connections"
    if mechanism is SaslMechanism.OAUTHBEARER:
        assert secured.tokens.issued - issued >= LOAD_SECONDS / TOKEN_SECONDS


def test_a_changed_password_is_a_problem_that_passes(secured: SecureCluster) -> None:
    """It is told with the key to look at, and nothing is lost when the password is right again."""
    security = SecuritySettings(
        SecurityProtocol.SASL_PLAINTEXT, sasl=login(SaslMechanism.SCRAM_SHA_256, secured, MASTER)
    )
    flow = SecureFlow(secured, "LOGIN", security)
    produce(flow.source, flow.topic, numbered(RECORDS, PARTITIONS))
    with flow.task() as driver:
        eventually(lambda: flow.copied() >= RECORDS, PATIENCE_SECONDS, "records arrive")
        secured.set_scram_passwords({MASTER: "something else"})
        try:
            eventually(lambda: "sasl.jaas.config" in _now(driver), PATIENCE_SECONDS, "it is told")
            assert "'secured'" in _now(driver)
            produce(flow.source, flow.topic, numbered(RECORDS, PARTITIONS, first=RECORDS))
        finally:
            secured.set_scram_passwords({MASTER: USERS[MASTER]})
        eventually(lambda: flow.copied() >= 2 * RECORDS, PATIENCE_SECONDS, "the rest arrives")
        eventually(lambda: not _now(driver), PATIENCE_SECONDS, "the trouble is over")

    assert flow.check() == 2 * RECORDS
    assert not any(USERS[MASTER] in text for text in _troubles(driver))


def _now(driver: FakeControlChannel) -> str:
    return driver.reports[-1].error if driver.reports else ""


def _troubles(driver: FakeControlChannel) -> set[str]:
    return {report.error for report in driver.reports if report.error}
