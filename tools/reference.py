# SPDX-License-Identifier: Apache-2.0
"""Writes docs/configuration.md, docs/profiles.md and docs/metrics.md from the tables."""

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
from sparkmirror.metrics.metric import Family, Metric
from sparkmirror.metrics.omitted import OMITTED
from sparkmirror.metrics.table import METRICS

DOCS = Path(__file__).parent.parent / "docs"
PAGE = DOCS / "configuration.md"
PROFILES_PAGE = DOCS / "profiles.md"
METRICS_PAGE = DOCS / "metrics.md"

_INTRODUCTION = """\
# Configuration

<!-- Written by `make docs` from src/sparkmirror/config/keys/*.py. Change it there. -->

Sparkmirror reads MirrorMaker 2's properties files. A file names clusters, their connections, and
the flows between them:

```properties
clusters = source, target
source.bootstrap.servers = source-1:9092, source-2:9092
target.bootstrap.servers = target-1:9092
source->target.enabled = true
source->target.topics = orders, payments.*
```

`sparkmirror check FILE` prints every effective value, the line it comes from, the lines it
overrides, and all errors. `--connect` also connects to every broker.

A Connect worker's file (`connect-distributed.properties`) has
[other keys](#a-connect-workers-file), at the end of this page.

## Precedence

For one flow `A->B`; the last one in a list wins:

- a connector key, such as `topics`: the default, `topics`, `A->B.topics`;
- a consumer key: the default, `A->B.consumer.<key>`, `A.consumer.<key>`,
  `A->B.source.consumer.<key>`;
- a producer key: the default, `B.producer.<key>`, `A->B.producer.override.<key>`;
- a connection key, such as `security.protocol`: the default, `<key>`, `A.<key>`,
  `A.consumer.<key>`;
- a worker key, such as `offset.flush.interval.ms`: the default, `B.<key>`;
- a storage key, such as `offset.storage.topic`: the default, `B.<key>`, `<key>`.

A [profile](profiles.md) overrides the default and nothing else.

These are MM2's rules; `check` shows where a line is overridden or has no effect.

## Config providers

`${file:/path/of.properties:key}`, `${directory:/path:file}` and `${env:NAME}` refer to a key of a
properties file, the content of a file, and an environment variable. A `config.providers` line is
not needed; if there is one, its `param.allowed.paths` or `param.allowlist.pattern` applies.
Referenced values are never shown, except aliases. A reference that cannot be resolved is an error.
In a password, `${...}` without a provider is used literally, with a warning.

Configurations that arrive over REST may use only declared providers. Declare them in the worker's
(or the mirror's) file:

```text
config.providers = file
config.providers.file.class = org.apache.kafka.common.config.provider.FileConfigProvider
config.providers.file.param.allowed.paths = /etc/mirror
```

## Security

`security.protocol`, `ssl.*` and `sasl.*` have the meaning that they have for Java's clients, for
every layer of the list above:

```text
A.security.protocol = SASL_SSL
A.ssl.truststore.location = /etc/mirror/truststore.jks
A.ssl.truststore.password = ${file:/etc/mirror/secrets.properties:truststore}
A.sasl.mechanism = PLAIN
A.sasl.jaas.config = org.apache.kafka.common.security.plain.PlainLoginModule required \\
  username="me" password="${file:/etc/mirror/secrets.properties:password}";
```

- Stores are JKS, PKCS12 or PEM, or inline PEM. They are read on the machine that starts the
  program; tasks get their content in memory, over the encrypted control channel. A replaced store
  is loaded within seconds.
- A JAAS line is parsed as in Java, and its login module must match the mechanism. Other login
  modules, callback handlers and `ssl.engine.factory.class` are Java classes and are rejected;
  Kafka's and Strimzi's handlers for tokens are supported by name.
- Tokens (OAUTHBEARER) are requested with `clientId` and `clientSecret` of the JAAS line, with
  Kafka's keys, or with Strimzi's names; one request serves all connections of a process.
  [Alternatives](security.md#tokens) are files, refresh tokens, assertions and user passwords.
- Secrets and referenced values are shown as `[hidden]`.

## Custom classes

`replication.policy.class`, `topic.filter.class`, `group.filter.class` and
`config.property.filter.class` take the dotted path of a Python class on the Python path. It is
created without arguments; then `configure(options)` gets the flow's keys and values.

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
config providers are resolved; Spark's own (`${spark.local.dir}`, `${system:user.home}`) are kept.
"""

