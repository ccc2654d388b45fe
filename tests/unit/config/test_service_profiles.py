# SPDX-License-Identifier: Apache-2.0
"""Profiles: the weakest layer of a file, said in `check`, contradicted only with a warning."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from sparkmirror.cli.check import check_mirror_config
from sparkmirror.cli.check_report import as_json, plain_lines
from sparkmirror.config.files.notices import EffectiveValue, NoticeLevel
from sparkmirror.config.keys.service_profiles import PROFILES, ProfileSetting, ServiceProfile
from sparkmirror.config.keys.table import CLIENT, CONNECTOR, WORKER
from sparkmirror.config.mirror_config import MirrorConfig
from sparkmirror.config.settings import FlowSettings
from sparkmirror.model import Flow

FLOW = Flow("a", "b")
BASE = (
    "clusters=a, b",
    "a.bootstrap.servers=a1:9092",
    "b.bootstrap.servers=b1:9092",
    "a->b.enabled=true",
)
HUBS = "a->b.profile=event-hubs"


def config(*lines: str) -> MirrorConfig:
    """An ordinary file with these further lines."""
    return MirrorConfig.parse("\n".join((*BASE, *lines)))


def settings(*lines: str) -> FlowSettings:
    """What it means for the flow."""
    return config(*lines).flow_settings(FLOW)


def value(section: str, key: str, *lines: str) -> EffectiveValue:
    """One effective value."""
    found = config(*lines).parsed_flow(FLOW).report.effective
    return next(one for one in found if (one.section, one.key) == (section, key))


def messages(*lines: str, level: NoticeLevel = NoticeLevel.WARNING) -> list[str]:
    """The remarks of one level."""
    return [str(found) for found in config(*lines).all_notices() if found.level is level]


def sides() -> list[tuple[ServiceProfile, ProfileSetting]]:
    """Every setting of every profile."""
    return [(p, one) for p in PROFILES.values() for one in (*p.target, *p.source)]


def test_a_profile_sets_keys_that_are_not_in_the_file() -> None:
    """On both sides, in each place where a line could stand."""
    found = settings(HUBS, "a->b.source.profile=confluent-cloud")
    assert found.produce.max_request_bytes == 1_000_000
    assert found.produce.enforces_max_request_bytes
    assert found.produce.compression == "none"
    assert found.producer.max_idle_seconds == found.target_admin.max_idle_seconds == 180
    assert found.consumer.max_idle_seconds == found.source_admin.max_idle_seconds == 180
    assert found.policy.config_properties_include == ("cleanup.policy",)
    assert found.internal_topics.offsets_factor.value == 1
    assert found.source.offset_syncs_location == "target"
    assert found.source.offset_syncs_factor.value == 1  # it lives on the target
    assert found.target_admin.max_request_bytes == 1_000_000


def test_offset_syncs_on_the_source_do_not_follow_the_targets_factor() -> None:
    """They are another cluster's."""
    assert settings(HUBS).source.offset_syncs_factor.value is None


def test_without_a_profile_nothing_changes() -> None:
    """Neither by default nor by name."""
    named, plain = settings("profile=none", "source.profile=none"), settings()
    assert (named.source, named.produce, named.target_admin, named.internal_topics) == (
        plain.source,
        plain.produce,
        plain.target_admin,
        plain.internal_topics,
    )
    assert not settings().produce.enforces_max_request_bytes


@pytest.mark.parametrize(
    "line",
    [
        "b.producer.max.request.size=5000",
        "a->b.producer.override.max.request.size=5000",
    ],
)
def test_every_line_beats_a_profile(line: str) -> None:
    """Also the weakest one for the key; what was overridden is remembered."""
    found = value("target producer", "max.request.size", HUBS, line)
    assert found.text == "5000"
    assert [str(origin) for origin in found.overrode] == ["profile event-hubs"]


@pytest.mark.parametrize(
    ("line", "section", "key"),
    [
        ("a->b.consumer.connections.max.idle.ms=7", "source consumer", "connections.max.idle.ms"),
        ("a.admin.connections.max.idle.ms=7", "source admin", "connections.max.idle.ms"),
        ("a->b.admin.connections.max.idle.ms=7", "source admin", "connections.max.idle.ms"),
        ("replication.factor=7", "connector", "replication.factor"),
        ("offset.storage.replication.factor=7", "worker", "offset.storage.replication.factor"),
        ("b.offset.storage.replication.factor=7", "worker", "offset.storage.replication.factor"),
    ],
)
def test_lines_of_every_level_beat_a_profile(line: str, section: str, key: str) -> None:
    """MM2 has lines that lose against others; against a profile none does."""
    profiles = (HUBS, "a->b.source.profile=event-hubs")
    found = value(section, key, *profiles, line)
    assert found.text == "7"
    assert found.origin.line == 7


