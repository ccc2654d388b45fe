# SPDX-License-Identifier: Apache-2.0
"""`plan` and `apply` when clusters are unreachable, and when a plan was applied before."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from sparkmirror.cli.apply import PlanCheck, compare_plans
from sparkmirror.cli.main import app
from sparkmirror.config.mirror_config import MirrorConfig
from sparkmirror.model import Flow
from sparkmirror.topology import plan_file
from sparkmirror.topology.flow_plan import Action, FlowPlan
from sparkmirror.topology.plan_file import PlanDocument
from sparkmirror.topology.settings_digest import settings_digest
from sparkmirror.topology.topic_deletions import DeleteTopic
from sparkmirror.topology.topics import CreateTopic, GrowTopic

FLOW = Flow("a", "b")
UNREACHABLE = """
clusters = a, b
a.bootstrap.servers = 127.0.0.1:1
b.bootstrap.servers = 127.0.0.1:1
a->b.enabled = true
b->a.emit.heartbeats.enabled = false
admin.connect.timeout.ms = 200
"""
CREATE = CreateTopic("orders", "a.orders", 6, 3, {})
GROW = GrowTopic("orders", "a.orders", 3, 6)
DELETE = DeleteTopic("gone", "a.gone", "id")


@pytest.fixture
def file(tmp_path: Path) -> Path:
    """A file with two clusters that nothing listens for."""
    path = tmp_path / "mm2.properties"
    path.write_text(UNREACHABLE)
    return path


def plan(*actions: Action, settings: str = "digest") -> FlowPlan:
    return FlowPlan(FLOW, settings, "id-a", "id-b", actions)


def run(*words: str | Path) -> tuple[int, str]:
    """The exit code of a command and its output on one line."""
    done = CliRunner().invoke(app, [str(word) for word in words])
    return done.exit_code, " ".join(done.output.split())


def test_plan_writes_nothing_when_a_cluster_is_unreachable(file: Path) -> None:
    """The exit code is not that of an invalid file."""
    out = file.with_name("plan.json")
    code, text = run("plan", file, "--out", out)
    assert code == 4
    assert "error: cannot plan a->b: Cluster 'a' cannot be reached" in text
    assert "plan.json was not written" in text
    assert "Nothing to change" not in text
    assert not out.exists()


def test_plan_as_json_names_the_flows_that_were_not_planned(file: Path) -> None:
    done = CliRunner().invoke(app, ["plan", str(file), "--json"])
    assert done.exit_code == 4
    assert json.loads(done.stdout)["notPlanned"][0]["flow"] == {"source": "a", "target": "b"}


def test_apply_refuses_a_plan_that_lacks_a_flow(file: Path) -> None:
    """For example the output of `plan --json` while a cluster was down."""
    out = file.with_name("plan.json")
    plan_file.write(PlanDocument(str(file), "now", 1.0, (), ((FLOW, "a is down"),)), out)
    code, text = run("apply", out, "--yes")
    assert code == 2
    assert "plan.json has no plan for a->b: a is down" in text
    assert "nothing to do" not in text


def test_apply_changes_nothing_when_a_cluster_is_unreachable(file: Path) -> None:
    out = file.with_name("plan.json")
    digest = settings_digest(MirrorConfig.load(file).flow_settings(FLOW))
    plan_file.write(PlanDocument(str(file), "now", 1.0, (plan(CREATE, settings=digest),)), out)
    code, text = run("apply", out, "--yes")
    assert code == 4
    assert "cannot compare the plan of a->b: Cluster 'a' cannot be reached" in text
    assert "Nothing was changed." in text


@pytest.mark.parametrize(
    ("now", "check"),
    [
        (plan(), PlanCheck(is_finished=True)),
        (plan(GROW), PlanCheck(unplanned=("a->b: grow topic a.orders on b",), is_finished=True)),
        (
            plan(DELETE),
            PlanCheck(
                ("a->b: create topic a.orders on b: 6 partitions, 3 replicas; no longer needed",)
            ),
        ),
        (plan(CREATE, DELETE), PlanCheck()),
    ],
    ids=["finished", "finished-and-more", "half", "all"],
)
def test_a_plan_is_finished_if_none_of_its_actions_is_needed(
    now: FlowPlan, check: PlanCheck
) -> None:
    found = compare_plans([plan(CREATE, DELETE)], {FLOW: now})
    assert found.is_finished is check.is_finished
    assert found.mismatches == check.mismatches
    assert [one.partition(":")[0] for one in found.unplanned] == [
        one.partition(":")[0] for one in check.unplanned
    ]


def test_a_finished_plan_for_another_cluster_is_outdated() -> None:
    rebuilt = FlowPlan(FLOW, "digest", "id-a", "id-c")
    found = compare_plans([plan(CREATE)], {FLOW: rebuilt})
    assert not found.is_finished
    assert "is another cluster" in found.mismatches[0]
