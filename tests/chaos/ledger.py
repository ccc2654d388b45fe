# SPDX-License-Identifier: Apache-2.0
"""The ledger as `sparkmirror ledger` prints it."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Mapping
from pathlib import Path

from chaos.history import Entry
from support.mirrors.mirror_process import command
from support.waiting import PATIENCE_SECONDS


def read_entries(file: Path, environment: Mapping[str, str]) -> list[Entry]:
    """All entries of all flows of a file."""
    done = subprocess.run(
        [command(), "ledger", str(file), "--json"],
        capture_output=True,
        text=True,
        timeout=PATIENCE_SECONDS,
        check=True,
        env={**os.environ, **environment},
    )
    return [
        Entry(
            kind=one["kind"],
            stream=(one["flow"].partition("->")[0], one["partition"]),
            first=one["firstOffset"],
            last=one["lastOffset"],
            records=one["records"],
        )
        for one in json.loads(done.stdout)
    ]