_WORKER_INTRODUCTION = """\
## A Connect worker's file

`connect-distributed.properties`, as in Kafka Connect: one cluster with three topics, and no flow.
Connectors are created over REST; their keys are those above, each as `<key>`.

```properties
bootstrap.servers = target-1:9092
group.id = mirrors
config.storage.topic = mirrors-configs
offset.storage.topic = mirrors-offsets
status.storage.topic = mirrors-status
listeners = http://127.0.0.1:8083
```

Without `listeners` a worker listens on 127.0.0.1:8083, with a warning: other workers of its group
cannot reach it. Connect's default is `http://:8083`, every interface; then every client that
reaches it may create connectors, unless you [require authentication](rest.md#access). For
https use the `ssl.*` keys above with the prefix `listeners.https.`.

Connectors can name custom classes only if `connector.python.allowlist` lists them: a module
(`acme.policies`), a package (`acme`) or a class (`acme.policies.SuffixPolicy`). A class must be
defined in the listed module, not only imported there. Use the same list on all workers of a group.

Connection keys of the worker's cluster, such as `security.protocol`, and `producer.<key>` for all
connectors are as in the tables above. `sparkmirror check` also reads such a file.
"""


_APPENDIX = "Keys without effect"
_APPENDIX_INTRODUCTION = f"""\
## {_APPENDIX}

Sparkmirror accepts these keys, because files of MM2 and Connect have them. They change nothing.
`sparkmirror check` names those that a file sets, with the reason.
"""


def page() -> str:
    return "\n".join([_INTRODUCTION, *_lines()]) + "\n"


def _lines() -> Iterator[str]:
    for section in SECTIONS:
        yield from _section(section)
    yield _WORKER_INTRODUCTION
    for section in WORKER_SECTIONS:
        yield from _section(section, "###")
    yield from _appendix()
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


def _appendix() -> Iterator[str]:
    yield _APPENDIX_INTRODUCTION
    workers = "A Connect worker's file: "
    titled = [(one.title, one) for one in SECTIONS]
    titled += [(f"{workers}{one.title}", one) for one in WORKER_SECTIONS]
    for title, section in titled:
        rows = [(key.name, key.no_effect) for key in section.keys if key.no_effect]
        rows += section.ignored
        if rows:
            yield f"**{title}** ({section.written})"
            yield ""
            yield "| key | why it has no effect |"
            yield "|---|---|"
            yield from (f"| `{name}` | {_escaped(why)} |" for name, why in rows)
            yield ""


def _section(section: Section, mark: str = "##") -> Iterator[str]:
    yield f"{mark} {section.title}"
    yield ""
    yield f"Written {section.written}."
    yield ""
    yield "| key | type | default | MM2's, if other | meaning |"
    yield "|---|---|---|---|---|"
    keys = [key for key in section.keys if not key.no_effect]
    for key in keys:
        other = f"`{key.mm2_default}`" if key.mm2_default is not None else ""
        yield (
            f"| `{key.name}` | {key.type.value} | {_default(key)} | {other} | {_escaped(key.doc)} |"
        )
    yield ""
    if section.ignored or len(keys) < len(section.keys):
        link = _APPENDIX.lower().replace(" ", "-")
        yield f"Others are accepted [without effect](#{link})."
        yield ""


def _default(key: ConfigKey) -> str:
    if key.default is None:
        return "required" if key.required else "not set"
    return f"`{key.default}`" if key.default else "empty"


def _escaped(text: str) -> str:
    return text.replace("|", "\\|")


