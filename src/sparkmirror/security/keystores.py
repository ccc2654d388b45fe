# SPDX-License-Identifier: Apache-2.0
"""Truststores and keystores as people have them, turned into PEM.

Java looks into a file before it believes its type: PKCS12 that is called JKS (keytool's own default
is called so in old files) opens, and the other way round. So it does here.

Whom a truststore trusts: its trusted certificates, and as in Java the certificate of a private key,
but not those that vouch for it. In PKCS12 Java's mark for a trusted one cannot be seen from here:
beside private keys one that vouches for another is trusted if it has an alias, where keytool writes
the subject's name (CN=...) for those that only vouch. All others count, also if nobody marked them.

If a keystore has several private keys, the first one that the password opens is used. Java takes
one that suits what the broker asks for.

Sentences here are about "the store"; whoever calls says which key named it.
"""

from __future__ import annotations

import base64
import binascii
import itertools
import re
import ssl
import warnings
from dataclasses import dataclass
from typing import NamedTuple

from cryptography import x509
from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric.types import PrivateKeyTypes
from cryptography.hazmat.primitives.serialization import pkcs12

from sparkmirror.model import Secret
from sparkmirror.security import jks
from sparkmirror.security.private_keys import check_kdf_cost, is_diffie_hellman, load_private_key

MAX_BYTES = 16 << 20
_MOST_ITERATIONS = 2_000_000  # openssl takes as many as it is told, three times for a store

_KINDS = ("JKS", "PKCS12", "PEM")
_PEM_MARK = b"-----BEGIN "
_PEM_BOUNDARY = re.compile(r"-----(BEGIN|END) ([A-Z0-9 ]{1,64})-----")
_CERTIFICATES = ("CERTIFICATE", "X509 CERTIFICATE")
_DER_SEQUENCE = b"\x30"
_SHROUDED_KEY = bytes.fromhex("060b2a864886f70d010c0a0102")  # begins a private key in PKCS12
_NOT_UNDERSTOOD = (ValueError, TypeError, x509.InvalidVersion)  # what cryptography raises
_TO_PKCS12 = (
    "convert it with keytool -importkeystore -srckeystore OLD -destkeystore NEW "
    "-deststoretype PKCS12"
)


@dataclass(frozen=True, slots=True)
class KeyPair:
    """Who we are: our certificate and those that vouch for it (PEM), and our key (PKCS #8, PEM)."""

    chain: str
    key: Secret
    note: str = ""  # which one it is, where the store had a choice


class _Names(NamedTuple):
    """Whom a certificate is about, and who vouches for it."""

    subject: x509.Name
    issuer: x509.Name


def read_truststore(data: bytes, kind: str, password: Secret | None) -> str:
    """All trusted certificates as PEM; ValueError says what is wrong with the store."""
    match _content(data, kind):
        case "PEM":
            found = _pem_certificates(_pem_blocks(data))
        case "JKS":
            found = [
                entry.certificates[0]
                for entry in jks.read_entries(data, password)
                if entry.certificates
            ]
        case _:
            loaded = _load_pkcs12(data, password)
            found = [_der(one) for one in _pkcs12_trusted(loaded, data.count(_SHROUDED_KEY))]
    if not found:
        raise ValueError("the store has no trusted certificate")
    for number, certificate in enumerate(found, start=1):
        _check(certificate, number)
    return "".join(map(ssl.DER_cert_to_PEM_cert, dict.fromkeys(found)))


def read_keystore(
    data: bytes, kind: str, password: Secret | None, key_password: Secret | None
) -> KeyPair:
    """Certificate chain and private key; ValueError says what is wrong with the store."""
    match _content(data, kind):
        case "PEM":
            return _pem_keystore(data, key_password)
        case "JKS":
            return _jks_keystore(data, password, key_password)
        case _:
            return _pkcs12_keystore(data, password, key_password)


def _content(data: bytes, kind: str) -> str:
    """What the bytes are, which may be another kind of store than the one that was said."""
    said = kind.upper()
    if said not in _KINDS:
        raise ValueError(f"the type of the store is not one of {', '.join(_KINDS)}")
    if len(data) > MAX_BYTES:
        raise ValueError(f"the store has more than {MAX_BYTES:,} bytes and was not read")
    if not data:
        raise ValueError("the store is empty")
    if said == "PEM":
        return said
    if data.startswith(jks.MAGIC):
        return "JKS"
    if data.startswith(jks.JCEKS_MAGIC):
        raise ValueError(f"the store is of the kind JCEKS, which is not supported; {_TO_PKCS12}")
    if _PEM_MARK in data[:65536]:
        raise ValueError(f"the store is PEM and not {said}: its type has to be PEM")
    if not data.startswith(_DER_SEQUENCE):
        raise ValueError(f"the store is not {said}, or it is damaged")
    return "PKCS12"


