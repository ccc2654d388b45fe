# SPDX-License-Identifier: Apache-2.0
"""The REST API of a mirror takes up other certificates and users, and leaves other keys to wait."""

from __future__ import annotations

import socket
import ssl
from collections.abc import Iterator
from dataclasses import replace

import pytest

from sparkmirror.config.config_changes import ParsedRun, compare_runs, describe_changes
from sparkmirror.config.worker_settings import RestListener, RestSettings, RunRestSettings
from sparkmirror.errors import ConfigError, SetupError
from sparkmirror.model import Secret
from sparkmirror.runtime.mirror_rest import MirrorRestServer
from sparkmirror.security.settings import TlsSettings
from support.data.certificates import Authority

AUTHORITY = Authority()
HTTPS = RestListener("https", "127.0.0.1", 0)
REST = RunRestSettings(
    RestSettings((HTTPS,), tls=AUTHORITY.tls(), users={"ann": Secret("s3cret")}),
    allows_any_port=False,
)


def reading(rest: RunRestSettings | None) -> ParsedRun:
    """A file that says nothing else."""
    return ParsedRun({}, {}, {}, None, rest)


def changed(**settings: object) -> RunRestSettings:
    """The same in another way."""
    return replace(REST, settings=replace(REST.settings, **settings))  # type: ignore[arg-type]


@pytest.fixture
def server() -> Iterator[MirrorRestServer]:
    """Serves an empty file."""
    made = MirrorRestServer(REST, "mm2.properties", list, dict, lambda: reading(REST))
    yield made
    made.stop()


def shown(server: MirrorRestServer) -> str:
    """The certificate that it shows."""
    port = int(server.url.rstrip("/").rpartition(":")[2])
    return ssl.get_server_certificate(("127.0.0.1", port), timeout=60)


def test_another_certificate_is_shown(server: MirrorRestServer) -> None:
    """Also after one that cannot be used, which changes nothing."""
    before = shown(server)
    with pytest.raises(ConfigError):
        server.prepare_credentials(
            changed(tls=TlsSettings(chain="no certificate", key=Secret("nor a key")))
        )
    assert shown(server) == before
    other = AUTHORITY.tls()
    renew = server.prepare_credentials(changed(tls=other))
    assert renew is not None
    assert shown(server) == before
    renew()
    assert shown(server).strip() == other.chain.strip()
    assert server.prepare_credentials(changed(tls=other)) is not None


@pytest.mark.parametrize(
    "rest",
    [
        None,
        changed(listeners=(HTTPS, HTTPS), tls=AUTHORITY.tls()),
        changed(users=None),
        changed(allow_origin="https://example.com"),
    ],
)
def test_other_keys_wait_for_the_next_start(
    server: MirrorRestServer, rest: RunRestSettings | None
) -> None:
    """And nothing of them is taken."""
    before = shown(server)
    assert server.prepare_credentials(rest) is None
    assert shown(server) == before
    changes = compare_runs(reading(REST), reading(rest))
    assert (changes.rest_changed, changes.rest_credentials_changed) == (True, False)


def test_a_renewal_is_reported() -> None:
    """It is not nothing, and does not wait for a start."""
    users = {"bob": Secret("s3cret")}
    changes = compare_runs(reading(REST), reading(changed(users=users)))
    assert (changes.rest_changed, changes.rest_credentials_changed) == (False, True)
    assert not changes.is_empty
    said = describe_changes("mm2.properties", changes)
    assert said == "mm2.properties was reloaded: certificates or users of the REST API changed"


def test_a_taken_port_is_named_with_the_one_that_is_served_instead(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """If the file sets no listeners; else it is an error."""
    with socket.create_server(("127.0.0.1", 0)) as other:
        taken = RestListener("http", "127.0.0.1", other.getsockname()[1])
        rest = RunRestSettings(RestSettings((taken,)), allows_any_port=True)
        with caplog.at_level("INFO"):
            serving = MirrorRestServer(rest, "mm2.properties", list, dict, lambda: reading(rest))
        url = serving.url.rstrip("/")
        serving.stop()
        with pytest.raises(SetupError, match=f"cannot listen on {taken}: Address already in use"):
            MirrorRestServer(
                replace(rest, allows_any_port=False), "f", list, dict, lambda: reading(rest)
            )
    assert (
        f"{taken} is in use, and the file sets no listeners: the REST API is served at {url} "
        "instead." in caplog.text
    )
    assert f"The REST API is served at {url}, advertised as {url}/" in caplog.text
