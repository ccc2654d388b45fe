# SPDX-License-Identifier: Apache-2.0
"""Real TLS handshakes that fail, and the sentence that each becomes."""

from __future__ import annotations

import datetime as dt
import ipaddress
import ssl
from dataclasses import dataclass, replace

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec

from sparkmirror.model import Secret
from sparkmirror.security.error_hints import no_response_hint, tls_error_hint
from sparkmirror.security.settings import (
    SecurityKeyNames,
    SecurityProtocol,
    SecuritySettings,
    TlsSettings,
)
from sparkmirror.security.tls import client_context, load_certificate_and_key, server_context
from support.data.certificates import Authority
from support.data.weak_certificates import weak_certificate

A_DAY = dt.timedelta(days=1)
HOST = "broker.example.com"
ADDRESS = f"{HOST}:9093"
KEYS = SecurityKeyNames(
    protocol="a.security.protocol",
    trust="a.ssl.truststore.location",
    identity="a.ssl.keystore.location",
    host_check="a.ssl.endpoint.identification.algorithm",
    versions="a.ssl.enabled.protocols",
    suites="a.ssl.cipher.suites",
)


@dataclass(frozen=True, slots=True)
class Identity:
    """A certificate that vouches for itself, and its key."""

    certificate: str
    key: Secret


def identity(host: str = HOST) -> Identity:
    """Valid for two days."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, host)])
    now = dt.datetime.now(dt.UTC)
    names: list[x509.GeneralName] = [x509.DNSName(host)]
    if host[0].isdigit():
        names = [x509.IPAddress(ipaddress.ip_address(host))]
    certificate = (
        x509.CertificateBuilder(name, name, key.public_key(), x509.random_serial_number())
        .not_valid_before(now - A_DAY)
        .not_valid_after(now + A_DAY)
        .add_extension(x509.SubjectAlternativeName(names), critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .sign(key, hashes.SHA256())
    )
    return Identity(
        certificate.public_bytes(serialization.Encoding.PEM).decode(),
        Secret(
            key.private_bytes(
                serialization.Encoding.PEM,
                serialization.PrivateFormat.PKCS8,
                serialization.NoEncryption(),
            ).decode()
        ),
    )


def vouched_for(age: dt.timedelta) -> Identity:
    """By an authority, for a day from so long ago."""
    made = AUTHORITY.identity(hosts=[HOST], age=age)
    return Identity(made.chain, Secret(made.key))


AUTHORITY = Authority()
BROKER = identity()
OTHER = identity("other.example.com")


def shake_hands(
    client: TlsSettings,
    server: TlsSettings | ssl.SSLContext,
    client_auth: str = "none",
    host: str = HOST,
) -> ssl.SSLError | None:
    """What the client sees; both sides live in memory."""
    to_server, to_client = ssl.MemoryBIO(), ssl.MemoryBIO()
    ours = client_context(client).wrap_bio(to_client, to_server, server_hostname=host)
    if isinstance(server, TlsSettings):
        server = server_context(server, client_auth)
    theirs = server.wrap_bio(to_server, to_client, server_side=True)
    is_connected = False
    for _ in range(10):
        try:
            if is_connected:
                ours.read(1)
            ours.do_handshake()
            is_connected = True
        except ssl.SSLWantReadError:
            pass
        except ssl.SSLError as error:
            return error
        try:
            theirs.do_handshake()
        except ssl.SSLError:
            continue
    return None


def sentence(error: ssl.SSLError | None, tls: TlsSettings) -> str:
    """What a user reads."""
    assert error is not None
    return tls_error_hint(error, ADDRESS, SecuritySettings(SecurityProtocol.SSL, tls, None, KEYS))


def of(who: Identity) -> TlsSettings:
    """A broker's settings."""
    return TlsSettings(trusted=BROKER.certificate, chain=who.certificate, key=who.key)


@pytest.mark.parametrize(
    ("broker", "parts"),
    [
        (identity(), ["has an untrusted issuer", "to a.ssl.truststore.location"]),
        (vouched_for(2 * A_DAY), ["has expired", "renew it", "a.ssl.truststore.location"]),
        (vouched_for(-A_DAY), ["not valid yet", "clocks", "a.ssl.truststore.location"]),
        (
            OTHER,
            ["another host", "a.ssl.endpoint.identification.algorithm"],
        ),
    ],
    ids=["unknown", "expired", "early", "host"],
)
def test_a_certificate_that_is_not_trusted(broker: Identity, parts: list[str]) -> None:
    """The sentence names the broker, the key and what to do."""
    is_stranger = "untrusted" in parts[0]
    tls = TlsSettings(trusted=AUTHORITY.pem + ("" if is_stranger else OTHER.certificate))
    found = sentence(shake_hands(tls, of(broker)), tls)
    assert found.startswith(f"the certificate of {ADDRESS}")
    assert all(part in found for part in parts)