# -- JKS


def _jks_keystore(data: bytes, password: Secret | None, key_password: Secret | None) -> KeyPair:
    opener = key_password or password
    if opener is None:
        raise ValueError("the store needs a password")
    entries = jks.read_entries(data, password)
    keys = [entry for entry in entries if entry.encrypted_key is not None]
    if not keys:
        raise ValueError("the store has no private key")
    for entry in keys:
        try:
            key = jks.decrypt_key(entry.encrypted_key or b"", opener)
        except ValueError as error:
            raise ValueError(f"a private key of the store is damaged: {error}") from error
        if key is not None:
            note = "" if len(keys) == 1 else f"{entry.alias} of {len(keys)} private keys is used"
            return _key_pair(
                load_private_key(key), [_load(one) for one in entry.certificates], note
            )
    raise ValueError("the key password does not open the private key")


# -- PKCS12


def _load_pkcs12(data: bytes, password: Secret | None) -> pkcs12.PKCS12KeyAndCertificates:
    text = None if password is None else password.reveal().encode("utf-8", "replace")
    check_kdf_cost(data, "the PKCS12 store", _MOST_ITERATIONS)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # odd serial numbers and the like are no fault of ours
            return pkcs12.load_pkcs12(data, text)
    except UnsupportedAlgorithm as error:
        raise ValueError(
            f"the store is protected in a way that OpenSSL does not know; {_TO_PKCS12}"
        ) from error
    except _NOT_UNDERSTOOD as error:
        what = "needs a password" if password is None else "does not open with this password"
        raise ValueError(f"the PKCS12 store {what}, or it is damaged") from error


def _pkcs12_certificates(loaded: pkcs12.PKCS12KeyAndCertificates) -> list[x509.Certificate]:
    first = [] if loaded.cert is None else [loaded.cert.certificate]
    return first + [other.certificate for other in loaded.additional_certs]


def _pkcs12_trusted(loaded: pkcs12.PKCS12KeyAndCertificates, keys: int) -> list[x509.Certificate]:
    """All but those that only vouch for a key; keytool writes one that is trusted once more."""
    found = _pkcs12_certificates(loaded)
    if loaded.key is None or loaded.cert is None:
        return found
    own = loaded.cert.certificate
    vouching = {_names(one).issuer for one in found if not _is_own_issuer(one)}
    trusted = [
        one.certificate
        for one in loaded.additional_certs
        if b"=" not in (one.friendly_name or b"=")
        or _names(one.certificate).subject not in vouching
        or found.count(one.certificate) > max(keys, 1)
    ]
    for above in _issuer_chain(own, found)[1:]:
        if found.count(above) == 1 and above in trusted:  # by openssl, which may give it any name
            trusted.remove(above)
    return [own, *trusted]


def _pkcs12_keystore(data: bytes, password: Secret | None, key_password: Secret | None) -> KeyPair:
    try:
        loaded = _load_pkcs12(data, password)
    except ValueError:
        if key_password is None or key_password == password:
            raise
        raise ValueError(
            "the PKCS12 store does not open with its password, or it is damaged, or its key has a "
            "password of its own, which is not supported: give both the same one with keytool "
            "-importkeystore"
        ) from None
    if loaded.key is None:
        raise ValueError("the store has no private key")
    count = data.count(_SHROUDED_KEY)
    note = f"the first of {count} private keys is used" if count > 1 else ""
    return _key_pair(loaded.key, _pkcs12_certificates(loaded), note)


# -- PEM


def _pem_blocks(data: bytes) -> list[tuple[str, str]]:
    """Name and content of every block; whatever stands between them is a comment."""
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError:
        text = data.decode("latin-1")
    blocks = []
    for begin, end in itertools.pairwise(_PEM_BOUNDARY.finditer(text)):
        if (begin[1], end[1]) == ("BEGIN", "END") and begin[2] == end[2]:
            blocks.append((begin[2], text[begin.end() : end.start()]))
    if not blocks:
        raise ValueError("the store is not PEM: there is no -----BEGIN ...----- in it, or no end")
    return blocks


