# SPDX-License-Identifier: Apache-2.0
"""Real brokers that require Kerberos, and the configuration of their clients.

    PLAINTEXT   for test clients, which may do everything
    LOGIN       SASL_PLAINTEXT: GSSAPI
    TLSLOGIN    SASL_SSL: GSSAPI

A cluster has one user with all rights, and its own service name.
"""

from __future__ import annotations

from pathlib import Path

from sparkmirror.devcluster.cluster import LocalCluster
from sparkmirror.devcluster.jvm import QUICK_START
from support.data.certificates import Authority, key_store, trust_store
from support.peers.kerberos_realm import NAME, KerberosRealm

LISTENERS = {"LOGIN": "SASL_PLAINTEXT", "TLSLOGIN": "SASL_SSL"}
MODULE = "com.sun.security.auth.module.Krb5LoginModule"

Keys = dict[str, str]


class KerberosCluster:
    """A broker with principal `service/localhost`, and its user."""

    def __init__(
        self,
        name: str,
        folder: Path,
        realm: KerberosRealm,
        *,
        version: str,
        user: str,
        service: str,
        reauthenticates_ms: int,
    ) -> None:
        self.realm = realm
        self.user = user
        self.service = service
        self.authority = Authority(name)
        self._folder = folder
        folder.mkdir()
        principal = f"{service}/localhost"
        realm.add(principal)
        realm.add(user)
        line = jaas(
            keytab=realm.keytab(principal),
            principal=f"{principal}@{NAME}",
            storeKey="true",
            isInitiator="false",
        )
        certificate = key_store(folder / "broker.pem", "PEM", self.authority.identity())
        config = {
            "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
            "super.users": f"User:ANONYMOUS;User:{user}",
            "sasl.kerberos.service.name": service,
            "listener.name.tlslogin.ssl.keystore.type": "PEM",
            "listener.name.tlslogin.ssl.keystore.location": str(certificate),
        }
        for listener in ("login", "tlslogin"):
            prefix = f"listener.name.{listener}"
            config |= {
                f"{prefix}.sasl.enabled.mechanisms": "GSSAPI",
                f"{prefix}.gssapi.sasl.jaas.config": line,
                f"{prefix}.gssapi.connections.max.reauth.ms": str(reauthenticates_ms),
            }
        self.cluster = LocalCluster(
            name,
            folder / "kafka",
            version=version,
            listeners=LISTENERS,
            config=config,
            jvm_options=(*QUICK_START, f"-Djava.security.krb5.conf={realm.krb5_conf}"),
        )

    @property
    def bootstrap_servers(self) -> str:
        return self.cluster.bootstrap_servers

    def reached(self, listener: str) -> Keys:
        """Return the address and protocol lines of the configuration."""
        keys = {
            "bootstrap.servers": self.cluster.listener_servers(listener),
            "security.protocol": LISTENERS[listener],
            "sasl.kerberos.service.name": self.service,
        }
        if LISTENERS[listener] == "SASL_SSL":
            store = trust_store(self._folder / "trust.pem", "PEM", self.authority)
            keys |= {"ssl.truststore.location": str(store), "ssl.truststore.type": "PEM"}
        return keys

    def login(self) -> Keys:
        """Return the usual JAAS line of a service with its keytab."""
        line = jaas(keytab=self.realm.keytab(self.user), principal=f"{self.user}@{NAME}")
        return {"sasl.jaas.config": line}


def jaas(keytab: Path | None = None, **options: str) -> str:
    """A line as Java reads it; GSSAPI is the default mechanism."""
    if keytab is not None:
        options = {"useKeyTab": "true", "keyTab": str(keytab), **options}
    quoted = " ".join(f'{name}="{value}"' for name, value in options.items())
    return f"{MODULE} required {quoted};"
