# SPDX-License-Identifier: Apache-2.0
"""Stores as keytool and openssl make them open, and what does not open says why."""

from __future__ import annotations

import base64
import ssl
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from cryptography.hazmat.primitives.serialization import pkcs12
from hypothesis import given, settings
from hypothesis import strategies as st

from sparkmirror.model import Secret
from sparkmirror.security import der
from sparkmirror.security.der import kdf_work_factors
from sparkmirror.security.keystores import MAX_BYTES, KeyPair, read_keystore, read_truststore
from support.data.encrypted_keys import (
    as_pem,
    number,
    octets,
    oid,
    sequence,
    value,
    with_pbes1,
    with_pbkdf2,
    with_scrypt,
)

GOLDEN = Path(__file__).parent / "golden"
STORE, KEY, OTHER = Secret("store-secret"), Secret("key-secret"), Secret("other-secret")
WRONG = Secret("wrong-secret")
MOST_CPU_SECONDS = 10.0  # OpenSSL's own check takes a minute
STORES = ("trust.jks", "trust.p12", "trust-open.p12", "trust-legacy.p12", "key.jks", "key.p12")


def stored(name: str) -> bytes:
    """One of the stores that keytool made."""
    return (GOLDEN / name).read_bytes()


def subjects(pem: str) -> list[str]:
    """Whom a PEM text is about, in order."""
    if not pem:
        return []
    found = x509.load_pem_x509_certificates(pem.encode())
    return [certificate.subject.rfc4514_string() for certificate in found]


def matches(pair: KeyPair) -> bool:
    """Whether key and first certificate belong together."""
    key = serialization.load_pem_private_key(pair.key.reveal().encode(), None)
    return x509.load_pem_x509_certificate(pair.chain.encode()).public_key() == key.public_key()


def own_pair() -> KeyPair:
    """A key with a chain of two."""
    return read_keystore(stored("key.jks"), "JKS", STORE, KEY)


def encrypted_key(pair: KeyPair, password: str) -> str:
    """The key as `openssl pkcs8 -topk8` writes it."""
    key = serialization.load_pem_private_key(pair.key.reveal().encode(), None)
    return key.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.PKCS8,
        serialization.BestAvailableEncryption(password.encode()),
    ).decode()


@pytest.mark.parametrize("kind", ["JKS", "PKCS12", "jks"])
@pytest.mark.parametrize(
    ("name", "password", "expected"),
    [
        ("trust.jks", STORE, ["CN=authority"]),
        ("trust.jks", None, ["CN=authority"]),  # Java then does not check the seal
        ("trust.p12", STORE, ["CN=authority", "CN=second"]),
        ("trust-open.p12", None, ["CN=authority"]),
        ("trust-open.p12", STORE, ["CN=authority"]),
        ("trust-legacy.p12", STORE, ["CN=authority"]),
        ("key.jks", STORE, ["CN=authority", "CN=own", "CN=second"]),
        ("key.p12", STORE, ["CN=own"]),
    ],
)
def test_a_truststore_opens_whatever_it_is_called(
    name: str, password: Secret | None, expected: list[str], kind: str
) -> None:
    """Java looks into the file, and so do we."""
    assert expected == sorted(subjects(read_truststore(stored(name), kind, password)))


@pytest.mark.parametrize("name", [None, b"a name", b"CN=authority"])
@pytest.mark.parametrize("alias", [None, b"trusted", b"cn=authority"])
def test_who_vouches_for_our_key_is_not_trusted_for_that(
    name: bytes | None, alias: bytes | None
) -> None:
    """A public authority may have signed our certificate; keytool repeats one that is trusted."""
    is_trusted = alias is not None
    pair = own_pair()
    own, authority = x509.load_pem_x509_certificates(pair.chain.encode())
    other = x509.load_pem_x509_certificate(
        read_keystore(stored("key.jks"), "JKS", STORE, OTHER).chain.encode()
    )
    key = serialization.load_pem_private_key(pair.key.reveal().encode(), None)
    assert isinstance(key, (rsa.RSAPrivateKey, ec.EllipticCurvePrivateKey))
    data = pkcs12.serialize_key_and_certificates(
        b"own",
        key,
        own,
        [
            pkcs12.PKCS12Certificate(authority, name),
            pkcs12.PKCS12Certificate(other, b"other"),
            *([pkcs12.PKCS12Certificate(authority, alias)] if is_trusted else []),
        ],
        serialization.BestAvailableEncryption(STORE.reveal().encode()),
    )

    expected = ["CN=authority"] * is_trusted + ["CN=own", "CN=second"]
    assert expected == sorted(subjects(read_truststore(data, "PKCS12", STORE)))