def _pem_bytes(name: str, content: str) -> bytes:
    if "Proc-Type:" in content and "ENCRYPTED" in content:
        raise ValueError(
            "the private key is encrypted in OpenSSL's own old way; convert it with openssl pkcs8 "
            "-topk8"
        )
    lines = [line for line in content.splitlines() if ":" not in line]  # the others are headers
    try:
        return base64.b64decode("".join("".join(lines).split()), validate=True)
    except (binascii.Error, ValueError) as error:
        raise ValueError(f"the store is damaged: a block {name} is not base64") from error


def _pem_certificates(blocks: list[tuple[str, str]]) -> list[bytes]:
    return [_pem_bytes(name, content) for name, content in blocks if name in _CERTIFICATES]


def _pem_keystore(data: bytes, key_password: Secret | None) -> KeyPair:
    blocks = _pem_blocks(data)
    keys = [(name, content) for name, content in blocks if name.endswith("PRIVATE KEY")]
    if len(keys) != 1:
        found = "no private key" if not keys else f"{len(keys)} private keys"
        raise ValueError(f"the store has {found}; it takes exactly one")
    name, content = keys[0]
    is_encrypted = name == "ENCRYPTED PRIVATE KEY"
    if is_encrypted and key_password is None:
        raise ValueError("the private key is encrypted and needs a key password")
    key = load_private_key(_pem_bytes(name, content), key_password if is_encrypted else None)
    return _key_pair(key, [_load(one) for one in _pem_certificates(blocks)], "")


# -- keys and certificates


def _load(certificate: bytes) -> x509.Certificate:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return x509.load_der_x509_certificate(certificate)
    except _NOT_UNDERSTOOD as error:
        raise ValueError("a certificate of the store is damaged") from error


def _der(certificate: x509.Certificate) -> bytes:
    return certificate.public_bytes(serialization.Encoding.DER)


def _check(certificate: bytes, number: int) -> None:
    """OpenSSL is the one that has to understand it."""
    try:
        ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT).load_verify_locations(cadata=certificate)
    except (ssl.SSLError, ValueError) as error:
        raise ValueError(f"certificate {number} of the store is damaged") from error


def _key_pair(key: PrivateKeyTypes, found: list[x509.Certificate], note: str) -> KeyPair:
    chain = _chain(key, found)
    text = key.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.PKCS8,
        serialization.NoEncryption(),
    )
    return KeyPair("".join(map(_pem, chain)), Secret(text.decode()), note)


def _chain(key: PrivateKeyTypes, found: list[x509.Certificate]) -> list[x509.Certificate]:
    """The certificate of the key, then who vouches for it, and so on, in whatever order found."""
    own = _public(key.public_key())
    chain = [one for one in found if _public_of(one) == own][:1]
    if not chain:
        raise ValueError(
            "the store has no certificate for its private key"
            if not found
            else "the private key does not belong to any certificate of the store"
        )
    return _issuer_chain(chain[0], found)


def _issuer_chain(own: x509.Certificate, found: list[x509.Certificate]) -> list[x509.Certificate]:
    """A certificate, then who vouches for it, and so on."""
    chain = [own]
    rest = [one for one in found if one != own]
    names = {one: _names(one) for one in found}
    while not _is_own_issuer(chain[-1]):
        above = next((one for one in rest if names[one].subject == names[chain[-1]].issuer), None)
        if above is None:
            break
        rest = [one for one in rest if one != above]
        chain.append(above)
    return chain


def _is_own_issuer(certificate: x509.Certificate) -> bool:
    names = _names(certificate)
    return names.issuer == names.subject


def _names(certificate: x509.Certificate) -> _Names:
    try:
        return _Names(certificate.subject, certificate.issuer)
    except _NOT_UNDERSTOOD as error:
        raise ValueError("a certificate of the store is damaged") from error


def _public_of(certificate: x509.Certificate) -> bytes | None:
    if is_diffie_hellman(_der(certificate)):
        return None
    try:
        return _public(certificate.public_key())
    except (UnsupportedAlgorithm, *_NOT_UNDERSTOOD):
        return None  # of a kind that OpenSSL does not know: not ours


def _public(key: object) -> bytes:
    text: bytes = key.public_bytes(  # type: ignore[attr-defined]  # every kind of key has it
        serialization.Encoding.DER, serialization.PublicFormat.SubjectPublicKeyInfo
    )
    return text


def _pem(certificate: x509.Certificate) -> str:
    return certificate.public_bytes(serialization.Encoding.PEM).decode()
