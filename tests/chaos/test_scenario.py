# SPDX-License-Identifier: Apache-2.0
"""The properties file of a scenario is valid, evidence is complete, truncation works."""

from __future__ import annotations

from pathlib import Path

import pytest

from chaos.evidence import BatchLine, batch_lines
from chaos.scenario import TARGET, Mode, Scenario, properties
from sparkmirror.config.files.notices import NoticeLevel
from sparkmirror.config.mirror_config import MirrorConfig
from support.clusters.log_damage import truncate
from support.data.record_batches import LZ4, encode, numbered


@pytest.mark.parametrize("mode", Mode)
@pytest.mark.parametrize("flows", [1, 2])
@pytest.mark.parametrize("master", ["", "spark://127.0.0.1:7077"])
def test_every_line_of_the_file_is_understood(
    tmp_path: Path, flows: int, mode: Mode, master: str
) -> None:
    """An unknown key would weaken every run silently."""
    scenario = Scenario(seed=1, faults=1, flows=flows, mode=mode)
    servers = dict.fromkeys((*scenario.sources, TARGET), "127.0.0.1:1")
    file = tmp_path / "mm2.properties"
    lines = properties(scenario, servers, master=master, environment={"NAME": "text"})
    file.write_text("\n".join(lines))
    config = MirrorConfig.load(file)
    assert [str(one) for one in config.all_notices(()) if one.level is NoticeLevel.WARNING] == []
    assert len([flow for flow in config.flows(()) if config.flow_settings(flow).enabled]) == flows


def test_evidence_names_the_writer_of_each_record_batch(tmp_path: Path) -> None:
    first = encode(numbered(0, 3), producer=(8, 1, 40))
    second = encode(numbered(3, 2), producer=(9, 0, 0), leader_epoch=2)
    third = encode(numbered(5, 1), codec=LZ4)
    (tmp_path / "00000000000000000005.log").write_bytes(third)
    (tmp_path / "00000000000000000000.log").write_bytes(first + second + bytes(100))
    assert [*batch_lines(tmp_path)] == [
        BatchLine(0, 3, producer_id=8, producer_epoch=1, sequence=40, leader_epoch=7, attributes=0),
        BatchLine(3, 2, producer_id=9, producer_epoch=0, sequence=0, leader_epoch=2, attributes=0),
        BatchLine(
            5, 1, producer_id=-1, producer_epoch=-1, sequence=-1, leader_epoch=7, attributes=LZ4
        ),
    ]


@pytest.mark.parametrize(("keep", "end"), [(9, 9), (6, 6), (5, 5), (4, 5), (2, 3), (1, 3)])
def test_a_log_is_cut_behind_a_record_batch_of_any_segment(
    tmp_path: Path, keep: int, end: int
) -> None:
    """Later segments and producer snapshots are removed."""
    folder = tmp_path / "logs-0"
    folder.mkdir()
    first = encode(numbered(0, 3)), encode(numbered(3, 2))
    (folder / "00000000000000000000.log").write_bytes(b"".join(first))
    (folder / "00000000000000000005.log").write_bytes(encode(numbered(5, 1)))
    (folder / "00000000000000000006.log").write_bytes(encode(numbered(6, 3)))
    for offset in (5, 6):
        (folder / f"{offset:020}.snapshot").touch()
    assert truncate(tmp_path, "logs", 0, keep) == end
    lines = [*batch_lines(folder)]
    assert lines[-1].base_offset + lines[-1].records == end
    assert all(int(one.stem) <= end for one in folder.glob("*.snapshot"))