def test_a_store_with_several_keys_trusts_what_java_trusts() -> None:
    """Each key's own certificate, and what `keytool -list` calls a trusted one."""
    found = read_truststore(stored("keys.p12"), "PKCS12", STORE)
    pair = read_keystore(stored("keys.p12"), "PKCS12", STORE, None)

    assert sorted(subjects(found)) == ["CN=other", "CN=own", "CN=second"]
    assert subjects(pair.chain) == ["CN=own", "CN=authority"]
    assert matches(pair)
    assert pair.note == "the first of 2 private keys is used"


@pytest.mark.parametrize(
    ("name", "key_password", "expected"),
    [
        ("key.jks", KEY, ["CN=own", "CN=authority"]),
        ("key.jks", OTHER, ["CN=second"]),
        ("key.p12", None, ["CN=own", "CN=authority"]),
        ("key.p12", STORE, ["CN=own", "CN=authority"]),
    ],
)
def test_a_keystore_gives_key_and_chain(
    name: str, key_password: Secret | None, expected: list[str]
) -> None:
    """The own certificate first; with several keys the one that the password opens."""
    pair = read_keystore(stored(name), "JKS", STORE, key_password)

    assert expected == subjects(pair.chain)
    assert matches(pair)
    assert ("of 2 private keys" in pair.note) == (name == "key.jks")


@pytest.mark.parametrize("separator", ["\n", " ", "\r\n", "\n  "])
def test_pem_is_read_however_its_lines_end(separator: str) -> None:
    """Inline values are often on one line; comments may stand between the blocks."""
    pair = own_pair()
    text = f"a comment: yes\n{pair.key.reveal()}\nBag Attributes\n{pair.chain}\n".replace(
        "\n", separator
    )

    assert read_keystore(text.encode(), "PEM", None, None) == KeyPair(pair.chain, pair.key)
    assert read_truststore(text.encode(), "PEM", None) == pair.chain


def test_the_chain_is_put_in_order() -> None:
    """Servers refuse a chain whose first certificate is not the client's own."""
    pair = own_pair()
    own, authority = pair.chain.split("-----END CERTIFICATE-----\n", 1)
    shuffled = authority + own + "-----END CERTIFICATE-----\n" + pair.key.reveal()

    assert read_keystore(shuffled.encode(), "PEM", None, None).chain == pair.chain


def test_an_encrypted_pem_key_opens_with_its_password() -> None:
    """As `ssl.key.password` of a PEM keystore."""
    pair = own_pair()
    data = (encrypted_key(pair, "key-secret") + pair.chain).encode()

    assert read_keystore(data, "PEM", None, KEY).key == pair.key
    with pytest.raises(ValueError, match="does not open the private key"):
        read_keystore(data, "PEM", None, WRONG)
    with pytest.raises(ValueError, match="needs a key password"):
        read_keystore(data, "PEM", None, None)


def test_an_old_pem_key_opens() -> None:
    """`BEGIN EC PRIVATE KEY`, which Java does not take."""
    pair = own_pair()
    key = serialization.load_pem_private_key(pair.key.reveal().encode(), None)
    assert isinstance(key, ec.EllipticCurvePrivateKey)
    old = key.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.TraditionalOpenSSL,
        serialization.NoEncryption(),
    )

    assert read_keystore(old + pair.chain.encode(), "PEM", None, None).key == pair.key


