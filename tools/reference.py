# SPDX-License-Identifier: Apache-2.0
"""Writes docs/configuration.md from the key table, so that the page cannot disagree with it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from sparkmirror.config.key import Key
from sparkmirror.config.keys import SECTIONS, Section, differing_defaults
from sparkmirror.config.keys_connector import DEPRECATED, REMOVED

PAGE = Path(__file__).parent.parent / "docs" / "configuration.md"

_INTRODUCTION = """\
# Configuration

<!-- Written by `make docs` from src/sparkmirror/config/keys*.py. Change it there. -->

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

These are MM2's rules, surprises included; `check` says where a line loses or does nothing.

## Values from elsewhere

`${file:/path/of.properties:key}`, `${directory:/path:file}` and `${env:NAME}` stand for a key of
a properties file, the content of a file and an environment variable. A `config.providers` line is
not needed; where there is one, its `param.allowed.paths` or `param.allowlist.pattern` is obeyed.
Values that came this way are never shown. A reference that leads nowhere is an error.

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

Every `spark.*` key goes to the Spark session as it stands, for example `spark.master=local[4,4]`.
"""


def page() -> str:
    """The whole page."""
    return "\n".join([_INTRODUCTION, *_lines()]) + "\n"


def _lines() -> Iterator[str]:
    for section in SECTIONS:
        yield from _section(section)
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
        yield f"| `{key.name}` | {_default(key)} | `{key.mm2_default}` | {key.reason} |"


def _section(section: Section) -> Iterator[str]:
    yield f"## {section.title}"
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


def _default(key: Key) -> str:
    if key.default is None:
        return "required" if key.required else "not set"
    return f"`{key.default}`" if key.default else "empty"


def _meaning(key: Key) -> str:
    effect = f" No effect here: {key.no_effect}." if key.no_effect else ""
    return (key.doc + effect).replace("|", "\\|")


if __name__ == "__main__":
    PAGE.parent.mkdir(exist_ok=True)
    PAGE.write_text(page(), encoding="utf-8")
    print(f"wrote {PAGE.relative_to(Path.cwd()) if PAGE.is_relative_to(Path.cwd()) else PAGE}")
