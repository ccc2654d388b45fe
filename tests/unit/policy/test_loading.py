# SPDX-License-Identifier: Apache-2.0
"""Objects from class names: Java's names of the built-in ones, dotted Python paths for others."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from sparkmirror.config.mirror_config import MirrorConfig
from sparkmirror.errors import ConfigError
from sparkmirror.model import Flow
from sparkmirror.policy.loading import load_policy, policy_errors
from sparkmirror.policy.replication import DefaultReplicationPolicy, IdentityReplicationPolicy
from sparkmirror.policy.settings import PolicySettings

FLOW = Flow("a", "b")
PLUGIN = """
from sparkmirror.policy.replication import DefaultReplicationPolicy

class Shouting(DefaultReplicationPolicy):
    def configure(self, options):
        super().configure(options)
        self.suffix = options.get("shout.suffix", "")
    def format_remote_topic(self, source_alias, topic):
        return super().format_remote_topic(source_alias, topic).upper() + self.suffix

class OnlyShort:
    def configure(self, options):
        self.most = int(options["short.most"])
    def should_replicate_topic(self, topic):
        return len(topic) <= self.most

class NoPolicy:
    pass

class Needy:
    def __init__(self, more):
        pass
"""


@pytest.fixture
def plugin(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """A user's module on the Python path."""
    (tmp_path / "users_plugin.py").write_text(PLUGIN)
    monkeypatch.syspath_prepend(tmp_path)
    yield "users_plugin"
    sys.modules.pop("users_plugin", None)


def settings(*lines: str) -> PolicySettings:
    """The policy settings of a file with these lines."""
    text = "\n".join(("clusters=a,b", "a.bootstrap.servers=x:1", "b.bootstrap.servers=y:1", *lines))
    return MirrorConfig.parse(text).parsed_flow(FLOW).settings.policy


def test_java_names_stand_for_the_built_in_policies() -> None:
    """Both built-in policies load and take their options."""
    default = load_policy(settings("replication.policy.separator=_"), FLOW).replication
    assert isinstance(default, DefaultReplicationPolicy)
    assert not isinstance(default, IdentityReplicationPolicy)
    assert default.format_remote_topic("a", "t") == "a_t"
    assert default.offset_syncs_topic("b") == "mm2-offset-syncs_b_internal"
    name = "org.apache.kafka.connect.mirror.IdentityReplicationPolicy"
    identity = load_policy(settings(f"replication.policy.class={name}"), FLOW).replication
    assert isinstance(identity, IdentityReplicationPolicy)
    assert identity.topic_source("orders") == "a"


def test_the_internal_flag_without_a_separator_changes_nothing() -> None:
    """The flag is read only beside an explicit separator."""
    chosen = settings("replication.policy.internal.topic.separator.enabled=false")
    assert load_policy(chosen, FLOW).replication.checkpoints_topic("a") == "a.checkpoints.internal"


def test_a_dotted_path_loads_a_class_of_the_users(plugin: str) -> None:
    """The class gets the flow's whole configuration, including its own keys."""
    chosen = settings(
        f"replication.policy.class={plugin}.Shouting",
        "a->b.shout.suffix=!",
        f"topic.filter.class={plugin}.OnlyShort",
        "a->b.short.most=5",
    )
    loaded = load_policy(chosen, FLOW)
    assert loaded.replication.format_remote_topic("a", "orders") == "A.ORDERS!"
    assert loaded.selection.should_replicate_topic("short")
    assert not loaded.selection.should_replicate_topic("longer")


@pytest.mark.parametrize(
    ("name", "part"),
    [
        ("com.example.MyPolicy", "Java classes cannot be loaded"),
        ("no_such_module.Policy", "on the Python path"),
        ("Policy", "package.module.ClassName"),
        (".Policy", "package.module.ClassName"),
        ("sparkmirror.policy.replication.Missing", "cannot be loaded"),
    ],
)
def test_a_class_that_cannot_be_loaded_explains_what_to_write(name: str, part: str) -> None:
    """Every error names the key and a remedy."""
    with pytest.raises(ConfigError) as error:
        load_policy(replace(settings(), replication_policy_class=name), FLOW)
    assert error.value.key == "replication.policy.class"
    assert part in str(error.value)


def test_a_class_without_the_methods_is_refused(plugin: str) -> None:
    """The missing methods are listed."""
    with pytest.raises(ConfigError, match="format_remote_topic"):
        load_policy(replace(settings(), replication_policy_class=f"{plugin}.NoPolicy"), FLOW)
    with pytest.raises(ConfigError, match="should_replicate_group"):
        load_policy(replace(settings(), group_filter_class=f"{plugin}.NoPolicy"), FLOW)
    with pytest.raises(ConfigError, match="should_replicate_source_default"):
        load_policy(replace(settings(), config_property_filter_class=f"{plugin}.NoPolicy"), FLOW)


def test_a_class_that_needs_arguments_is_refused(plugin: str) -> None:
    """Options come through configure()."""
    with pytest.raises(ConfigError, match=r"read the options in configure\(options\)"):
        load_policy(replace(settings(), topic_filter_class=f"{plugin}.Needy"), FLOW)


def test_all_errors_are_found_at_once() -> None:
    """One pass names every key that is wrong."""
    wrong = replace(
        settings(), topics=("*",), topics_exclude=("[",), groups=("(",), group_filter_class="x.Y"
    )
    keys = [error.key for error in policy_errors(wrong, FLOW)]
    assert keys == ["topics", "topics.exclude", "groups", "group.filter.class"]
    assert policy_errors(settings(), FLOW) == []


def test_groups_and_configs_have_their_filters() -> None:
    """MM2's default lists apply."""
    loaded = load_policy(settings(), FLOW)
    assert loaded.group_filter.should_replicate_group("app")
    assert not loaded.group_filter.should_replicate_group("connect-x")
    assert loaded.config_filter.should_replicate_config_property("retention.ms")
    assert not loaded.config_filter.should_replicate_config_property("min.insync.replicas")
    assert loaded.config_filter.should_replicate_config_property("message.timestamp.after.max.ms")


@pytest.mark.parametrize(
    "name",
    [
        "org.apache.kafka.connect.mirror.IdentiyReplicationPolicy",
        "sparkmirror.policy.replication.IdentityPolicy",
    ],
)
def test_a_misspelt_policy_gets_the_nearest_name(name: str) -> None:
    """In MM2's package and in sparkmirror's."""
    config = MirrorConfig.parse(
        "clusters = a, b\na.bootstrap.servers = a:1\nb.bootstrap.servers = b:1\n"
        f"a->b.enabled = true\nreplication.policy.class = {name}\n"
    )
    (notice, *_) = config.all_notices()
    assert notice.message.endswith(
        "Did you mean org.apache.kafka.connect.mirror.IdentityReplicationPolicy?"
    )
