# SPDX-License-Identifier: Apache-2.0
"""Real handshakes with certificates that Java 17 accepts and OpenSSL rejects by default."""

from __future__ import annotations

import socket
import ssl
import threading
from contextlib import suppress
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import pytest

from sparkmirror.security.certificates import parse_certificate
from sparkmirror.security.chain_verification import find_chain_fault
from sparkmirror.security.settings import TlsSettings
from sparkmirror.security.tls import client_context, load_certificate_and_key
from support.data.certificate_chains import CA, EXPIRED_LEAF, LEAF, OLD_CA, REFUSED, TAKEN
from support.data.encrypted_keys import number, octets, oid, sequence, value
from support.data.weak_certificates import HOST, WeakCertificate, weak_certificate
from support.waiting import PATIENCE_SECONDS

NO_CHECK_TIME = 0x200000


def shake_hands(
    settings: TlsSettings, *chain: WeakCertificate, trusts: str = "", suites: str = "DEFAULT"
) -> str:
    """The suite that a client and a server with this chain agree on, over a pair of sockets."""
    server = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    server.set_ciphers(f"{suites}:@SECLEVEL=0")
    load_certificate_and_key(server, "".join(one.pem for one in chain), chain[0].key)
    if trusts:
        server.verify_mode = ssl.CERT_REQUIRED
        server.load_verify_locations(cadata=trusts)
    ours, theirs = socket.socketpair()
    with ours, theirs:
        ours.settimeout(PATIENCE_SECONDS)
        theirs.settimeout(PATIENCE_SECONDS)
        thread = threading.Thread(target=answer, args=(server, theirs))
        thread.start()
        try:
            client = client_context(settings)
            with client.wrap_socket(ours, server_hostname=HOST) as connected:
                assert connected.recv(1) == b"x"
                suite = connected.cipher()
        finally:
            ours.close()
            thread.join()
    assert suite is not None
    return suite[0]


def answer(server: ssl.SSLContext, sock: socket.socket) -> None:
    """The other side: with TLS 1.3 a client learns of a refusal only afterwards."""
    with suppress(OSError), server.wrap_socket(sock, server_side=True) as connected:
        connected.sendall(b"x")


@pytest.mark.parametrize("version", ["TLSv1.2", "TLSv1.3"])
@pytest.mark.parametrize("case", TAKEN)
def test_what_java_takes_is_taken(case: str, version: str) -> None:
    """A working file of MM2's goes on working."""
    trusted, chain = TAKEN[case]
    assert shake_hands(TlsSettings(trusted=trusted.pem, protocols=(version,)), *chain)


@pytest.mark.parametrize("version", ["TLSv1.2", "TLSv1.3"])
@pytest.mark.parametrize("case", REFUSED)
def test_what_java_refuses_is_refused(case: str, version: str) -> None:
    """An expired authority in the truststore does not help an expired broker, either."""
    chain, code = REFUSED[case]
    for trusted in (CA, OLD_CA):
        with pytest.raises(ssl.SSLCertVerificationError) as caught:
            shake_hands(TlsSettings(trusted=trusted.pem, protocols=(version,)), *chain)
        assert caught.value.verify_code == code
        assert caught.value.verify_message


