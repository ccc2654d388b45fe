# SPDX-License-Identifier: Apache-2.0
"""A whole file: clusters, pairs, samples, files of the shapes that people have."""

from __future__ import annotations

from pathlib import Path

import pytest

from sparkmirror.config.files.notices import NoticeLevel
from sparkmirror.config.mirror_config import MirrorConfig
from sparkmirror.config.settings import MetricsSettings
from sparkmirror.config.worker_settings import RestListener
from sparkmirror.errors import ConfigError
from sparkmirror.model import Flow
from sparkmirror.policy.loading import load_policy

SAMPLES = Path(__file__).parents[3] / "config"


def config(*lines: str) -> MirrorConfig:
    """A file with these lines."""
    return MirrorConfig.parse("\n".join(lines))


def flows(*lines: str, targets: tuple[str, ...] = ()) -> list[str]:
    """The pairs of such a file."""
    return [str(flow) for flow in config(*lines).flows(targets)]


def test_every_flow_gets_a_worker_for_its_heartbeats() -> None:
    """Three clusters make six pairs although none is enabled."""
    assert len(flows("clusters=a,b,c")) == 6


def test_without_heartbeats_only_enabled_flows_are_left() -> None:
    """Globally off, three flows enabled."""
    lines = ("clusters=a,b,c", "emit.heartbeats.enabled=false")
    enabled = ("a->b.enabled=true", "b->c.enabled=TRUE", "c->a.enabled=True")
    assert flows(*lines, *enabled) == ["a->b", "b->c", "c->a"]
    with pytest.raises(ConfigError, match="no replication flow"):
        flows(*lines)


def test_heartbeats_are_switched_off_for_single_flows() -> None:
    """The flow's line beats the file's, in both directions."""
    off = ("a->b.emit.heartbeats.enabled=false", "a->c.emit.heartbeats.enabled=false")
    assert flows("clusters=a,b,c", *off) == ["b->a", "b->c", "c->a", "c->b"]
    on = ("emit.heartbeats.enabled=false", "a->b.emit.heartbeats.enabled=true")
    assert flows("clusters=a,b,c", *on) == ["a->b"]


def test_figures_are_served_where_the_file_says() -> None:
    """Nowhere by default, on loopback unless told otherwise."""
    assert config("clusters=a,b").metrics == MetricsSettings("127.0.0.1", None, 2_000)
    with_port = config("clusters=a,b", "metrics.port=9100", "metrics.max.partitions=5").metrics
    assert with_port == MetricsSettings("127.0.0.1", 9100, 5)
    open_wide = config("clusters=a,b", "metrics.port=1", "metrics.host=0.0.0.0").metrics
    assert open_wide == MetricsSettings("0.0.0.0", 1, 2_000)  # noqa: S104 - what the file asked for


def test_a_wrong_port_for_figures_is_refused() -> None:
    """Where the file is checked, and where it is run."""
    wrong = config("clusters=a,b", "metrics.port=70000")
    assert any("metrics.port must be between" in str(one) for one in wrong.notices)
    with pytest.raises(ConfigError, match=r"metrics\.port must be between"):
        _ = wrong.metrics


def test_the_rest_api_is_served_on_loopback_by_default() -> None:
    """A port that nobody asked for may be another one; no address, no API."""
    by_default = config("clusters=a,b").rest
    assert by_default is not None
    assert (by_default.settings.listeners, by_default.allows_any_port) == (
        (RestListener("http", "127.0.0.1", 8083),),
        True,
    )
    written = config("clusters=a,b", "listeners=http://[::1]:2").rest
    assert written is not None
    assert (written.settings.listeners, written.allows_any_port) == (
        (RestListener("http", "::1", 2),),
        False,
    )
    assert config("clusters=a,b", "listeners=").rest is None
    for wrong in ("https://:1", "ftp://:1"):
        with pytest.raises(ConfigError, match="listeners"):
            _ = config("clusters=a,b", f"listeners={wrong}").rest


def test_a_central_cluster_gets_flows_from_its_locals() -> None:
    """Two of the three pairs are enabled, one only emits."""
    lines = (
        "clusters=central, one, two",
        "emit.heartbeats.enabled=false",
        "central->one.enabled=true",
        "one->central.enabled=true",
        "two->central.emit.heartbeats.enabled=true",
    )
    assert flows(*lines) == ["central->one", "one->central", "two->central"]