@pytest.mark.parametrize(
    ("call", "sentence"),
    [
        (lambda: read_truststore(stored("trust.jks"), "JKS", WRONG), "password of the store is"),
        (lambda: read_truststore(stored("trust.p12"), "JKS", WRONG), "does not open with this"),
        (lambda: read_truststore(stored("trust.p12"), "JKS", None), "needs a password"),
        (lambda: read_truststore(stored("key.jceks"), "JKS", STORE), "JCEKS.*keytool"),
        (lambda: read_truststore(b"", "JKS", STORE), "empty"),
        (lambda: read_truststore(b"nothing", "JKS", STORE), "not JKS, or it is damaged"),
        (lambda: read_truststore(b"-----BEGIN X-----", "JKS", STORE), "set its type to PEM"),
        (lambda: read_truststore(stored("trust.jks"), "PEM", None), "not PEM"),
        (lambda: read_truststore(stored("trust.jks"), "BKS", STORE), "not one of JKS, PKCS12"),
        (lambda: read_truststore(bytes(MAX_BYTES + 1), "JKS", STORE), "is larger than"),
        (lambda: read_truststore(stored("trust.jks")[:-30], "JKS", None), "truncated"),
        (
            lambda: read_truststore(own_pair().key.reveal().encode(), "PEM", None),
            "no trusted certificate",
        ),
        (lambda: read_keystore(stored("trust.jks"), "JKS", STORE, None), "no private key"),
        (lambda: read_keystore(stored("trust.p12"), "JKS", STORE, None), "no private key"),
        (lambda: read_keystore(stored("key.jks"), "JKS", STORE, None), "key password does not"),
        (lambda: read_keystore(stored("key.jks"), "JKS", None, None), "needs a password"),
        (
            lambda: read_keystore(stored("key.p12"), "JKS", WRONG, KEY),
            "its key has another password",
        ),
        (
            lambda: read_keystore(own_pair().chain.encode(), "PEM", None, None),
            "no private key; it must have exactly one",
        ),
        (
            lambda: read_keystore(own_pair().key.reveal().encode(), "PEM", None, None),
            "no certificate for its private key",
        ),
        (
            lambda: read_keystore(
                (
                    own_pair().key.reveal() + read_truststore(stored("trust.jks"), "JKS", None)
                ).encode(),
                "PEM",
                None,
                None,
            ),
            "does not belong to any certificate",
        ),
        (
            lambda: read_keystore(
                b"-----BEGIN RSA PRIVATE KEY-----\nProc-Type: 4,ENCRYPTED\n\nAAAA\n"
                b"-----END RSA PRIVATE KEY-----",
                "PEM",
                None,
                KEY,
            ),
            "openssl pkcs8",
        ),
    ],
)
def test_what_does_not_open_explains_why(call: Callable[[], object], sentence: str) -> None:
    """A sentence that a person can act on, without any password."""
    with pytest.raises(ValueError, match=sentence) as caught:
        call()
    assert "-secret" not in str(caught.value)


def test_a_key_is_not_in_the_repr() -> None:
    """A KeyPair can be logged."""
    assert "PRIVATE" not in repr(own_pair())


@settings(max_examples=80, deadline=None)
@given(
    name=st.sampled_from(STORES),
    at=st.integers(0, 2000),
    new=st.binary(max_size=6),
    cut=st.integers(0, 12),
    has_password=st.booleans(),
)
def test_corrupt_stores_are_read_or_refused(
    name: str, at: int, new: bytes, cut: int, *, has_password: bool
) -> None:
    """ValueError or a result, whatever the bytes; no password and no key in the sentence."""
    data = stored(name)
    at %= len(data)
    damaged = data[:at] + new + data[at + cut :]
    password = STORE if has_password else None
    for call in (
        lambda: read_truststore(damaged, "JKS", password),
        lambda: read_keystore(damaged, "PKCS12", password, KEY),
    ):
        try:
            call()
        except ValueError as error:
            assert "-secret" not in str(error)  # noqa: PT017 - either outcome is right