_PROFILES_INTRODUCTION = """\
# Profiles

<!-- Written by `make docs` from config/keys/service_profiles.py. Change it there. -->

Managed services support Kafka's protocol with restrictions: topic configs, replication factors,
request sizes, codecs, ACLs. A profile is a set of values that a service accepts:

```properties
source->target.profile = event-hubs
```

`profile` is the service of the target, `source.profile` that of the source; set them for a flow,
or without a flow for all flows of the file.

- Every line of the file, at any level, overrides a profile; a profile overrides the defaults.
- `sparkmirror check FILE` prints `from profile event-hubs` with the reason, and `over profile
  event-hubs` after a line that overrides it.
- A line with a value that the service is known to reject wins, with a warning.
- `topic.creation.enabled = false` is for accounts that may not create topics, on any service. The
  status names each missing topic with the partitions and configs to create it with; existing
  topics are mirrored. A creation that is rejected for a missing right is reported the same way.
- `producer.max.request.size`, set by a line or a profile, limits the whole request: larger record
  batches are split, and a record that can never fit is handled by `refused.record.policy`.
- `connections.max.idle.ms` closes idle connections before a network device drops them.

**Not tested on the real services**: the values come from their documentation, and the tests
([test_profiles.py](../tests/integration/test_profiles.py)) run against a local broker with the
same restrictions. All four services require TLS and SASL, which are keys of the cluster
([configuration](configuration.md#reaching-a-cluster)), not of a profile.
"""


def profiles_page() -> str:
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


_METRICS_INTRODUCTION = """\
# Metrics

<!-- Written by `make docs` from src/sparkmirror/metrics/table.py and omitted.py. -->

Every worker, and `run`, serves Prometheus' text format at `/metrics` of its REST API. With
`metrics.port = 9404` (and `metrics.host`) it serves the same there, without authentication.

```sh
curl http://127.0.0.1:8083/metrics
```

Dashboards, alerts, a scrape configuration and relabel rules are in [deploy/](../deploy/README.md).

- **Unknown is never 0**: a value that is not known is `NaN`, or its series is missing.
- **At most `metrics.max.partitions` topic partitions are shown one by one** (default 2,000). The
  others are summed under the topic `(other)`: records, bytes, rates and lag, without latencies.
  `sparkmirror_partitions_summed` says how many these are.
- Counters count from the start of the process. Those of tasks (with a `clientid` or a `task`) count
  from the start of an epoch; use `rate()`.
- Metrics of tasks come with their progress reports, once a second.
"""

_FAMILY_TEXTS = {
    Family.JAVA: """\
## Names of MirrorMaker 2 and Connect

Strimzi's rules for the JMX exporter give these names to the metrics of Java's MirrorMaker 2, so its
dashboards work unchanged. Kafka puts quotes around label values with other characters than
letters, digits, `_`, `-`, `%`, `.`, blanks and tabs; here they have the same quotes:
`connector="\\"A->B.MirrorSourceConnector\\""`. Connectors of `run` have these names, which Strimzi
also uses. Client ids in labels are those that Java's clients would have.
""",
    Family.OWN: """\
## Metrics of sparkmirror
""",
}


def metrics_page() -> str:
    return "\n".join([_METRICS_INTRODUCTION, *_metric_lines()]) + "\n"


def _metric_lines() -> Iterator[str]:
    for family, text in _FAMILY_TEXTS.items():
        yield text
        yield "| metric | type | labels | meaning |"
        yield "|---|---|---|---|"
        for one in METRICS:
            if one.family is family:
                labels = ", ".join(one.scope.labels)
                yield f"| `{one.name}` | {one.type.value} | {labels} | {_escaped(_meaning(one))} |"
        yield ""
    yield "## Java's metrics that do not exist here"
    yield ""
    yield "They could not be filled truthfully."
    yield ""
    yield "| names (regular expression) | why |"
    yield "|---|---|"
    yield from (f"| `{_escaped(one.pattern)}` | {one.reason} |" for one in OMITTED)


def _meaning(one: Metric) -> str:
    if not one.origin:
        return one.help
    return f"{one.help} ({one.origin})"


if __name__ == "__main__":
    DOCS.mkdir(exist_ok=True)
    for file, text in (
        (PAGE, page()),
        (PROFILES_PAGE, profiles_page()),
        (METRICS_PAGE, metrics_page()),
    ):
        file.write_text(text, encoding="utf-8")
        print(f"wrote {file.relative_to(Path.cwd()) if file.is_relative_to(Path.cwd()) else file}")
