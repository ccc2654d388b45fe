# SPDX-License-Identifier: Apache-2.0
"""The start of a run."""

from __future__ import annotations

import socket
import threading
from contextlib import closing
from pathlib import Path

import pytest

from sparkmirror.errors import SetupError
from sparkmirror.runtime.mirror import Mirror


def test_a_run_joins_no_group_when_its_port_is_in_use(tmp_path: Path) -> None:
    """A second process with the same file does not interrupt the first one.

    The flows only emit heartbeats, so nothing else is prepared that would have to be closed.
    """
    with closing(socket.create_server(("127.0.0.1", 0))) as taken:
        port = taken.getsockname()[1]
        file = tmp_path / "mm2.properties"
        file.write_text(
            "clusters = a, b\na.bootstrap.servers = 127.0.0.1:1\nb.bootstrap.servers = "
            f"127.0.0.1:1\nlisteners = http://127.0.0.1:{port}\n"
        )
        mirror = Mirror(file, serves=True)
        before = {*threading.enumerate()}
        with pytest.raises(SetupError, match=f"cannot listen on http://127.0.0.1:{port}: Address"):
            mirror.start()
        assert {*threading.enumerate()} == before
