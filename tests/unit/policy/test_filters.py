# SPDX-License-Identifier: Apache-2.0
"""Lists of regexes decide by whole names; excludes win."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sparkmirror.errors import ConfigError
from sparkmirror.policy.filters import (
    DefaultConfigPropertyFilter,
    DefaultGroupFilter,
    DefaultTopicFilter,
    NamePattern,
)


def pattern(*items: str) -> NamePattern:
    """A list as the key `topics` would hold it."""
    return NamePattern.compile(items, "topics")


@pytest.mark.parametrize(
    ("items", "name", "matches"),
    [
        (("topic1",), "topic1", True),
        (("topic1",), "topic11", False),
        (("topic1",), "mytopic1", False),
        (("topic1", "topic2"), "topic2", True),
        (("topic[1-3]",), "topic2", True),
        (("topic[1-3]",), "topic4", False),
        (("a|b",), "b", True),
        ((), "", False),
        ((), "anything", False),
        ((".*",), "", True),
        (("(a", "b)"), "b", True),
    ],
)
def test_a_list_matches_whole_names(items: tuple[str, ...], name: str, matches: bool) -> None:
    """Items are alternatives of one pattern; no item matches nothing."""
    assert matches == pattern(*items).matches(name)


@given(st.text("abcxyz0189._-", min_size=1))
def test_a_quoted_name_matches_itself_only(name: str) -> None:
    r"""\Q..\E takes dots and dashes literally."""
    quoted = pattern(rf"\Q{name}\E")
    assert quoted.matches(name)
    assert not quoted.matches(name + "x")
    assert not quoted.matches(name.replace(".", "!")) or "." not in name


def test_excludes_win_over_includes() -> None:
    """A topic or group that both lists name is left out."""
    topics = DefaultTopicFilter(pattern(".*"), pattern(r"mm2.*\.internal", r".*\.replica", "__.*"))
    assert topics.should_replicate_topic("orders")
    assert not topics.should_replicate_topic("mm2-x.internal")
    assert not topics.should_replicate_topic("orders.replica")
    assert not topics.should_replicate_topic("__consumer_offsets")
    groups = DefaultGroupFilter(pattern(".*"), pattern("console-consumer-.*", "connect-.*"))
    assert groups.should_replicate_group("app")
    assert not groups.should_replicate_group("connect-app")


def test_configs_are_copied_unless_excluded() -> None:
    """Names and regexes exclude; the source's defaults count only when asked for."""
    excluding = DefaultConfigPropertyFilter(pattern("min.insync.replicas", r"message\..*"))
    assert excluding.should_replicate_config_property("retention.ms")
    assert not excluding.should_replicate_config_property("min.insync.replicas")
    assert not excluding.should_replicate_config_property("message.timestamp.type")
    assert not excluding.should_replicate_source_default("retention.ms")
    from_source = DefaultConfigPropertyFilter(pattern(), "source")
    assert from_source.should_replicate_source_default("retention.ms")
    assert not DefaultConfigPropertyFilter(pattern(), "Source").should_replicate_source_default("x")


def test_only_included_configs_are_copied_and_excluding_wins() -> None:
    """Empty lists include nothing and exclude nothing."""
    chosen = DefaultConfigPropertyFilter(
        pattern("segment.ms"), include=pattern(r"segment\..*", "cleanup.policy")
    )
    names = ("cleanup.policy", "segment.bytes", "segment.ms", "retention.ms")
    copied = [name for name in names if chosen.should_replicate_config_property(name)]
    assert copied == ["cleanup.policy", "segment.bytes"]
    nothing = DefaultConfigPropertyFilter(pattern(), include=pattern())
    assert not nothing.should_replicate_config_property("cleanup.policy")


def test_a_broken_item_is_named_with_its_key() -> None:
    """The sentence shows the item, not the whole list."""
    with pytest.raises(ConfigError) as error:
        NamePattern.compile(("orders", "pay[ments"), "topics.exclude")
    assert error.value.key == "topics.exclude"
    assert "'pay[ments'" in str(error.value)
    assert "orders" not in str(error.value)


def test_a_shell_wildcard_gets_the_regex_it_meant() -> None:
    """A lone star is what people write first."""
    with pytest.raises(ConfigError, match=r"did you mean '\.\*'"):
        NamePattern.compile(("*",), "topics")
