# SPDX-License-Identifier: Apache-2.0
"""TLS contexts made of texts shake hands as Java's do; no file is left or was ever on a disk."""

from __future__ import annotations

import contextlib
import ssl
from dataclasses import replace
from pathlib import Path

import pytest

from sparkmirror.model import Secret
from sparkmirror.security.keystores import read_keystore, read_truststore
from sparkmirror.security.settings import TlsSettings
from sparkmirror.security.tls import (
    client_context,
    openssl_suite,
    server_context,
    unlisted_tls13_suites,
)

GOLDEN = Path(__file__).parent / "golden"
STORE = Secret("store-secret")
AUTHORITY = read_truststore((GOLDEN / "trust.jks").read_bytes(), "JKS", STORE)
OWN = read_keystore((GOLDEN / "key.p12").read_bytes(), "PKCS12", STORE, None)
SECOND = read_keystore((GOLDEN / "key.jks").read_bytes(), "JKS", STORE, Secret("other-secret"))
SERVER = TlsSettings(trusted=AUTHORITY, chain=OWN.chain, key=OWN.key)
CLIENT = TlsSettings(trusted=AUTHORITY)
ALL_OF_13 = ("TLS_AES_256_GCM_SHA384", "TLS_AES_128_GCM_SHA256", "TLS_CHACHA20_POLY1305_SHA256")
OLD = "TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256"


def shake_hands(
    client: ssl.SSLContext, server: ssl.SSLContext, name: str = "localhost"
) -> tuple[str | None, str, bool]:
    """Version, suite, and whether the server saw a certificate; no socket is needed."""
    to_server, to_client = ssl.MemoryBIO(), ssl.MemoryBIO()
    sides = [
        client.wrap_bio(to_client, to_server, server_hostname=name),
        server.wrap_bio(to_server, to_client, server_side=True),
    ]
    waiting = list(sides)
    for _ in range(10):
        for side in list(waiting):
            try:
                side.do_handshake()
                waiting.remove(side)
            except ssl.SSLWantReadError:
                continue
        if not waiting:
            break
    sides[1].write(b"x")  # with TLS 1.3 the client learns of a refusal only afterwards
    assert sides[0].read(1) == b"x"
    suite = sides[0].cipher()
    assert suite is not None
    return sides[0].version(), suite[0], bool(sides[1].getpeercert(binary_form=True))


def test_client_and_server_shake_hands() -> None:
    """The newest version by default, without a client certificate."""
    version, _, has_certificate = shake_hands(
        client_context(CLIENT), server_context(SERVER, "none")
    )

    assert (version, has_certificate) == ("TLSv1.3", False)


@pytest.mark.parametrize("client_auth", ["requested", "required"])
def test_a_client_can_show_a_certificate(client_auth: str) -> None:
    """Mutual TLS."""
    client = client_context(replace(CLIENT, chain=OWN.chain, key=OWN.key))

    assert shake_hands(client, server_context(SERVER, client_auth))[2]


def test_a_server_may_insist() -> None:
    """Required means required; requested does not."""
    assert not shake_hands(client_context(CLIENT), server_context(SERVER, "requested"))[2]
    with pytest.raises(ssl.SSLError):
        shake_hands(client_context(CLIENT), server_context(SERVER, "required"))


def test_a_name_is_checked_unless_the_file_says_otherwise() -> None:
    """An empty `ssl.endpoint.identification.algorithm` still checks the chain."""
    server = server_context(SERVER, "none")
    careless = replace(CLIENT, verifies_hostname=False)
    with pytest.raises(ssl.SSLCertVerificationError, match="Hostname mismatch"):
        shake_hands(client_context(CLIENT), server, "elsewhere")
    assert shake_hands(client_context(careless), server, "elsewhere")
    with pytest.raises(ssl.SSLCertVerificationError):
        shake_hands(client_context(replace(careless, trusted=SECOND.chain)), server)


def test_a_server_certificate_may_itself_be_trusted() -> None:
    """Java takes any certificate of the truststore as an anchor, not only authorities."""
    own_only = OWN.chain.split("-----END CERTIFICATE-----\n")[0] + "-----END CERTIFICATE-----\n"
    client = client_context(replace(CLIENT, trusted=own_only))

    assert shake_hands(client, server_context(SERVER, "none"))


def test_the_system_is_not_asked_when_there_is_a_truststore() -> None:
    """Exactly the certificates that the file names are trusted."""
    assert len(client_context(CLIENT).get_ca_certs(binary_form=True)) == 1


