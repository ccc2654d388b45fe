# SPDX-License-Identifier: Apache-2.0
"""A real broker with a listener per security method, users, and an authorizer.

    PLAINTEXT   for test clients, which may do everything
    TLS         SSL: any client that trusts the CA, with all rights
    MUTUAL      SSL with a client certificate
    LOGIN       SASL_PLAINTEXT: PLAIN, SCRAM-SHA-256, SCRAM-SHA-512, OAUTHBEARER
    TLSLOGIN    SASL_SSL: the same
    EXPIRED     SSL with an expired certificate
    ELSEWHERE   SSL with a certificate of another host

The principal is `User:<name>` for every listener and mechanism. Only `MASTER` and `CHANGING`, whose
password tests change, have rights without ACLs.
"""

from __future__ import annotations

import shutil
import ssl
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path

from confluent_kafka.admin import (
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    ResourceType,
    ScramCredentialInfo,
    ScramMechanism,
    UserScramCredentialUpsertion,
)

from sparkmirror.devcluster.cluster import LocalCluster
from sparkmirror.devcluster.jars import DEFAULT_KAFKA
from sparkmirror.devcluster.jvm import QUICK_START
from support.clients.librdkafka import admin
from support.clusters.memory_disk import keep_in_memory
from support.data.certificates import Authority, Identity, key_store, trust_store
from support.peers.token_endpoint import AUDIENCE, ISSUER, TokenEndpoint
from support.unique_names import unique_name
from support.waiting import PATIENCE_SECONDS

MASTER, CHANGING = "master", "changing"
# Quotes, a blank and a backslash: a JAAS line must say them, too.
USERS = {
    MASTER: "master's s3cret",
    "reader": "r3ader \\ secret",
    "writer": 'wr1ter "secret"',
    CHANGING: "b3fore-the-change",
}
MECHANISMS = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", "OAUTHBEARER")
LISTENERS = {
    "TLS": "SSL",
    "MUTUAL": "SSL",
    "LOGIN": "SASL_PLAINTEXT",
    "TLSLOGIN": "SASL_SSL",
    "EXPIRED": "SSL",
    "ELSEWHERE": "SSL",
}
STORE_PASSWORD = "changeit-2"

_OAUTH = "org.apache.kafka.common.security.oauthbearer"
_MODULES = {
    "PLAIN": "org.apache.kafka.common.security.plain.PlainLoginModule",
    "SCRAM-SHA-256": "org.apache.kafka.common.security.scram.ScramLoginModule",
    "SCRAM-SHA-512": "org.apache.kafka.common.security.scram.ScramLoginModule",
    "OAUTHBEARER": f"{_OAUTH}.OAuthBearerLoginModule",
}
_SCRAM = (ScramMechanism.SCRAM_SHA_256, ScramMechanism.SCRAM_SHA_512)
_ITERATIONS = 4096


