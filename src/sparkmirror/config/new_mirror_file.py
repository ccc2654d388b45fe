# SPDX-License-Identifier: Apache-2.0
"""A new MM2 properties file with comments, from a few answers. Pure.

Passwords are never in this file: a JAAS line refers to a second file or to the environment.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from sparkmirror.config.keys.table import CONNECTOR, TOP_LEVEL
from sparkmirror.errors import ConfigError
from sparkmirror.model import Flow, Secret
from sparkmirror.security.settings import SaslMechanism, SecurityProtocol

PASSWORD_MECHANISMS = (
    SaslMechanism.PLAIN,
    SaslMechanism.SCRAM_SHA_256,
    SaslMechanism.SCRAM_SHA_512,
)
_PLAIN_MODULE = "org.apache.kafka.common.security.plain.PlainLoginModule"
_SCRAM_MODULE = "org.apache.kafka.common.security.scram.ScramLoginModule"
_ALIAS = re.compile(r"[A-Za-z0-9_-]+")
# Written as comments, so that a user finds the keys that most files need at some time.
_SUGGESTED = (
    ("sync.group.offsets.enabled", "true"),
    ("groups", "billing, shipping-.*"),
    ("tasks.max", "8"),
    ("replication.factor", "3"),
    ("sync.topic.acls.enabled", "false"),
)


@dataclass(frozen=True, slots=True)
class ClusterAnswers:
    """How to connect to one cluster; `user` is empty without SASL."""

    alias: str
    servers: str
    protocol: SecurityProtocol = SecurityProtocol.PLAINTEXT
    mechanism: SaslMechanism = SaslMechanism.PLAIN
    user: str = ""
    password: Secret | None = None  # None: from the environment
    truststore: str = ""

    @property
    def uses_sasl(self) -> bool:
        return self.protocol in (SecurityProtocol.SASL_PLAINTEXT, SecurityProtocol.SASL_SSL)

    @property
    def variable(self) -> str:
        """The environment variable with the password."""
        return f"{re.sub('[^A-Z0-9]', '_', self.alias.upper())}_PASSWORD"


@dataclass(frozen=True, slots=True)
class MirrorAnswers:
    """Everything that a new file is made of."""

    source: ClusterAnswers
    target: ClusterAnswers
    topics: str
    secrets_path: str  # absolute; written only if there is a password

    @property
    def clusters(self) -> tuple[ClusterAnswers, ClusterAnswers]:
        return self.source, self.target

    @property
    def flow(self) -> Flow:
        return Flow(self.source.alias, self.target.alias)


def check_answers(answers: MirrorAnswers) -> None:
    """Raise ConfigError for an answer that cannot be written to a file."""
    for cluster in answers.clusters:
        if not _ALIAS.fullmatch(cluster.alias):
            raise ConfigError(
                f"The alias {cluster.alias!r} is not valid: use letters, digits, '-' and '_'. It "
                "becomes part of topic names and of keys."
            )
        if cluster.uses_sasl and not cluster.user:
            raise ConfigError(
                f"Cluster {cluster.alias} has no user name, which {cluster.protocol.value} needs."
            )
    if answers.source.alias == answers.target.alias:
        raise ConfigError(
            f"Both clusters have the alias {answers.source.alias}: name them differently."
        )
    texts = [answers.topics, answers.secrets_path]
    for one in answers.clusters:
        texts += [one.servers, one.user, one.truststore]
        texts.append(one.password.reveal() if one.password else "")
    if any(char in answers.secrets_path for char in ":}\\"):
        raise ConfigError(
            f"The path {answers.secrets_path} has a ':', '}}' or backslash, which a reference to "
            "a file cannot have."
        )
    if any(not char.isprintable() for text in texts for char in text):
        raise ConfigError("An answer has a control character, for example a line break.")


def mirror_file_text(answers: MirrorAnswers) -> str:
    """Return the content of the properties file."""
    flow = answers.flow
    lines = [
        f"# Replicates topics from {flow.source} to {flow.target}. Every key is explained in",
        "# docs/configuration.md; `sparkmirror check` prints every effective value and its origin.",
        "",
        f"# {TOP_LEVEL['clusters'].doc}",
        _line("clusters", f"{flow.source}, {flow.target}"),
    ]
    for cluster in answers.clusters:
        lines += ["", f"# Cluster {cluster.alias}", *_cluster_lines(cluster, answers.secrets_path)]
    lines += [
        "",
        f"# The flow {flow}. Topics are names and regular expressions, separated by commas; a",
        "# backslash is written twice in a properties file.",
        _line(f"{flow}.enabled", "true"),
        _line(f"{flow}.topics", answers.topics),
        "",
        "# Often needed. Remove the '#' to use a line.",
    ]
    for key, value in _SUGGESTED:
        lines += [f"# {CONNECTOR[key].doc}", f"#{_line(f'{flow}.{key}', value)}"]
    lines += [f"# {TOP_LEVEL['metrics.port'].doc}", f"#{_line('metrics.port', '9404')}"]
    return "\n".join(lines) + "\n"


def secrets_file_text(answers: MirrorAnswers) -> str:
    """Return the content of the file with the passwords; empty if there is none."""
    lines = [
        _line(f"{cluster.alias}.password", _in_jaas(cluster.password.reveal()))
        for cluster in answers.clusters
        if cluster.uses_sasl and cluster.password is not None
    ]
    if not lines:
        return ""
    comment = '# Passwords as inside the quotes of a JAAS line: \\ and " follow a backslash.'
    return "\n".join([comment, *lines]) + "\n"


def _cluster_lines(cluster: ClusterAnswers, secrets_path: str) -> list[str]:
    alias = cluster.alias
    lines = [_line(f"{alias}.bootstrap.servers", cluster.servers)]
    if cluster.protocol is not SecurityProtocol.PLAINTEXT:
        lines.append(_line(f"{alias}.security.protocol", cluster.protocol.value))
    if cluster.protocol.has_tls and cluster.truststore:
        if cluster.truststore.endswith((".pem", ".crt")):
            lines.append(_line(f"{alias}.ssl.truststore.type", "PEM"))
        lines.append(_line(f"{alias}.ssl.truststore.location", cluster.truststore))
    if cluster.uses_sasl:
        module = _PLAIN_MODULE if cluster.mechanism is SaslMechanism.PLAIN else _SCRAM_MODULE
        lines += [
            _line(f"{alias}.sasl.mechanism", cluster.mechanism.value),
            f"{alias}.sasl.jaas.config = {module} required \\",
            f"  {_escaped(_user_option(cluster))} {_password_option(cluster, secrets_path)};",
        ]
    return lines


def _user_option(cluster: ClusterAnswers) -> str:
    return f'username="{_in_jaas(cluster.user)}"'


def _password_option(cluster: ClusterAnswers, secrets_path: str) -> str:
    reference = f"env:{cluster.variable}"
    if cluster.password is not None:
        reference = f"file:{secrets_path}:{cluster.alias}.password"
    return f'password="${{{reference}}}"'


def _in_jaas(text: str) -> str:
    """Escape a text for the quotes of a JAAS line."""
    return text.replace("\\", "\\\\").replace('"', '\\"')


def _line(key: str, value: str) -> str:
    return f"{key} = {_escaped(value)}"


def _escaped(value: str) -> str:
    """Escape a value for a properties file, which drops spaces at its beginning."""
    escaped = value.replace("\\", "\\\\")
    return f"\\{escaped}" if escaped.startswith(" ") else escaped
