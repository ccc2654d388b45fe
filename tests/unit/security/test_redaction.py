# SPDX-License-Identifier: Apache-2.0
"""A log level set over REST does not enable the DEBUG output of libraries."""

from __future__ import annotations

import logging
import socketserver
import threading
from collections.abc import Iterator

import pytest
from py4j.java_gateway import GatewayClient

from sparkmirror.security.redaction import limit_library_logs
from support.log_capture import captured_log


class _Java(socketserver.StreamRequestHandler):
    """Answers a command with yes."""

    def handle(self) -> None:
        self.rfile.readline()
        self.wfile.write(b"!yv\n")


@pytest.fixture
def java() -> Iterator[GatewayClient]:
    """py4j's client and a server that responds to it."""
    with socketserver.TCPServer(("127.0.0.1", 0), _Java) as server:
        threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
        client = GatewayClient(port=server.server_address[1])
        yield client
        client.close()
        server.shutdown()


@pytest.mark.parametrize("logger", ["root", "py4j", "py4j.java_gateway"])
@pytest.mark.parametrize("level", ["DEBUG", "TRACE", "ALL"])
def test_no_command_of_py4j_is_logged(logger: str, level: str, java: GatewayClient) -> None:
    """The one that begins an epoch holds its token."""
    with captured_log(logger, level) as text:
        limit_library_logs("py4j", logging.WARNING)
        limit_library_logs("py4j", logging.WARNING)
        java.send_command("hush-token\n")
        logging.getLogger("py4j.java_gateway").warning("heard")
    assert text.getvalue() == "heard\n"


def test_py4j_would_log_it(java: GatewayClient) -> None:
    """What the test above relies on."""
    with captured_log() as text:
        java.send_command("hush-token\n")
    assert "Command to send: hush-token" in text.getvalue()


def test_a_logger_that_is_made_later_is_no_way_out() -> None:
    """Modules are imported when they are needed."""
    with captured_log("talkative") as text:
        limit_library_logs("talkative", logging.INFO)
        later = logging.getLogger("talkative.made.later")
        later.debug("hush")
        later.info("heard")
    assert text.getvalue() == "heard\n"


def test_a_cause_is_named_and_not_quoted() -> None:
    """It may hold an answer, or a file."""
    with captured_log() as text:
        limit_library_logs("talkative", logging.INFO)
        error = ValueError("hush")
        logging.getLogger("talkative").error("It went %s.", "wrong", exc_info=error)
    assert text.getvalue() == "It went wrong. (ValueError)\n"