def test_the_machines_own_authorities_are_held_to_more(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Java rejects SHA-1 below its built-in CAs."""
    file = tmp_path / "system.pem"
    monkeypatch.setenv("SSL_CERT_FILE", str(file))
    file.write_text(CA.pem)
    assert shake_hands(TlsSettings(), LEAF)
    assert shake_hands(TlsSettings(), weak_certificate(by=CA, bits=1024))
    for chain, words in (
        ([weak_certificate(by=CA, digest="SHA-1")], "too weak"),
        ([weak_certificate(by=CA, digest="MD5")], "too weak"),
        ([EXPIRED_LEAF], "expired"),
    ):
        with pytest.raises(ssl.SSLCertVerificationError, match=words):
            shake_hands(TlsSettings(), *chain)


@pytest.mark.parametrize("digest", ["SHA-256", "SHA-1"])
def test_our_own_certificate_may_be_weak(digest: str) -> None:
    """Whether it will do is for the broker to say."""
    own = weak_certificate("client", by=CA, bits=1024, digest=digest)
    settings = TlsSettings(trusted=CA.pem, chain=own.pem, key=own.key)
    assert shake_hands(settings, LEAF, trusts=CA.pem)


def test_an_authority_may_expire_while_the_program_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    """Contexts are made once, and kept for months."""
    client = client_context(TlsSettings(trusted=CA.pem))
    assert not client.verify_flags & NO_CHECK_TIME
    monkeypatch.setattr(client, "_anchor_validity", (datetime.now(UTC), datetime.now(UTC)))
    client.wrap_bio(ssl.MemoryBIO(), ssl.MemoryBIO(), server_hostname=HOST)
    assert client.verify_flags & NO_CHECK_TIME


@pytest.mark.parametrize(
    "suite",
    ["AES256-GCM-SHA384", "AES128-SHA256", "AES256-SHA", "ECDHE-RSA-AES256-SHA"],
)
def test_a_broker_may_have_one_suite_of_javas(suite: str) -> None:
    """Python alone offers none of these."""
    settings = TlsSettings(trusted=CA.pem, protocols=("TLSv1.2",))
    assert shake_hands(settings, LEAF, suites=suite) == suite


def test_no_suite_is_offered_that_java_does_not_offer() -> None:
    """Neither without a certificate or encryption, nor with a broken cipher; best ones first."""
    client = client_context(TlsSettings(trusted=CA.pem))
    offered = [one["name"] for one in client.get_ciphers() if one["protocol"] != "TLSv1.3"]
    assert len(offered) == 33
    assert offered[0] == "ECDHE-ECDSA-AES256-GCM-SHA384"
    assert offered[-1] == "AES128-SHA"
    assert {"DHE-RSA-AES256-SHA", "DHE-DSS-AES128-GCM-SHA256"} < set(offered)
    assert not any(
        word in name
        for name in offered
        for word in ("NULL", "ADH", "AECDH", "EXP", "RC4", "DES", "MD5", "PSK", "SRP", "CAMELLIA")
    )


def test_a_list_of_suites_keeps_what_certificates_are_taken() -> None:
    """Both are set with the same call of OpenSSL's."""
    listed = replace(
        TlsSettings(trusted=CA.pem), ciphers=("TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256",)
    )
    weak = weak_certificate(by=CA, bits=1024, digest="SHA-1")
    assert shake_hands(listed, weak) == "ECDHE-RSA-AES128-GCM-SHA256"


# --- key types that are out of use

RSA, EC, DSA = (oid(one) for one in ("2a864886f70d010101", "2a8648ce3d0201", "2a8648ce380401"))
ED25519 = sequence(sequence(oid("2b6570")), value(0x03, bytes(33)))
TIMES = sequence(value(0x17, b"990101000000Z"), value(0x18, b"20510101000000Z"))
NOW = datetime(2030, 1, 1, tzinfo=UTC)


def rsa_of(bits: int) -> bytes:
    """A key that is as long."""
    numbers = sequence(number(1 << (bits - 1)), number(3))
    return sequence(sequence(RSA, b"\x05\x00"), value(0x03, b"\x00" + numbers))


def dsa_of(bits: int) -> bytes:
    """A key that is as long."""
    return sequence(sequence(DSA, sequence(number(1 << (bits - 1)))), value(0x03, bytes(2)))


def ec_of(bits: int, *, is_whole: bool = True) -> bytes:
    """A point of a curve."""
    point = b"\x04" + bytes(bits // 4) if is_whole else b"\x02" + bytes(bits // 8)
    return sequence(sequence(EC, oid("2a8648ce3d030107")), value(0x03, b"\x00" + point))


def bare(key: bytes, way: str = "2a864886f70d01010b") -> bytes:
    """A certificate without a valid signature."""
    name = sequence()
    body = sequence(number(7), sequence(oid(way)), name, TIMES, name, key)
    return sequence(body, sequence(oid(way)), value(0x03, bytes(9)))


@pytest.mark.parametrize(
    ("key", "is_taken"),
    [
        (rsa_of(512), False),
        (rsa_of(1023), False),
        (rsa_of(1024), True),
        (dsa_of(1023), False),
        (dsa_of(1024), True),
        (ec_of(192), False),
        (ec_of(192, is_whole=False), False),
        (ec_of(224), True),
        (ec_of(256, is_whole=False), True),
        (ED25519, True),
    ],
)
def test_short_keys_are_not_taken(key: bytes, *, is_taken: bool) -> None:
    """Of any certificate in the chain."""
    shaky, good = bare(key), bare(rsa_of(2048))
    for chain in ([shaky, good], [good, shaky], [shaky]):
        fault = find_chain_fault(chain, frozenset(chain[-1:]), NOW)
        assert (fault is None) == is_taken


def test_what_cannot_be_read_is_not_taken() -> None:
    """Nor a chain without a trusted certificate."""
    good = bare(rsa_of(2048))
    assert find_chain_fault([good], frozenset({b"other"}), NOW) is not None
    assert find_chain_fault([], frozenset({good}), NOW) is not None
    for broken in (
        b"",
        b"0",
        octets(b"x"),
        sequence(sequence(), sequence()),
        good[:-20],
        good.replace(b"990101", b"99XX01"),
    ):
        assert find_chain_fault([broken, good], frozenset({good}), NOW) is not None


def test_times_have_two_forms() -> None:
    """Two digits of a year count from 1950 on."""
    facts = parse_certificate(bare(rsa_of(2048)))
    assert (facts.not_before.year, facts.not_after.year) == (1999, 2051)
    assert (facts.kind, facts.bits, facts.digest) == ("RSA", 2048, "")