@pytest.mark.parametrize(
    ("protocols", "ciphers", "expected"),
    [
        (("TLSv1.2",), (), "TLSv1.2"),
        (("TLSv1.3",), (), "TLSv1.3"),
        (("TLSv1.1", "TLSv1.2"), (), "TLSv1.2"),
        (("TLSv1.2", "TLSv1.3"), (OLD,), "TLSv1.2"),
        (("TLSv1.2", "TLSv1.3"), ALL_OF_13, "TLSv1.3"),
        (("TLSv1.2", "TLSv1.3"), (*ALL_OF_13, OLD), "TLSv1.3"),
        (("TLSv1.2",), (OLD, "SSL_RSA_WITH_3DES_EDE_CBC_SHA"), "TLSv1.2"),
    ],
)
def test_versions_and_suites_are_those_of_the_file(
    protocols: tuple[str, ...], ciphers: tuple[str, ...], expected: str
) -> None:
    """A version without a suite is not offered; outdated ones are passed over."""
    client = client_context(replace(CLIENT, protocols=protocols, ciphers=ciphers))
    version, suite, _ = shake_hands(client, server_context(SERVER, "none"))

    assert version == expected
    if ciphers and expected == "TLSv1.2":
        assert suite == "ECDHE-ECDSA-AES128-GCM-SHA256"


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384", "ECDHE-RSA-AES256-GCM-SHA384"),
        ("TLS_ECDHE_RSA_WITH_AES_128_CBC_SHA256", "ECDHE-RSA-AES128-SHA256"),
        ("TLS_RSA_WITH_AES_128_CBC_SHA", "AES128-SHA"),
        ("TLS_DHE_RSA_WITH_CHACHA20_POLY1305_SHA256", "DHE-RSA-CHACHA20-POLY1305"),
        ("TLS_ECDHE_ECDSA_WITH_AES_128_CCM", "ECDHE-ECDSA-AES128-CCM"),
        ("ECDHE-RSA-AES128-SHA256", None),
        ("TLS_MAGIC_WITH_AES_128_CBC_SHA", None),
    ],
)
def test_suites_have_another_name_in_openssl(name: str, expected: str | None) -> None:
    """By rule; OpenSSL knows all of them."""
    assert openssl_suite(name) == expected
    if expected is not None:
        ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT).set_ciphers(expected)


@pytest.mark.parametrize(
    ("settings", "sentence"),
    [
        (replace(CLIENT, protocols=("TLSv1.1",)), "are disabled, as in Java"),
        (replace(CLIENT, protocols=("TLSv9",)), "TLSv9"),
        (replace(CLIENT, ciphers=("TLS_MAGIC",)), "TLS_MAGIC"),
        (replace(CLIENT, ciphers=("TLS_RSA_WITH_AES_128_MAGIC_SHA",)), "does not support"),
        (replace(CLIENT, ciphers=("TLS_RSA_WITH_NULL_SHA",)), "outdated"),
        (replace(CLIENT, protocols=("TLSv1.3",), ciphers=(OLD,)), "none of the cipher suites"),
        (replace(CLIENT, trusted="nothing"), "trusted certificates"),
        (replace(CLIENT, chain=SECOND.chain, key=OWN.key), "key values mismatch"),
        (replace(CLIENT, chain="nothing", key=OWN.key), "private key and its certificate"),
    ],
)
def test_what_openssl_cannot_do_is_reported(settings: TlsSettings, sentence: str) -> None:
    """A sentence, without any key."""
    with pytest.raises(ValueError, match=sentence) as caught:
        client_context(settings)
    assert "PRIVATE" not in str(caught.value)


def test_an_https_listener_needs_a_key_and_a_known_client_auth() -> None:
    """A listener needs a certificate."""
    with pytest.raises(ValueError, match="needs a keystore"):
        server_context(CLIENT, "none")
    with pytest.raises(ValueError, match="none, requested, required"):
        server_context(SERVER, "perhaps")


def anonymous_files() -> int:
    """How many of them the process has open; other tests' sockets come and go."""
    count = 0
    for one in Path("/proc/self/fd").iterdir():
        with contextlib.suppress(FileNotFoundError):  # of the listing itself, or another thread's
            count += one.readlink().name.startswith("memfd:")
    return count


def test_no_descriptor_is_left() -> None:
    """The anonymous file is gone when the context is there, also when it was refused."""
    before = anonymous_files()
    for _ in range(5):
        server_context(SERVER, "none")
        with pytest.raises(ValueError, match="mismatch"):
            server_context(replace(SERVER, chain=SECOND.chain), "none")

    assert anonymous_files() == before


def test_a_choice_among_the_suites_of_tls_13_is_not_kept_and_told() -> None:
    """They are all strong; a list that names one of them is a file that works with Java."""
    one = replace(CLIENT, ciphers=("TLS_AES_256_GCM_SHA384",))
    assert client_context(one).minimum_version is ssl.TLSVersion.TLSv1_3
    assert unlisted_tls13_suites(one) == ("TLS_CHACHA20_POLY1305_SHA256", "TLS_AES_128_GCM_SHA256")
    assert unlisted_tls13_suites(CLIENT) == ()
    assert unlisted_tls13_suites(replace(one, protocols=("TLSv1.2",))) == ()