def test_a_certificate_that_is_too_weak() -> None:
    """MD5 is taken nowhere; the broker's own settings are no matter here."""
    authority = weak_certificate("authority", bits=1024)
    weak = weak_certificate(by=authority, digest="MD5")
    tls = TlsSettings(trusted=authority.pem)
    server = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    server.set_ciphers("DEFAULT:@SECLEVEL=0")
    load_certificate_and_key(server, weak.pem, weak.key)
    found = sentence(shake_hands(tls, server), tls)
    assert "is too weak (signed with MD5): replace it on the brokers" in found
    assert "a.ssl.truststore.location" in found


def test_an_address_that_is_not_in_the_certificate() -> None:
    """Reached by its address, made out to a name."""
    tls = TlsSettings(trusted=BROKER.certificate)
    error = shake_hands(tls, of(BROKER), host="127.0.0.1")
    assert "is for another host name" in sentence(error, tls)


def test_a_valid_certificate_causes_no_error() -> None:
    """Or the tests above would say nothing."""
    assert shake_hands(TlsSettings(trusted=BROKER.certificate), of(BROKER)) is None


@pytest.mark.parametrize("version", ["TLSv1.2", "TLSv1.3"])
@pytest.mark.parametrize("mine", [None, identity("me")], ids=["none", "unknown"])
def test_a_broker_that_wants_another_certificate(mine: Identity | None, version: str) -> None:
    """Also where it says so only after the handshake."""
    tls = TlsSettings(
        trusted=BROKER.certificate,
        chain=mine.certificate if mine else "",
        key=mine.key if mine else None,
        protocols=(version,),
    )
    found = sentence(shake_hands(tls, of(BROKER), "required"), tls)
    assert "check a.ssl.keystore.location" in found


def test_no_common_version() -> None:
    """Only the newest here, only the older one there."""
    tls = TlsSettings(trusted=BROKER.certificate, protocols=("TLSv1.3",))
    server = TlsSettings(chain=BROKER.certificate, key=BROKER.key, protocols=("TLSv1.2",))
    found = sentence(shake_hands(tls, server), tls)
    assert "supports no TLS version" in found
    assert found.endswith("check a.ssl.enabled.protocols")


def test_no_common_suite() -> None:
    """One there, another one here."""
    tls, server = (
        replace(of(BROKER), protocols=("TLSv1.2",), ciphers=(suite,))
        for suite in (
            "TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256",
            "TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384",
        )
    )
    found = sentence(shake_hands(tls, server), tls)
    assert "accepts none of the client's cipher suites" in found
    assert found.endswith("check a.ssl.keystore.location, and a.ssl.cipher.suites if it is set")


def test_a_peer_without_tls_is_explained() -> None:
    """An answer in plain text."""
    incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
    tls = TlsSettings(trusted=BROKER.certificate)
    ours = client_context(tls).wrap_bio(incoming, outgoing, server_hostname=HOST)
    incoming.write(b"HTTP/1.1 400 Bad Request\r\n\r\n")
    with pytest.raises(ssl.SSLError) as caught:
        ours.do_handshake()
    found = sentence(caught.value, tls)
    assert "does not speak TLS" in found
    assert "check a.security.protocol" in found


def test_an_end_in_the_middle_is_nobodys_fault() -> None:
    """A broker that is stopped hangs up; it is tried again."""
    incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
    tls = TlsSettings(trusted=BROKER.certificate)
    ours = client_context(tls).wrap_bio(incoming, outgoing, server_hostname=HOST)
    incoming.write_eof()
    with pytest.raises(ssl.SSLError) as caught:
        ours.do_handshake()
    assert sentence(caught.value, tls) == ""


def test_silence_has_a_hint() -> None:
    """About the protocol, whichever it is."""
    assert "this listener uses TLS or SASL" in no_response_hint(SecuritySettings())
    assert "security.protocol=SSL" in no_response_hint(SecuritySettings(SecurityProtocol.SSL))