def test_an_old_spelling_beats_a_profile() -> None:
    """As its new one would."""
    lines = ("a->b.profile=confluent-cloud", "config.properties.blacklist=segment.ms")
    assert settings(*lines).policy.config_properties_exclude == ("segment.ms",)


def test_a_flow_has_the_profile_of_its_own_line() -> None:
    """The flow's line wins against the whole file's."""
    assert settings("profile=msk-serverless", HUBS).produce.max_request_bytes == 1_000_000
    assert settings("profile=msk-serverless").produce.max_request_bytes == 8_388_608


@pytest.mark.parametrize("key", ["profile", "a->b.profile", "a->b.source.profile"])
def test_an_unknown_profile_is_an_error_that_lists_the_names(key: str) -> None:
    """Somebody who cannot spell it sees how it is spelt."""
    (error,) = messages(f"{key}=eventhub", level=NoticeLevel.ERROR)
    assert f"{key} must be one of none, {', '.join(PROFILES)}, not 'eventhub'" in error


def test_a_profile_must_be_named_in_the_file_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    """A reference would be resolved too late."""
    monkeypatch.setenv("PROFILE", "event-hubs")
    (error,) = messages("a->b.profile=${env:PROFILE}", level=NoticeLevel.ERROR)
    assert "must be a literal name" in error


def test_check_explains_what_a_profile_gave_and_why() -> None:
    """As text and as JSON; a line over it says so."""
    report = check_mirror_config(
        config(HUBS, "b.producer.compression.type=gzip"), [], connect=False
    )
    lines = [line.strip() for line in plain_lines(report)]
    reason = "the service closes the connection on a request above 1,046,528 bytes"
    assert f"max.request.size = 1000000   from profile event-hubs ({reason})" in lines
    over = "compression.type = gzip   from line 6 'b.producer.compression.type', over profile"
    assert any(line.startswith(f"{over} event-hubs") for line in lines)
    flow = next(one for one in json.loads(as_json(report))["flows"] if one["flow"] == "a->b")
    values = {(one["section"], one["key"]): one for one in flow["values"]}
    given = values["target producer", "max.request.size"]
    assert given["from"] == {"profile": "event-hubs", "reason": reason}
    assert values["target producer", "compression.type"]["over"][0]["profile"] == "event-hubs"


@pytest.mark.parametrize(
    ("line", "complaint"),
    [
        ("b.producer.max.request.size=1046529", "closes the connection on a larger request"),
        ("b.producer.compression.type=zstd", "use none or gzip"),
        ("b.producer.connections.max.idle.ms=240000", "Azure drops idle connections"),
        ("b.admin.connections.max.idle.ms=-1", "Azure drops idle connections"),
    ],
)
def test_a_line_that_the_service_refuses_wins_with_a_warning(line: str, complaint: str) -> None:
    """Explicit wins; nobody can say that nobody said so."""
    (warning,) = messages(HUBS, line)
    assert complaint in warning
    assert "(profile event-hubs)" in warning
    assert messages(line) == []


@pytest.mark.parametrize(
    "line", ["b.producer.max.request.size=1046528", "b.producer.compression.type=gzip"]
)
def test_a_line_that_the_service_takes_is_no_contradiction(line: str) -> None:
    """The limit itself is all right."""
    assert messages(HUBS, line) == []


@pytest.mark.parametrize(
    ("profile", "one"), sides(), ids=lambda part: getattr(part, "name", getattr(part, "key", ""))
)
def test_every_setting_is_a_key_with_a_good_value_and_a_reason(
    profile: ServiceProfile, one: ProfileSetting
) -> None:
    """Written as a line it would mean the same, and its limits do not forbid it."""
    match = re.fullmatch(r"(?:(?:source|target)\.)?(consumer|producer|admin)\.(.*)", one.key)
    table = CLIENT[match[1]] if match else {**CONNECTOR, **WORKER}
    table[match[2] if match else one.key].parse(one.value)
    assert one.reason
    assert not one.reason.endswith(".")
    lines = (f"a->b.profile={profile.name}", f"a->b.source.profile={profile.name}")
    assert messages(*lines) == messages(*lines, level=NoticeLevel.ERROR) == []


@pytest.mark.parametrize("profile", PROFILES)
def test_the_example_on_each_page_is_a_good_file(
    profile: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It uses the profile, and `check` has nothing to say about it."""
    page = (Path(__file__).parents[3] / "docs" / "profiles" / f"{profile}.md").read_text("utf-8")
    (example,) = re.findall(r"```properties\n(.*?)```", page, re.DOTALL)
    assert f".profile = {profile}\n" in example
    for variable in re.findall(r"\$\{env:(\w+)\}", example):
        monkeypatch.setenv(variable, "secret-of-the-account")
    assert MirrorConfig.parse(example).all_notices() == []
    assert "Not tested on the" in page
    assert "As source" in page
