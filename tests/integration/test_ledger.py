# SPDX-License-Identifier: Apache-2.0
"""The ledger and the dead-letter topic on a real broker: made when needed, printed by a command."""

from __future__ import annotations

import json
import re
import shlex
from pathlib import Path

from confluent_kafka.admin import ConfigResource, ResourceType
from typer.testing import CliRunner

from sparkmirror.cli.main import app
from sparkmirror.config.mirror_config import MirrorConfig
from sparkmirror.connectors.on_demand_topics import OnDemandTopics
from sparkmirror.devcluster.cluster import LocalCluster
from sparkmirror.model import Flow
from sparkmirror.policy.loading import load_policy
from sparkmirror.spark.flow_status import FlowStatus
from sparkmirror.state.incidents import Incident, IncidentKind
from sparkmirror.state.ledger import LedgerEntry, entry_for_incident
from sparkmirror.topology.replication_factors import ReplicationFactorChooser
from support.clients.librdkafka import (
    Record,
    admin,
    produce,
    topics,
)
from support.mirrors.mirror_file import mirror_file
from support.unique_names import unique_name
from support.waiting import PATIENCE_SECONDS, eventually


def print_ledger(file: Path, *options: str) -> str:
    """What the command prints; it must succeed."""
    done = CliRunner().invoke(app, ["ledger", str(file), *options])
    assert done.exit_code == 0, done.output
    return done.stdout


def documented_commands() -> list[str]:
    """The command lines of the page about incidents, without their comments."""
    page = (Path(__file__).parents[2] / "docs" / "incidents.md").read_text()
    lines = "\n".join(re.findall(r"```sh\n(.*?)```", page, re.DOTALL)).splitlines()
    assert len(lines) >= 3
    return [line.partition("#")[0].strip() for line in lines if line]


def entry(flow: Flow, topic: str, offset: int, *, last: int | None = None) -> LedgerEntry:
    """An entry about a gap."""
    incident = Incident(
        IncidentKind.GAP, topic, 0, offset, last or offset, 1, "why", offset, "continue"
    )
    return entry_for_incident(str(flow), incident)


def test_side_topics_are_made_when_needed_and_the_ledger_is_printed(
    source_cluster: LocalCluster, target_cluster: LocalCluster, tmp_path: Path
) -> None:
    """An absent ledger is an empty one; an entry written again replaces itself."""
    alias = unique_name("ledger")
    flow, clusters = Flow(alias, "sink"), {alias: source_cluster, "sink": target_cluster}
    file = mirror_file(tmp_path, clusters, f"{flow}.enabled = true")
    assert print_ledger(file) == ""

    settings = MirrorConfig.load(file).flow_settings(flow)
    names = load_policy(settings.policy, flow).replication
    status = FlowStatus(str(flow))
    side_topics = OnDemandTopics(settings, names, ReplicationFactorChooser(), status)
    wanted = [f"mm2-{what}.{alias}.internal" for what in ("ledger", "dead-letters")]
    side_topics.request(["not-ours", *wanted])
    side_topics.request(wanted)
    eventually(lambda: set(wanted) <= topics(target_cluster).keys(), PATIENCE_SECONDS, "topics")
    assert status.snapshot().problems == ()
    assert "not-ours" not in topics(target_cluster)
    client = admin(target_cluster)  # futures of a client that is gone never end
    asked = client.describe_configs([ConfigResource(ResourceType.TOPIC, name) for name in wanted])
    configs = {one.name: future.result(PATIENCE_SECONDS) for one, future in asked.items()}
    assert [configs[name]["cleanup.policy"].value for name in wanted] == ["compact", "delete"]
    assert configs[wanted[1]]["max.message.bytes"].value == str(64 << 20)

    written = [
        entry(flow, "t", 1),
        entry(flow, "t", 1, last=5),
        entry(flow, "u", 2),
        entry(Flow(alias, "elsewhere"), "t", 3),
    ]
    produce(target_cluster, wanted[0], [(0, Record(e.key(), e.value())) for e in written])
    listed = json.loads(print_ledger(file, "--json", "--flow", str(flow)))
    assert [(one["topic"], one["firstOffset"], one["lastOffset"]) for one in listed] == [
        ("t", 1, 5),
        ("u", 2, 2),
    ]
    for line in documented_commands():
        words = shlex.split(line.replace("primary->backup", str(flow)))
        arguments = [str(file) if word == file.name else word for word in words[1:]]
        done = CliRunner().invoke(app, arguments)
        nothing_to_show = arguments[:2] == ["dead-letters", "show"]
        assert done.exit_code == int(nothing_to_show), f"{line}: {done.output}"
    (line,) = print_ledger(file, "--topic", "u").splitlines()
    assert line.split("\t")[1:6] == [str(flow), "gap", "u-0", "2", "1"]