class SecureCluster:
    """The broker, its CA and its token endpoint."""

    def __init__(
        self,
        directory: Path,
        authority: Authority,
        tokens: TokenEndpoint,
        *,
        name: str = "secure",
        version: str = DEFAULT_KAFKA,
        reauthenticates_ms: int = 0,
    ) -> None:
        self.authority = authority
        self.tokens = tokens
        self.directory = directory
        jwks = directory / "jwks.json"
        jwks.write_text(tokens.keys(), encoding="utf-8")
        self.cluster = LocalCluster(
            name,
            directory / "kafka",
            version=version,
            listeners=LISTENERS,
            config={
                "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
                "allow.everyone.if.no.acl.found": "false",
                "super.users": f"User:ANONYMOUS;User:{MASTER};User:{CHANGING}",
                "ssl.principal.mapping.rules": "RULE:^CN=(.*)$/$1/",
                "sasl.oauthbearer.jwks.endpoint.url": jwks.as_uri(),
                "sasl.oauthbearer.expected.audience": AUDIENCE,
                "sasl.oauthbearer.expected.issuer": ISSUER,
                **self._tls("TLS", self.authority.identity()),
                **self._tls("MUTUAL", self.authority.identity()),
                **self._tls("TLSLOGIN", self.authority.identity()),
                **self._tls("EXPIRED", self.authority.expired()),
                **self._tls("ELSEWHERE", self.authority.wrong_host()),
                **_of("MUTUAL", {"ssl.client.auth": "required"}),
                **_of("MUTUAL", self._trust(self.authority)),
                **_logins("LOGIN", reauthenticates_ms),
                **_logins("TLSLOGIN", reauthenticates_ms),
            },
            jvm_options=(
                *QUICK_START,
                f"-Dorg.apache.kafka.sasl.oauthbearer.allowed.urls={jwks.as_uri()}",
                f"-Dorg.apache.kafka.sasl.oauthbearer.allowed.files={jwks}",
            ),
        )

    @property
    def bootstrap_servers(self) -> str:
        return self.cluster.bootstrap_servers

    def servers(self, listener: str) -> str:
        """Return the bootstrap servers of a listener."""
        return self.cluster.listener_servers(listener)

    def start(self) -> None:
        """Start the broker and create its users."""
        self.cluster.start()
        self.set_scram_passwords(USERS)

    # --- what changes while it runs

    def set_scram_passwords(self, passwords: Mapping[str, str]) -> None:
        client = admin(self)
        for mechanism in _SCRAM:  # a user can be changed once a request
            changes = [
                UserScramCredentialUpsertion(
                    user, ScramCredentialInfo(mechanism, _ITERATIONS), password.encode()
                )
                for user, password in passwords.items()
            ]
            for future in client.alter_user_scram_credentials(changes).values():
                future.result(PATIENCE_SECONDS)

    def show(self, listener: str, identity: Identity) -> None:
        """Change the certificate of a listener."""
        self._reconfigure(_of(listener, self._identity(listener, identity)))

    def trust(self, listener: str, *authorities: Authority) -> None:
        """Change the client CAs of a listener."""
        self._reconfigure(_of(listener, self._trust(*authorities)))

    def _reconfigure(self, settings: Mapping[str, str]) -> None:
        client = admin(self)
        entries = [
            ConfigEntry(name, value, incremental_operation=AlterConfigOpType.SET)
            for name, value in settings.items()
        ]
        node = str(self.cluster.brokers[0].node_id)
        wanted = [ConfigResource(ResourceType.BROKER, node, incremental_configs=entries)]
        for future in client.incremental_alter_configs(wanted).values():
            future.result(PATIENCE_SECONDS)

    # --- files of the broker

    def _tls(self, listener: str, identity: Identity) -> dict[str, str]:
        return _of(listener, self._identity(listener, identity))

    def _identity(self, listener: str, identity: Identity) -> dict[str, str]:
        file = key_store(self._new_file(listener), "PEM", identity)
        return {"ssl.keystore.type": "PEM", "ssl.keystore.location": str(file)}

    def _trust(self, *authorities: Authority) -> dict[str, str]:
        file = trust_store(self._new_file("trust"), "PEM", *authorities)
        return {"ssl.truststore.type": "PEM", "ssl.truststore.location": str(file)}

    def _new_file(self, what: str) -> Path:
        """Return a new file name: brokers reload a changed name, but not always changed content."""
        return self.directory / f"broker-{unique_name(what.lower())}.pem"


def jaas_line(mechanism: str, user: str, password: str, **more: str) -> str:
    """Return a JAAS line for a user."""
    names = ("clientId", "clientSecret") if mechanism == "OAUTHBEARER" else ("username", "password")
    options = {names[0]: user, names[1]: password, **more}
    quoted = (f'{name}="{_escaped(value)}"' for name, value in options.items())
    return f"{_MODULES[mechanism]} required {' '.join(quoted)};"


@contextmanager
def secure_cluster(
    directory: Path, *, version: str = DEFAULT_KAFKA, reauthenticates_ms: int = 0
) -> Iterator[SecureCluster]:
    """Run the broker and its token endpoint (https) in an existing directory."""
    authority = Authority()
    endpoint = key_store(directory / "endpoint.pem", "PEM", authority.identity())
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(endpoint)
    with ExitStack() as stack:
        tokens = stack.enter_context(TokenEndpoint(USERS, context=context))
        secure = SecureCluster(
            directory, authority, tokens, version=version, reauthenticates_ms=reauthenticates_ms
        )
        for folder in keep_in_memory(secure.cluster):
            stack.callback(shutil.rmtree, folder)
        stack.callback(secure.cluster.stop)
        secure.start()
        yield secure


def _logins(listener: str, reauthenticates_ms: int) -> dict[str, str]:
    known = "".join(f' user_{user}="{_escaped(password)}"' for user, password in USERS.items())
    settings = {"sasl.enabled.mechanisms": ",".join(MECHANISMS)}
    for mechanism in MECHANISMS:
        options = known if mechanism == "PLAIN" else ""
        prefix = mechanism.lower()
        settings[f"{prefix}.sasl.jaas.config"] = f"{_MODULES[mechanism]} required{options};"
        settings[f"{prefix}.connections.max.reauth.ms"] = str(reauthenticates_ms)
    settings["oauthbearer.sasl.server.callback.handler.class"] = (
        f"{_OAUTH}.OAuthBearerValidatorCallbackHandler"
    )
    return _of(listener, settings)


def _of(listener: str, settings: Mapping[str, str]) -> dict[str, str]:
    return {f"listener.name.{listener.lower()}.{key}": value for key, value in settings.items()}


def _escaped(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"')
