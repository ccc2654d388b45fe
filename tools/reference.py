# SPDX-License-Identifier: Apache-2.0
"""Writes docs/configuration.md and docs/profiles.md from the tables that they repeat."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from sparkmirror.config.keys.config_def import ConfigKey
from sparkmirror.config.keys.connector_keys import DEPRECATED, REMOVED
from sparkmirror.config.keys.service_profiles import PROFILES, ProfileSetting
from sparkmirror.config.keys.table import (
    SECTIONS,
    WORKER_SECTIONS,
    Section,
    differing_defaults,
)

DOCS = Path(__file__).parent.parent / "docs"
PAGE = DOCS / "configuration.md"
PROFILES_PAGE = DOCS / "profiles.md"

_INTRODUCTION = """\
# Configuration

<!-- Written by `make docs` from src/sparkmirror/config/keys/*.py. Change it there. -->

Sparkmirror reads MirrorMaker 2's properties files. A file names clusters, says how to reach them,
and enables flows between them:

```properties
clusters = source, target
source.bootstrap.servers = source-1:9092, source-2:9092
target.bootstrap.servers = target-1:9092
source->target.enabled = true
source->target.topics = orders, payments.*
```

`sparkmirror check FILE` prints every value that a file leads to, the line it came from, the lines
it won against, and all that is wrong. `--connect` also tries every broker.

A Connect worker's file (`connect-distributed.properties`) is another kind of file:
[its keys](#a-connect-workers-file) stand at the end of this page.

## Who wins

For one flow `A->B`; the later in a row wins:

- a connector key, such as `topics`: the default, `topics`, `A->B.topics`;
- how the source is read: the default, `A->B.consumer.<key>`, `A.consumer.<key>`,
  `A->B.source.consumer.<key>`;
- how records are written: the default, `B.producer.<key>`, `A->B.producer.override.<key>`;
- how a cluster is reached, such as `security.protocol`: the default, `<key>`, `A.<key>`,
  `A.consumer.<key>`;
- a worker key, such as `offset.flush.interval.ms`: the default, `B.<key>`;
- a storage key, such as `offset.storage.topic`: the default, `B.<key>`, `<key>`.

A [profile](profiles.md) stands between the default and all of these lines.

These are MM2's rules, surprises included; `check` says where a line loses or does nothing.

## Values from elsewhere

`${file:/path/of.properties:key}`, `${directory:/path:file}` and `${env:NAME}` stand for a key of
a properties file, the content of a file and an environment variable. A `config.providers` line is
not needed; where there is one, its `param.allowed.paths` or `param.allowlist.pattern` is obeyed.
Values that came this way are never shown, save aliases, which name flows. A reference that leads
nowhere is an error; only in a password, what names no provider is taken as it stands, with a
warning.

What comes over REST, the configurations of a worker's connectors and those that are only
validated, may refer to declared providers only. The worker's file (or the mirror's) says which:

```text
config.providers = file
config.providers.file.class = org.apache.kafka.common.config.provider.FileConfigProvider
config.providers.file.param.allowed.paths = /etc/mirror
```

## Security

`security.protocol`, `ssl.*` and `sasl.*` mean what they mean to Java's clients, for every layer of
the list above:

```text
A.security.protocol = SASL_SSL
A.ssl.truststore.location = /etc/mirror/truststore.jks
A.ssl.truststore.password = ${file:/etc/mirror/secrets.properties:truststore}
A.sasl.mechanism = PLAIN
A.sasl.jaas.config = org.apache.kafka.common.security.plain.PlainLoginModule required \\
  username="me" password="${file:/etc/mirror/secrets.properties:password}";
```

- Stores are JKS, PKCS12 or PEM, or PEM in the file itself. They are read where the program was
  started, when the file is read; tasks get what is in them over the encrypted control channel, in
  memory. A store that was replaced is noticed within seconds.
- A JAAS line is read as Java reads it, and its login module must go with the mechanism. Modules of
  other people's, callback handlers and `ssl.engine.factory.class` are Java and refused with a
  sentence; Kafka's own and Strimzi's handlers for tokens are known by name.
- Tokens (OAUTHBEARER) are asked for with `clientId` and `clientSecret` of the JAAS line, with
  Kafka's keys, or with Strimzi's names for them; one request serves all connections of a process.
  [Other ways](security.md#tokens) are files, refresh tokens, assertions and users' passwords.
- What is secret is shown as `[hidden]`, and so is all that came from elsewhere.

## Classes of your own

`replication.policy.class`, `topic.filter.class`, `group.filter.class` and
`config.property.filter.class` take the dotted path of a Python class on the Python path. It is
made without arguments; then `configure(options)` is called with the flow's keys and texts.

```python
from sparkmirror.policy.replication import DefaultReplicationPolicy


class SuffixPolicy(DefaultReplicationPolicy):  # orders.source instead of source.orders
    def format_remote_topic(self, source_alias, topic):
        return f"{topic}.{source_alias}"

    def topic_source(self, topic):
        return topic.rpartition(".")[2] if "." in topic else None

    def upstream_topic(self, topic):
        return topic.rpartition(".")[0] or None
```

## Spark

Every `spark.*` key goes to the Spark session, for example `spark.master=local[4,4]`. References to
config providers are resolved; Spark's own (`${spark.local.dir}`, `${system:user.home}`) stay.
"""

_WORKER_INTRODUCTION = """\
## A Connect worker's file

`connect-distributed.properties`, as Kafka Connect reads it: one cluster, three topics on it, and
no flow. Connectors come over REST; their keys are those above, each as `<key>`.

```properties
bootstrap.servers = target-1:9092
group.id = mirrors
config.storage.topic = mirrors-configs
offset.storage.topic = mirrors-offsets
status.storage.topic = mirrors-status
listeners = http://127.0.0.1:8083
```

Without `listeners` a worker listens on port 8083 of 127.0.0.1, and a warning says so: other workers
of its group cannot reach it. Connect's default is `http://:8083`, every interface; then whoever
reaches it may create connectors, unless it [asks for more](rest.md#who-may-ask). How https is
served stands behind `listeners.https.` with the `ssl.*` keys above.

Connectors can name classes of your own only if `connector.python.allowlist` lists them: a module
(`acme.policies`), a package with all below it (`acme`) or a single class
(`acme.policies.SuffixPolicy`). Of a module, only classes that are defined there count. The list
should be the same in the files of all workers of a group.

How the worker's cluster is reached, such as `security.protocol`, and `producer.<key>` for all
connectors' writing are as in the tables above. `sparkmirror check` reads such a file, too.
"""


def page() -> str:
    """The whole page."""
    return "\n".join([_INTRODUCTION, *_lines()]) + "\n"


def _lines() -> Iterator[str]:
    for section in SECTIONS:
        yield from _section(section)
    yield _WORKER_INTRODUCTION
    for section in WORKER_SECTIONS:
        yield from _section(section, "###")
    yield "## Old names"
    yield ""
    yield "| written | means |"
    yield "|---|---|"
    yield from (
        f"| `{old}` | `{new}` (accepted with a warning) |" for old, new in DEPRECATED.items()
    )
    yield from (f"| `{old}` | nothing: {why} |" for old, why in REMOVED.items())
    yield ""
    yield "## Defaults that differ from MM2's"
    yield ""
    yield "| key | here | MM2 | why |"
    yield "|---|---|---|---|"
    for key in differing_defaults():
        why = key.mm2_difference_reason
        yield f"| `{key.name}` | {_default(key)} | `{key.mm2_default}` | {why} |"


def _section(section: Section, mark: str = "##") -> Iterator[str]:
    yield f"{mark} {section.title}"
    yield ""
    yield f"Written {section.written}."
    yield ""
    yield "| key | type | default | MM2's, if other | meaning |"
    yield "|---|---|---|---|---|"
    for key in section.keys:
        other = f"`{key.mm2_default}`" if key.mm2_default is not None else ""
        yield (f"| `{key.name}` | {key.type.value} | {_default(key)} | {other} | {_meaning(key)} |")
    yield ""
    if section.ignored:
        yield "Accepted without effect:"
        yield ""
        yield "| key | why |"
        yield "|---|---|"
        yield from (f"| `{name}` | {why} |" for name, why in section.ignored)
        yield ""


def _default(key: ConfigKey) -> str:
    if key.default is None:
        return "required" if key.required else "not set"
    return f"`{key.default}`" if key.default else "empty"


def _meaning(key: ConfigKey) -> str:
    effect = f" No effect here: {key.no_effect}." if key.no_effect else ""
    return (key.doc + effect).replace("|", "\\|")


_PROFILES_INTRODUCTION = """\
# Profiles

<!-- Written by `make docs` from config/keys/service_profiles.py. Change it there. -->

Managed services speak Kafka's protocol and refuse parts of it: topic configs, replication
factors, large requests, codecs, ACLs. A profile is a set of values that a service takes:

```properties
source->target.profile = event-hubs
```

`profile` says what the target is, `source.profile` what the source is; written for a flow, or
without it for all flows of the file.

- Every line of the file, at whatever level, beats a profile; a profile beats our defaults.
- `sparkmirror check FILE` says `from profile event-hubs` with the reason, and `over profile
  event-hubs` behind a line that won.
- A line that asks for what the service is known to refuse wins, with a warning.
- `topic.creation.enabled = false` is for accounts that may not create topics, on any service:
  each missing topic is named in the status with the partitions and configs to create it with, and
  what is there flows. A creation that is refused for want of a right says the same.
- `producer.max.request.size`, once set by a line or a profile, bounds the whole request: larger
  record batches are cut into pieces, and a record that can never fit goes the way of
  `refused.record.policy`.
- `connections.max.idle.ms` closes connections that nobody uses, before a network forgets them.

**None of this was tried on the real services**: the values come from their documentation, and the
tests ([test_profiles.py](../tests/integration/test_profiles.py)) run against a local broker that
refuses the same things. All four services ask for TLS and SASL, which are keys of the cluster
([configuration](configuration.md#reaching-a-cluster)), not of a profile.
"""


def profiles_page() -> str:
    """The page about profiles."""
    return "\n".join([_PROFILES_INTRODUCTION, *_profile_lines()])


def _profile_lines() -> Iterator[str]:
    for profile in PROFILES.values():
        yield f"## {profile.title}: `{profile.name}`"
        yield ""
        yield f"More on [its own page](profiles/{profile.name}.md)."
        yield ""
        yield from (f"- {fact}" for fact in profile.notes)
        yield ""
        for side, settings in (("target", profile.target), ("source", profile.source)):
            yield f"As {side}:"
            yield ""
            yield "| key | value | why |"
            yield "|---|---|---|"
            yield from (f"| `{_written(one)}` | `{one.value}` | {one.reason} |" for one in settings)
            yield ""


def _written(setting: ProfileSetting) -> str:
    return f"{'B' if setting.is_worker_key else 'A->B'}.{setting.key}"


if __name__ == "__main__":
    DOCS.mkdir(exist_ok=True)
    for file, text in ((PAGE, page()), (PROFILES_PAGE, profiles_page())):
        file.write_text(text, encoding="utf-8")
        print(f"wrote {file.relative_to(Path.cwd()) if file.is_relative_to(Path.cwd()) else file}")