@settings(max_examples=60, deadline=None)
@given(
    st.lists(
        st.one_of(
            st.sampled_from(
                [
                    b"-----BEGIN CERTIFICATE-----",
                    b"-----END CERTIFICATE-----",
                    b"-----BEGIN PRIVATE KEY-----",
                    b"-----END PRIVATE KEY-----",
                    b"\n",
                    b"MIIB",
                    b"=",
                ]
            ),
            st.binary(max_size=5),
        ),
        max_size=12,
    )
)
def test_any_pem_is_read_or_refused(pieces: list[bytes]) -> None:
    """ValueError or a result, whatever the text."""
    data = b"".join(pieces)
    for call in (
        lambda: read_truststore(data, "PEM", None),
        lambda: read_keystore(data, "PEM", None, KEY),
    ):
        try:
            call()
        except ValueError as error:
            assert str(error)  # noqa: PT017 - either outcome is right


def test_a_store_with_excessive_kdf_cost_is_rejected(monkeypatch: pytest.MonkeyPatch) -> None:
    """The seal of keytool has 10,000 iterations; here it has two thousand million."""
    data = stored("trust.p12")
    assert data.endswith(b"\x02\x02\x27\x10")
    endless = bytearray(data[:-4] + b"\x02\x04\x7f\xff\xff\xff")
    endless[2:4] = (int.from_bytes(endless[2:4]) + 2).to_bytes(2)
    at = data.rindex(b"\x30\x4d")  # the sequence that holds the seal
    endless[at + 1] += 2

    with pytest.raises(ValueError, match="more than 2,000,000 iterations"):
        read_truststore(bytes(endless), "PKCS12", STORE)
    monkeypatch.setattr(der, "_MAX_VALUES", 5_000)
    with pytest.raises(ValueError, match="too many parts"):
        read_truststore(b"\x30\x00" * 6_000, "PKCS12", STORE)


def pkcs8(pair: KeyPair) -> bytes:
    """The bare key."""
    return base64.b64decode("".join(pair.key.reveal().splitlines()[1:-1]))


@pytest.mark.parametrize("iterations", [2048, 600_000])
def test_a_key_may_take_some_work(iterations: int) -> None:
    """The defaults of openssl, and higher costs that users may set."""
    pair = own_pair()
    der = with_pbkdf2(pkcs8(pair), KEY.reveal(), iterations)
    assert read_keystore((pair.chain + as_pem(der)).encode(), "PEM", None, KEY).key == pair.key


def test_a_key_may_take_some_memory() -> None:
    """What openssl asks scrypt for."""
    pair = own_pair()
    der = with_scrypt(pkcs8(pair), KEY.reveal(), (1 << 14, 8, 1))
    assert read_keystore((pair.chain + as_pem(der)).encode(), "PEM", None, KEY).key == pair.key


@pytest.mark.parametrize(
    ("der", "sentence"),
    [
        (with_pbkdf2(b"key", "x", 1, said=1_000_001), "1,000,000 iterations"),
        (with_pbes1(1_000_001), "1,000,000 iterations"),
        (with_scrypt(b"key", "x", (2, 1, 1), said=(1 << 17, 8, 1)), "64 MiB"),
        (with_scrypt(b"key", "x", (2, 1, 1), said=(1 << 14, 64, 1)), "64 MiB"),
        (with_scrypt(b"key", "x", (2, 1, 1), said=(1 << 14, 8, 127)), "64 MiB"),
        (with_scrypt(b"key", "x", (2, 1, 1), said=(1 << 20, 0, 0)), "1,000,000 iterations"),
    ],
    ids=["PBKDF2", "PBES1", "N", "r", "p", "nothing"],
)
def test_a_key_with_excessive_kdf_cost_is_rejected(der: bytes, sentence: str) -> None:
    """Before anybody begins with it: OpenSSL lets no other thread run meanwhile."""
    with pytest.raises(ValueError, match=f"the private key needs more than {sentence}"):
        read_keystore((own_pair().chain + as_pem(der)).encode(), "PEM", None, KEY)


WORK = sequence(octets(b"salt"), number(5_000_000))


