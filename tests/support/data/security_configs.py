# SPDX-License-Identifier: Apache-2.0
"""Client configurations for every security method.

Each is a function from the cluster and a directory for its stores to client keys without the alias;
together they use every store type and every form of a login.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path

from support.clusters.secure_cluster import (
    LISTENERS,
    MASTER,
    STORE_PASSWORD,
    USERS,
    SecureCluster,
    jaas_line,
)
from support.data.certificates import Authority, key_store, trust_store

Keys = dict[str, str]
Way = Callable[[SecureCluster, Path], Keys]

_STRIMZI = "io.strimzi.kafka.oauth.client.JaasClientOauthLoginCallbackHandler"
_KAFKA_LOGIN = (
    "org.apache.kafka.common.security.oauthbearer.secured.OAuthBearerLoginCallbackHandler"
)


def reached(secure: SecureCluster, listener: str) -> Keys:
    """Where a listener is, and what it speaks."""
    return {
        "bootstrap.servers": secure.servers(listener),
        "security.protocol": LISTENERS[listener],
    }


def trusting(folder: Path, kind: str, *authorities: Authority) -> Keys:
    """A trust store as a file."""
    file = folder / f"trust.{kind.lower()}"
    trust_store(file, kind, *authorities, password=STORE_PASSWORD)
    keys = {"ssl.truststore.location": str(file), "ssl.truststore.type": kind}
    return keys if kind == "PEM" else {**keys, "ssl.truststore.password": STORE_PASSWORD}


def login(mechanism: str, user: str = MASTER, password: str | None = None, **options: str) -> Keys:
    """A name and a password, on a JAAS line."""
    line = jaas_line(mechanism, user, USERS[user] if password is None else password, **options)
    return {"sasl.mechanism": mechanism, "sasl.jaas.config": line}


def tls(secure: SecureCluster, folder: Path) -> Keys:
    """TLS with a JKS store as keytool makes it."""
    keys = {**reached(secure, "TLS"), **trusting(folder, "JKS", secure.authority)}
    del keys["ssl.truststore.type"]  # JKS is the default
    return keys


def showing(folder: Path, authority: Authority) -> Keys:
    """A key store as a PKCS12 file."""
    identity = authority.identity(MASTER)
    file = key_store(folder / "me.p12", "PKCS12", identity, password=STORE_PASSWORD)
    return {
        "ssl.keystore.type": "PKCS12",
        "ssl.keystore.location": str(file),
        "ssl.keystore.password": STORE_PASSWORD,
    }


def mutual(secure: SecureCluster, folder: Path) -> Keys:
    """Mutual TLS with PKCS12 stores."""
    return {
        **reached(secure, "MUTUAL"),
        **trusting(folder, "PKCS12", secure.authority),
        **showing(folder, secure.authority),
    }


def mutual_inline(secure: SecureCluster, _folder: Path) -> Keys:
    """Mutual TLS with PEM texts in the file itself."""
    identity = secure.authority.identity(MASTER)
    return {
        **reached(secure, "MUTUAL"),
        "ssl.truststore.type": "PEM",
        "ssl.truststore.certificates": secure.authority.pem,
        "ssl.keystore.type": "PEM",
        "ssl.keystore.certificate.chain": identity.chain,
        "ssl.keystore.key": identity.key,
    }


def plain(secure: SecureCluster, folder: Path) -> Keys:
    """SASL_SSL with PLAIN, as services offer it."""
    return {
        **reached(secure, "TLSLOGIN"),
        **trusting(folder, "PEM", secure.authority),
        **login("PLAIN"),
        "ssl.protocol": "TLSv1.2",
    }


def scram_256(secure: SecureCluster, _folder: Path) -> Keys:
    return {**reached(secure, "LOGIN"), **login("SCRAM-SHA-256")}


def scram_512(secure: SecureCluster, folder: Path) -> Keys:
    """SASL_SSL with SCRAM and a PEM file."""
    return {
        **reached(secure, "TLSLOGIN"),
        **trusting(folder, "PEM", secure.authority),
        **login("SCRAM-SHA-512"),
    }


def tokens(secure: SecureCluster, folder: Path) -> Keys:
    """OAUTHBEARER with Kafka's own keys; whom to trust at the endpoint is on the JAAS line."""
    trusted = trusting(folder, "PEM", secure.authority)
    return {
        **reached(secure, "TLSLOGIN"),
        **trusted,
        **login("OAUTHBEARER", **trusted),
        "sasl.login.callback.handler.class": _KAFKA_LOGIN,
        "sasl.oauthbearer.token.endpoint.url": secure.tokens.url,
    }


def strimzi(secure: SecureCluster, folder: Path) -> Keys:
    """OAUTHBEARER with Strimzi's options; the secret is a file, as Kubernetes mounts it."""
    (folder / "client-secret").write_text(USERS[MASTER], encoding="utf-8")
    trusted = trusting(folder, "PEM", secure.authority)
    options = {
        **{f"oauth.{key}": value for key, value in trusted.items()},
        "oauth.client.id": MASTER,
        "oauth.client.secret": f"${{directory:{folder}:client-secret}}",
        "oauth.token.endpoint.uri": secure.tokens.url,
    }
    module = "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule"
    line = " ".join(f'{name}="{value}"' for name, value in options.items())
    return {
        **reached(secure, "LOGIN"),
        "sasl.mechanism": "OAUTHBEARER",
        "sasl.login.callback.handler.class": _STRIMZI,
        "sasl.jaas.config": f"{module} required {line} ;",
    }


# By the alias of the cluster that is reached so.
WAYS: Mapping[str, Way] = {
    "tls": tls,
    "mutual": mutual,
    "inline": mutual_inline,
    "plain": plain,
    "scram256": scram_256,
    "scram512": scram_512,
    "tokens": tokens,
    "strimzi": strimzi,
}


def file_lines(alias: str, keys: Mapping[str, str]) -> list[str]:
    """The keys of a cluster as lines of a properties file."""
    return [f"{alias}.{key} = {property_text(value)}" for key, value in keys.items()]


def property_text(value: str) -> str:
    """A value as a properties file has it."""
    return value.replace("\\", "\\\\").replace("\n", "\\n")
