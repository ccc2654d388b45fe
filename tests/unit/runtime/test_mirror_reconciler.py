# SPDX-License-Identifier: Apache-2.0
"""The pairs of a file: who owns them, what their connectors are to do, and what is shown of them.

Ownership and commands do as a test wants them; real ones are tested on real brokers.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import cast

import pytest

from sparkmirror.config.config_changes import ParsedRun, parse_run
from sparkmirror.config.keys.connector_classes import ConnectorClass
from sparkmirror.config.mirror_config import MirrorConfig
from sparkmirror.config.settings import FlowSettings
from sparkmirror.config.worker_settings import GroupSettings
from sparkmirror.connectors.connector_states import ConnectorState, ReportedState
from sparkmirror.connectors.desired_state import DesiredState, InstanceView, Restart
from sparkmirror.formats.connect_config_records import TargetState
from sparkmirror.formats.connect_status_records import RunState
from sparkmirror.model import Flow, TopicPartition
from sparkmirror.runtime.commands import FlowCommands, RestartCommand, TargetStates
from sparkmirror.runtime.mirror_reconciler import MirrorFlow, MirrorReconciler, connector_name
from sparkmirror.runtime.ownership import FlowOwnership, OwnershipStatus
from sparkmirror.spark.flow_status import FlowState, FlowStatus
from sparkmirror.wire.settings import ConnectionSettings

AB, BA = Flow("a", "b"), Flow("b", "a")
SOURCE, CHECKPOINT, HEARTBEAT = (
    ConnectorClass.SOURCE,
    ConnectorClass.CHECKPOINT,
    ConnectorClass.HEARTBEAT,
)
FILE = """
clusters = a, b
a.bootstrap.servers = 127.0.0.1:1
b.bootstrap.servers = 127.0.0.1:1
a->b.enabled = true
"""
SSL = "b.security.protocol = SASL_PLAINTEXT\nb.sasl.mechanism = PLAIN\nb.sasl.jaas.config = "
SSL += "org.apache.kafka.common.security.plain.PlainLoginModule required "
SSL += 'username="me" password="other";\n'


def read(*lines: str) -> ParsedRun:
    return parse_run(MirrorConfig.parse("\n".join((FILE, *lines))))


def without(reading: ParsedRun, flow: Flow) -> ParsedRun:
    return replace(reading, flows={f: one for f, one in reading.flows.items() if f != flow})


@dataclass
class ManualOwnership:
    """Owned, and left, when the test says so."""

    settings: FlowSettings
    group: GroupSettings
    is_owner: bool = False
    has_left: bool = False
    calls: list[str] = field(default_factory=list)

    def start(self) -> None:
        self.calls.append("start")

    def update_connection(self, _connection: ConnectionSettings) -> None:
        self.calls.append("update")

    def stop(self, _seconds: float) -> bool:
        if "stop" not in self.calls:
            self.calls.append("stop")
        return self.has_left

    def status(self) -> OwnershipStatus:
        return OwnershipStatus(FlowState.STANDBY, "stands by: another runs it")


@dataclass
class ManualCommands:
    """Keeps what the test puts there."""

    target_states: TargetStates | None = field(default_factory=dict)
    problem: str = ""
    restarts: list[RestartCommand] = field(default_factory=list)
    calls: list[str] = field(default_factory=list)

    def start(self) -> None:
        self.calls.append("start")

    def update_settings(self, _settings: FlowSettings) -> None:
        self.calls.append("update")

    def stop(self) -> None:
        self.calls.append("stop")

    def take_restarts(self) -> list[RestartCommand]:
        found, self.restarts = self.restarts, []
        return found


class Bench:
    """Two pairs: a->b copies, b->a emits heartbeats."""

    def __init__(self) -> None:
        self.reading = read()
        self.ownerships: list[ManualOwnership] = []
        self.all_commands: list[ManualCommands] = []
        self.reconciler = MirrorReconciler(self.reading, self._own, self._command)
        self.reconciler.start()

    def _own(self, settings: FlowSettings, group: GroupSettings) -> FlowOwnership:
        self.ownerships.append(ManualOwnership(settings, group))
        return cast("FlowOwnership", self.ownerships[-1])

    def _command(self, _settings: FlowSettings) -> FlowCommands:
        self.all_commands.append(ManualCommands())
        return cast("FlowCommands", self.all_commands[-1])

    def own(self) -> None:
        for one in self.ownerships:
            one.is_owner = True

    def apply(self, *lines: str) -> None:
        self.reconciler.apply(read(*lines))

    def desired(self) -> dict[str, DesiredState]:
        return {name: target.desired for name, target in self.reconciler.poll().connectors.items()}

    def flows(self) -> list[Flow]:
        return [one.flow for one in self.reconciler.flows()]

    def identities(self) -> dict[str, object]:
        targets = self.reconciler.poll().connectors
        return {name: target.spec.identity for name, target in targets.items() if target.spec}

    @property
    def ab(self) -> MirrorFlow:
        return self.reconciler.flows()[0]

    @property
    def ba(self) -> MirrorFlow:
        return self.reconciler.flows()[1]


def name(kind: ConnectorClass, flow: Flow = AB) -> str:
    return connector_name(flow, kind)


ALL = [name(SOURCE), name(CHECKPOINT), name(HEARTBEAT), name(HEARTBEAT, BA)]


@pytest.fixture
def bench() -> Bench:
    made = Bench()
    made.own()
    return made


def test_connectors_stand_by_until_their_flow_is_owned_and_its_commands_are_read() -> None:
    bench = Bench()
    assert [one.calls for one in bench.ownerships] == [["start"], ["start"]]
    assert bench.desired() == dict.fromkeys(ALL, DesiredState.STANDBY)
    bench.own()
    bench.all_commands[0].target_states = None
    assert bench.desired() == {
        **dict.fromkeys(ALL, DesiredState.STANDBY),
        name(HEARTBEAT, BA): DesiredState.RUNNING,
    }
    bench.all_commands[0].target_states = {}
    assert bench.desired() == dict.fromkeys(ALL, DesiredState.RUNNING)
    bench.ownerships[0].is_owner = False
    assert bench.desired()[name(SOURCE)] is DesiredState.STANDBY


def test_a_command_reaches_one_connector_and_stays_through_a_newer_file(bench: Bench) -> None:
    bench.all_commands[0].target_states = {
        CHECKPOINT: TargetState.STOPPED,
        SOURCE: TargetState.PAUSED,
    }
    expected = {
        name(SOURCE): DesiredState.PAUSED,
        name(CHECKPOINT): DesiredState.STOPPED,
        name(HEARTBEAT): DesiredState.RUNNING,
        name(HEARTBEAT, BA): DesiredState.RUNNING,
    }
    assert bench.desired() == expected
    bench.apply("a->b.groups = g")
    assert bench.desired() == expected


def test_a_restart_is_taken_once_and_names_the_connector(bench: Bench) -> None:
    bench.all_commands[0].restarts = [RestartCommand(SOURCE, only_failed=True)]
    assert bench.reconciler.poll().restarts == (Restart(name(SOURCE), only_failed=True),)
    assert bench.reconciler.poll().restarts == ()


@pytest.mark.parametrize(
    ("line", "changed"),
    [
        ("a->b.topics = t", [name(SOURCE), name(CHECKPOINT)]),
        ("a->b.groups = g", [name(CHECKPOINT)]),
        ("a->b.emit.heartbeats.interval.seconds = 7", [name(HEARTBEAT)]),
        ("a->b.tasks.max = 1", []),  # the default
    ],
)
def test_only_connectors_that_a_change_concerns_get_another_identity(
    bench: Bench, line: str, changed: list[str]
) -> None:
    before = bench.identities()
    bench.apply(line)
    after = bench.identities()
    assert [one for one in ALL if before[one] != after[one]] == changed
    assert [one.calls for one in bench.ownerships] == [["start"], ["start"]]


def test_the_same_file_again_keeps_every_spec_equal(bench: Bench) -> None:
    before = bench.reconciler.poll().connectors
    bench.apply()
    assert bench.reconciler.poll().connectors == before


def test_a_flow_with_another_group_leaves_before_it_joins(bench: Bench) -> None:
    """Its counters are kept meanwhile: it stands by."""
    groups = {**bench.reading.groups, AB: GroupSettings("other")}
    bench.reconciler.apply(replace(bench.reading, groups=groups))
    assert bench.ownerships[0].calls == ["start", "stop"]
    assert bench.all_commands[0].calls == ["start", "stop"]
    assert bench.desired()[name(SOURCE)] is DesiredState.STANDBY
    assert len(bench.ownerships) == 2
    bench.ownerships[0].has_left = True
    bench.reconciler.poll()
    assert bench.ownerships[2].calls == ["start"]
    assert bench.ownerships[2].group.group_id == "other"
    bench.own()
    assert bench.desired()[name(SOURCE)] is DesiredState.RUNNING
    assert bench.flows() == [AB, BA]


def test_an_owner_keeps_its_place_with_other_credentials(bench: Bench) -> None:
    """The old ones may not allow it to leave."""
    bench.apply(SSL)
    assert bench.ownerships[0].calls == ["start", "update"]
    assert bench.all_commands[0].calls == ["start", "update"]
    assert bench.ownerships[1].calls == ["start"]


def test_a_process_that_was_not_let_in_joins_again_with_other_credentials() -> None:
    bench = Bench()
    bench.apply(SSL)
    assert bench.ownerships[0].calls == ["start", "stop"]
    bench.ownerships[0].has_left = True
    bench.reconciler.poll()
    assert bench.ownerships[2].calls == ["start"]


def test_a_removed_flow_is_in_view_until_it_has_left(bench: Bench) -> None:
    bench.reconciler.apply(without(bench.reading, AB))
    assert bench.desired() == {name(HEARTBEAT, BA): DesiredState.RUNNING}
    assert bench.flows() == [BA, AB]
    bench.ownerships[0].has_left = True
    bench.reconciler.poll()
    assert bench.flows() == [BA]


def test_a_flow_readded_before_it_left_joins_once(bench: Bench) -> None:
    bench.reconciler.apply(without(bench.reading, AB))
    bench.apply()
    bench.apply("a->b.topics = t")
    bench.reconciler.poll()
    assert len(bench.ownerships) == 2
    bench.ownerships[0].has_left = True
    bench.reconciler.poll()
    assert len(bench.ownerships) == 3
    assert bench.ownerships[2].settings.policy.topics == ("t",)
    assert bench.flows() == [AB, BA]


def test_a_new_flow_joins_its_group() -> None:
    bench = Bench()
    bench.reconciler.apply(without(bench.reading, BA))
    bench.ownerships[1].has_left = True
    bench.reconciler.poll()
    bench.apply()
    assert bench.ownerships[2].calls == ["start"]
    assert bench.flows() == [AB, BA]


def test_the_end_leaves_every_group(bench: Bench) -> None:
    bench.reconciler.stop(0.0)
    assert [one.calls for one in bench.ownerships] == [["start", "stop"]] * 2
    assert [one.calls for one in bench.all_commands] == [["start", "stop"]] * 2


# --- what is shown


def view(
    kind: ConnectorClass,
    state: FlowState = FlowState.RUNNING,
    *,
    flow: Flow = AB,
    reason: str = "",
    problem: str = "",
    desired: DesiredState = DesiredState.RUNNING,
    **more: object,
) -> dict[str, InstanceView]:
    status = FlowStatus(str(flow))
    status.count_change("created")
    status.set_state(state, reason)
    status.set_problem("x", problem)
    shown = ConnectorState(ReportedState(RunState.RUNNING))
    own = name(kind, flow)
    made = InstanceView(own, kind, desired, shown, status.snapshot(), is_active=True)
    return {own: replace(made, **more)}  # type: ignore[arg-type]


def test_a_standby_flow_names_its_owner_and_keeps_its_counters() -> None:
    bench = Bench()
    idle = view(SOURCE, FlowState.STANDBY, desired=DesiredState.STANDBY, is_active=False)
    now = bench.ab.snapshot(idle)
    assert (now.state, now.reason) == (FlowState.STANDBY, "stands by: another runs it")
    assert now.topology_changes == {"created": 1}
    assert bench.ab.snapshot({}).state is FlowState.STANDBY
    assert bench.ab.state(SOURCE, idle).connector.warning == "stands by: another runs it"
    assert bench.ab.state(SOURCE, idle).connector.state is RunState.UNASSIGNED
    bench.all_commands[0].target_states = {SOURCE: TargetState.PAUSED}
    assert bench.ab.state(SOURCE, idle).connector.state is RunState.PAUSED


def test_an_owner_whose_commands_cannot_be_read_retries(bench: Bench) -> None:
    bench.all_commands[0].target_states = None
    bench.all_commands[0].problem = "cannot be read"
    now = bench.ab.snapshot({})
    assert (now.state, now.reason) == (FlowState.RETRYING, "cannot be read")


def test_a_flow_that_ends_is_shown_as_its_source_until_then() -> None:
    bench = Bench()
    ending = view(SOURCE, FlowState.RUNNING, desired=DesiredState.STANDBY, is_slow=True)
    now = bench.ab.snapshot(ending)
    assert now.state is FlowState.RUNNING
    assert now.problems == ("the previous instance has not ended; its successor waits",)
    assert bench.ab.state(SOURCE, ending) is ending[name(SOURCE)].state


def test_an_owned_flow_starts_before_it_has_instances(bench: Bench) -> None:
    assert bench.ab.snapshot({}).state is FlowState.STARTING
    idle = view(SOURCE, FlowState.STANDBY, desired=DesiredState.STANDBY, is_active=False)
    assert bench.ab.snapshot(idle).state is FlowState.STARTING


def test_a_paused_source_makes_its_flow_paused(bench: Bench) -> None:
    bench.all_commands[0].target_states = {SOURCE: TargetState.PAUSED}
    source = view(SOURCE, FlowState.PAUSED, desired=DesiredState.PAUSED, is_active=False)
    now = bench.ab.snapshot({**source, **view(CHECKPOINT)})
    assert (now.state, now.reason) == (FlowState.PAUSED, "MirrorSourceConnector is paused")


def test_a_stopped_source_makes_its_flow_stopped(bench: Bench) -> None:
    bench.all_commands[0].target_states = {SOURCE: TargetState.STOPPED}
    source = view(SOURCE, FlowState.STOPPED, desired=DesiredState.STOPPED)
    assert bench.ab.snapshot(source).state is FlowState.STOPPED
    between = view(SOURCE, FlowState.STOPPED)
    assert bench.ab.snapshot(between).state is FlowState.STARTING


def test_a_paused_connector_has_the_tasks_that_it_will_have(bench: Bench) -> None:
    """Also after a restart of the process, which has not run them."""
    status = FlowStatus("a->b")
    status.set_scope([TopicPartition("orders", index) for index in range(3)])
    for kind in (SOURCE, CHECKPOINT):
        paused = replace(
            view(kind, desired=DesiredState.PAUSED, is_active=False)[name(kind)],
            state=ConnectorState(ReportedState(RunState.PAUSED)),
            snapshot=status.snapshot(),
        )
        tasks = bench.ab.state(kind, {name(kind): paused}).tasks
        assert tasks == {0: ReportedState(RunState.PAUSED)}


def test_one_stopped_connector_is_named_while_the_others_run(bench: Bench) -> None:
    bench.all_commands[0].target_states = {CHECKPOINT: TargetState.STOPPED}
    now = bench.ab.snapshot(view(SOURCE))
    assert (now.state, now.reason) == (FlowState.RUNNING, "MirrorCheckpointConnector is stopped")


def test_tasks_are_unassigned_while_the_target_cannot_be_reached(bench: Bench) -> None:
    bench.all_commands[0].target_states = None
    bench.all_commands[0].problem = "no broker"
    lost = ConnectorState(
        ReportedState(RunState.UNASSIGNED), {0: ReportedState(RunState.UNASSIGNED)}
    )
    idle = view(SOURCE, FlowState.STANDBY, desired=DesiredState.STANDBY, is_active=False)
    shown = bench.ab.state(SOURCE, {name(SOURCE): replace(idle[name(SOURCE)], state=lost)})
    assert (shown.connector.state, shown.connector.warning) == (RunState.RUNNING, "no broker")
    assert shown.tasks == lost.tasks


def test_a_flow_that_copies_nothing_emits_heartbeats_only(bench: Bench) -> None:
    now = bench.ba.snapshot(view(HEARTBEAT, flow=BA))
    assert (now.state, now.reason) == (FlowState.RUNNING, "heartbeats only")


def test_what_the_small_connectors_report_is_added_once(bench: Bench) -> None:
    views = {
        **view(SOURCE, problem="topic x is missing"),
        **view(
            CHECKPOINT,
            FlowState.RETRYING,
            reason="no broker",
            problem="topic x is missing",
            group_positions={"ok": 2},
        ),
        **view(HEARTBEAT, FlowState.RETRYING, reason="no broker", heartbeat_error="no topic"),
    }
    now = bench.ab.snapshot(views)
    assert now.state is FlowState.RUNNING
    assert now.problems == ("topic x is missing", "no broker", "heartbeats: no topic")
    assert now.group_positions == {"ok": 2}


def test_the_reason_of_the_source_is_not_repeated(bench: Bench) -> None:
    retrying = FlowState.RETRYING
    source, other = (view(kind, retrying, reason="no broker") for kind in (SOURCE, CHECKPOINT))
    assert bench.ab.snapshot({**source, **other}).problems == ()