@pytest.mark.parametrize(
    "data",
    [
        sequence(octets(b"0alt"), number(5_000_000)),  # as if there were a sequence in the salt
        octets(octets(WORK)[2:]),
        b"\x24\x80" + octets(WORK[:7]) + octets(WORK[7:]) + bytes(2),
        b"\x24\x80" + value(0x24, octets(WORK[:7])) + octets(WORK[7:]) + bytes(2),
        sequence(b"\x24\x80" + octets(b"sa") + octets(b"lt") + bytes(2) + number(5_000_000)),
        b"\x30\x80" + octets(b"salt") + number(5_000_000) + bytes(2),
        b"\x30\x80\xbf\x8f\x01\x00" + WORK + bytes(2),
    ],
    ids=["salt", "octets", "pieces", "nested", "salt-in-pieces", "no-length", "long-tag"],
)
def test_work_is_seen_however_it_is_written(data: bytes) -> None:
    """OpenSSL reads all of these."""
    assert kdf_work_factors(data) == [(5_000_000,)]


def test_what_is_nested_too_deep_is_refused() -> None:
    """Every level would be copied."""
    data = WORK
    for _ in range(100):
        data = sequence(octets(data[:1]), octets(data[1:]))
    with pytest.raises(ValueError, match="too many parts"):
        kdf_work_factors(data)


def test_a_large_key_opens_at_once() -> None:
    """Whether its primes are prime takes OpenSSL a minute, and no other thread runs meanwhile."""
    p, q, e = 2**4423 - 1, 2**4253 - 1, 65537
    d = pow(e, -1, (p - 1) * (q - 1))
    numbers = (0, p * q, e, d, p, q, d % (p - 1), d % (q - 1), pow(q, -1, p))
    begin = time.process_time()
    with pytest.raises(ValueError, match="does not belong to any certificate"):
        read_keystore(rsa_key(*numbers) + own_pair().chain.encode(), "PEM", None, None)
    assert time.process_time() - begin < MOST_CPU_SECONDS

    for at in range(1, len(numbers)):
        damaged = [one + 2 * (place == at) for place, one in enumerate(numbers)]
        with pytest.raises(ValueError, match="the private key is damaged"):
            read_keystore(rsa_key(*damaged), "PEM", None, None)


def test_keys_that_tls_has_no_use_for_are_not_looked_at() -> None:
    """Whether this one is sound would take OpenSSL many seconds."""
    way = sequence(oid("2a864886f70d010301"), sequence(number(2**4423 - 1), number(3)))
    pair, begin = own_pair(), time.process_time()
    private = base64.encodebytes(sequence(number(0), way, octets(number(3**90)))).decode()
    key = f"-----BEGIN PRIVATE KEY-----\n{private}-----END PRIVATE KEY-----\n"
    with pytest.raises(ValueError, match="Diffie-Hellman"):
        read_keystore((key + pair.chain).encode(), "PEM", None, None)

    name = sequence(value(0x31, sequence(oid("550403"), value(0x0C, b"x"))))
    times = sequence(*[value(0x17, b"300101000000Z")] * 2)
    signing = sequence(oid("2a864886f70d01010b"))
    public = sequence(way, value(0x03, b"\x00" + number(3**90)))
    body = sequence(number(7), signing, name, times, name, public)
    odd = ssl.DER_cert_to_PEM_cert(sequence(body, signing, value(0x03, bytes(9))))
    text = odd + pair.chain + pair.key.reveal()
    assert read_keystore(text.encode(), "PEM", None, None).chain == pair.chain
    assert time.process_time() - begin < MOST_CPU_SECONDS


def rsa_key(*numbers: int) -> bytes:
    """As PKCS #1."""
    text = base64.encodebytes(sequence(*map(number, numbers))).decode()
    return f"-----BEGIN RSA PRIVATE KEY-----\n{text}-----END RSA PRIVATE KEY-----\n".encode()


def test_many_beginnings_take_no_time() -> None:
    """A megabyte of unclosed blocks is scanned once."""
    with pytest.raises(ValueError, match="not PEM"):
        read_truststore(b"-----BEGIN CERTIFICATE-----\n" * 40_000, "PEM", None)