def test_enabled_is_compared_before_anything_is_trimmed() -> None:
    """MM2's rule for pairs; the connector itself trims, and the reader is told."""
    lines = ("clusters=a,b", "a->b.enabled=true ", "emit.heartbeats.enabled=false")
    with pytest.raises(ConfigError, match="no replication flow"):
        flows(*lines)
    assert any("space after true" in str(n) for n in config(*lines).all_notices())


def test_flows_are_read_after_references_are_resolved(monkeypatch: pytest.MonkeyPatch) -> None:
    """The text of `enabled` may come from the environment."""
    monkeypatch.setenv("REPLICATE", "true")
    lines = ("clusters=a,b", "emit.heartbeats.enabled=false", "a->b.enabled=${env:REPLICATE}")
    assert flows(*lines) == ["a->b"]


def test_targets_narrow_the_flows() -> None:
    """Only the target counts; an unknown name and an empty rest are errors."""
    lines = ("clusters=a,b,c", "a->b.enabled=true")
    assert flows(*lines, targets=("b",)) == ["a->b", "c->b"]
    with pytest.raises(ConfigError, match="--clusters names d"):
        flows(*lines, targets=("d",))
    with pytest.raises(ConfigError, match="no replication flow to c"):
        flows(*lines, "emit.heartbeats.enabled=false", targets=("c",))


@pytest.mark.parametrize(
    ("line", "part"),
    [
        ("topics=x", "clusters is missing"),
        ("clusters=", "clusters must not be empty"),
        ("clusters=a,,b", "has an empty item"),
        ("clusters=us east, b", "an alias becomes part of topic names"),
        ("clusters=${env:SURELY_NOT_SET}", "SURELY_NOT_SET is not set"),
    ],
)
def test_a_file_without_usable_clusters_is_refused(line: str, part: str) -> None:
    """The same sentence from `pairs` and from `problems`."""
    with pytest.raises(ConfigError) as error:
        config(line).flows()
    assert part in str(error.value)
    assert [
        n for n in config(line).all_notices() if n.level is NoticeLevel.ERROR and part in str(n)
    ]


def test_one_cluster_makes_no_flow() -> None:
    """The remedy is an example."""
    with pytest.raises(ConfigError, match=r"for example A->B\.enabled=true"):
        flows("clusters=a")


def test_spaces_and_repetitions_in_clusters_are_harmless() -> None:
    """People write a blank after the comma."""
    assert config("clusters = a , b,a ").clusters == ("a", "b")


def test_spark_keys_are_only_looked_up(monkeypatch: pytest.MonkeyPatch) -> None:
    """What config providers know is put in, Spark's own references stay; no key is checked."""
    monkeypatch.setenv("SPARK_WORD", "hush")
    file = config(
        "clusters=a,b",
        "a.bootstrap.servers=x:1",
        "b.bootstrap.servers=y:1",
        "a->b.enabled=true",
        "spark.master=local[4,4]",
        "spark.authenticate.secret=${env:SPARK_WORD}",
        "spark.own=${spark.master}/${system:user.name}/${env:SPARK_WORD}",
    )
    assert file.spark == {
        "spark.master": "local[4,4]",
        "spark.authenticate.secret": "hush",
        "spark.own": "${spark.master}/${system:user.name}/hush",
    }
    assert file.all_notices() == []


def test_a_spark_key_that_leads_nowhere_is_an_error() -> None:
    """Before anything starts, with its line."""
    file = config(
        "clusters=a,b",
        "a.bootstrap.servers=x:1",
        "b.bootstrap.servers=y:1",
        "a->b.enabled=true",
        "spark.authenticate.secret=${env:NOBODY_SETS_THIS}",
    )
    [notice] = file.all_notices()
    assert (notice.level, notice.where) == (NoticeLevel.ERROR, "line 5")
    assert notice.message.startswith(
        "spark.authenticate.secret: ${env:NOBODY_SETS_THIS} cannot be resolved"
    )
    with pytest.raises(ConfigError, match="NOBODY_SETS_THIS"):
        _ = file.spark


def test_a_file_with_nothing_enabled_gets_a_warning() -> None:
    """Only heartbeats would be written."""
    lines = ("clusters=a,b", "a.bootstrap.servers=x:1", "b.bootstrap.servers=y:1")
    (notice,) = config(*lines).all_notices()
    assert notice.level is NoticeLevel.WARNING
    assert "a->b.enabled=true" in notice.message


