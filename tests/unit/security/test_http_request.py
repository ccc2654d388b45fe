# SPDX-License-Identifier: Apache-2.0
"""One HTTP request: what is sent, what ends it, and what is logged."""

from __future__ import annotations

import logging
import socket
import ssl
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress

import pytest

from sparkmirror.security import http_request
from sparkmirror.security.http_request import (
    HttpFailure,
    HttpRequest,
    HttpRequestError,
    send_request,
)
from sparkmirror.security.settings import TlsSettings
from sparkmirror.security.tls import client_context, load_certificate_and_key
from support.data.certificate_chains import CA, EXPIRED_LEAF, LEAF
from support.data.weak_certificates import HOST, weak_certificate
from support.log_capture import captured_log

ANSWER = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nSet-Cookie: a=b\r\n\r\n{}"
SECONDS = 60.0


@contextmanager
def server(
    answer: bytes = ANSWER, context: ssl.SSLContext | None = None
) -> Iterator[tuple[str, list[bytes]]]:
    """An address, and the requests that were sent to it; each gets the same answer."""
    seen: list[bytes] = []
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def serve() -> None:
            with suppress(OSError):
                while True:
                    peer, _ = listener.accept()
                    with suppress(OSError), peer:
                        stream = context.wrap_socket(peer, server_side=True) if context else peer
                        with stream:
                            seen.append(stream.recv(65536))
                            stream.sendall(answer)

        thread = threading.Thread(target=serve, daemon=True)
        thread.start()
        scheme, port = "https" if context else "http", listener.getsockname()[1]
        yield f"{scheme}://{HOST if context else '127.0.0.1'}:{port}", seen
        listener.shutdown(socket.SHUT_RDWR)
    thread.join()


def request(url: str, method: str = "GET", **changes: object) -> HttpRequest:
    """A request without a body."""
    return HttpRequest(method, url, seconds=SECONDS, most_bytes=1000, **changes)  # type: ignore[arg-type]


@pytest.mark.parametrize("path", ["/connectors/a%2Fb", "/a%2fb%20c", "/a|b?x=%C3%BC&y", "/%25"])
def test_a_path_is_sent_as_it_is_written(path: str) -> None:
    """A name with a slash in it must not become two parts of a path."""
    with server() as (url, seen):
        assert send_request(request(url + path)).status == 200
    assert seen[0].startswith(f"GET {path} HTTP/1.1\r\n".encode())


def test_headers_of_a_request() -> None:
    """No compression, no cookies, a length where there is a body."""
    with server() as (url, seen):
        for _ in range(2):
            send_request(request(url, "POST", body=b"xy", headers={"X-Name": "\xfc"}))
    head = seen[1].partition(b"\r\n\r\n")[0].lower()
    assert seen[1].startswith(b"POST / HTTP/1.1\r\n")
    assert b"x-name: \xfc" in head
    assert b"content-length: 2" in head
    assert b"accept-encoding: identity" in head
    assert b"user-agent: sparkmirror/" in head
    assert b"cookie" not in head


def test_a_response_to_a_closed_request_is_not_awaited(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The one who was asked may be suspended."""
    monkeypatch.setattr(http_request, "_CHECK_SECONDS", 0.05)
    with socket.create_server(("127.0.0.1", 0)) as silent:
        url = f"http://127.0.0.1:{silent.getsockname()[1]}"
        with pytest.raises(HttpRequestError) as caught:
            send_request(request(url), is_wanted=lambda: False)
    assert caught.value.failure is HttpFailure.NOT_WANTED


@pytest.mark.parametrize(
    ("answer", "failure"),
    [
        (b"SSH-2.0-OpenSSH_9\r\n\r\n", HttpFailure.NOT_HTTP),
        (b"", HttpFailure.CUT_OFF),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\n{}", HttpFailure.CUT_OFF),
        (b"HTTP/1.1 200 OK\r\n\r\n" + b" " * 1001, HttpFailure.TOO_LARGE),
    ],
)
def test_no_whole_answer_is_a_failure(answer: bytes, failure: HttpFailure) -> None:
    """Half an answer would look like a short one."""
    with server(answer) as (url, _seen), pytest.raises(HttpRequestError) as caught:
        send_request(request(url))
    assert caught.value.failure is failure


@pytest.mark.parametrize(
    ("chain", "words"),
    [
        (LEAF, ""),
        (EXPIRED_LEAF, "expired"),
        (weak_certificate(by=CA, digest="MD5"), "MD5"),
    ],
    ids=["good", "expired", "md5"],
)
def test_certificates_are_checked_as_for_brokers(
    chain: object, words: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The event loop has its own TLS layer."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.set_ciphers("DEFAULT:@SECLEVEL=0")
    load_certificate_and_key(context, chain.pem, chain.key)  # type: ignore[attr-defined]
    real = socket.getaddrinfo
    monkeypatch.setattr(
        socket, "getaddrinfo", lambda _host, *rest, **named: real("127.0.0.1", *rest, **named)
    )
    client = client_context(TlsSettings(trusted=CA.pem))
    with server(context=context) as (url, _seen):
        if not words:
            assert send_request(request(url), client).body == b"{}"
            return
        with pytest.raises(HttpRequestError, match=words) as caught:
            send_request(request(url), client)
    assert caught.value.failure is HttpFailure.UNTRUSTED


@pytest.mark.parametrize("logger", ["root", "httpx", "httpcore.http11"])
def test_no_header_and_no_address_is_logged(logger: str) -> None:
    """A log level set over REST must not reveal passwords."""
    with server() as (url, _seen), captured_log(logger, "DEBUG") as text:
        send_request(request(f"{url}/?hush", headers={"Authorization": "hush"}))
        logging.getLogger("httpx").warning("heard")
    assert "hush" not in text.getvalue()
    assert "heard" in text.getvalue()