def test_validate_raises_every_error_at_once() -> None:
    """Errors of the file and of its flows in one exception."""
    file = config("clusters=a,b", "a->a.enabled=true", "a->x.enabled=true", "tasks.max=0")
    with pytest.raises(ConfigError) as error:
        file.validate()
    text = str(error.value)
    parts = ("to itself", "'x'", "tasks.max", "a.bootstrap.servers", "b.bootstrap.servers")
    for part in parts:
        assert part in text
    assert len(text.splitlines()) == len(parts)


def test_a_wrong_provider_line_is_an_error_of_the_file() -> None:
    """Flows cannot be read with it either."""
    file = config(
        "clusters=a,b",
        "config.providers=v",
        "config.providers.v.class=com.x.V",
        "a.bootstrap.servers=x:1",
        "b.bootstrap.servers=y:1",
        "a->b.enabled=true",
    )
    (notice,) = [n for n in file.all_notices() if n.level is NoticeLevel.ERROR]
    assert str(notice).startswith("line 3: config.providers.v.class names no known provider")
    with pytest.raises(ConfigError, match="names no known provider"):
        file.flow_settings(Flow("a", "b"))


@pytest.mark.parametrize("sample", sorted(SAMPLES.glob("*.properties")), ids=lambda p: p.name)
def test_the_samples_have_no_problem(sample: Path) -> None:
    """Nothing to remark at all."""
    file = MirrorConfig.load(sample)
    assert file.all_notices() == []
    assert any(file.flow_settings(flow).enabled for flow in file.flows())


def test_a_file_with_access_data_elsewhere(tmp_path: Path) -> None:
    """A cluster list with references into a second file, as container images carry them."""
    access = tmp_path / "access.properties"
    access.write_text("SRC_BROKERS=src-1:9092,src-2:9092\nTGT_BROKERS=tgt-1:9092\n")
    path = tmp_path / "mm2-config.properties"
    path.write_text(
        "clusters=source,target\n"
        "config.providers=file\n"
        "config.providers.file.class="
        "org.apache.kafka.common.config.provider.FileConfigProvider\n"
        f"source.bootstrap.servers=${{file:{access}:SRC_BROKERS}}\n"
        f"target.bootstrap.servers=${{file:{access}:TGT_BROKERS}}\n"
        "source->target.enabled=true\n"
        "source->target.topics=topic1,topic2\n"
        "replication.factor=1\n"
        "refresh.topics.interval.seconds=30\n"
    )
    file = MirrorConfig.load(path)
    assert file.all_notices() == []
    settings = file.flow_settings(Flow("source", "target"))
    assert settings.consumer.bootstrap_servers == ("src-1:9092", "src-2:9092")
    policy = load_policy(settings.policy, settings.flow)
    assert policy.selection.should_replicate_topic("topic2")
    assert not policy.selection.should_replicate_topic("topic22")
    assert policy.replication.format_remote_topic("source", "topic1") == "source.topic1"


def test_a_file_with_a_secured_source_is_fine(tmp_path: Path) -> None:
    """Spaces after commas are fine; so is all about TLS and SASL, but for Java's ssl.protocol."""
    path = tmp_path / "mm2.properties"
    path.write_text(
        "clusters=source, target\n"
        "source.bootstrap.servers=broker-0.example.com:9093, broker-1.example.com:9093\n"
        "source.security.protocol=SASL_SSL\n"
        "source.ssl.protocol=TLSv1.2\n"
        "source.sasl.mechanism=PLAIN\n"
        "source.sasl.jaas.config=org.apache.kafka.common.security.plain.PlainLoginModule "
        'required username="token" password="hush";\n'
        "target.bootstrap.servers=kafka1:9092, kafka2:9093, kafka3:9094\n"
        "# enable the flow\n"
        "source->target.enabled=true\n"
        "source->target.topics=orders\n"
    )
    file = MirrorConfig.load(path)
    found = file.all_notices()
    assert {n.key for n in found if n.level is not NoticeLevel.INFO} == set()
    assert {n.key for n in found} == {"source.ssl.protocol"}
    assert "hush" not in "".join(map(str, found))
    effective = file.parsed_flow(Flow("source", "target")).report.effective
    assert "hush" not in "".join(map(str, effective))
