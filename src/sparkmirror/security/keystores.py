# SPDX-License-Identifier: Apache-2.0
"""Reads truststores and keystores (JKS, PKCS12, PEM) and converts them to PEM.

As in Java, the content decides between JKS and PKCS12, not the declared type.

A truststore trusts its trusted certificates and, as in Java, the certificate of a private key, but
not that key's issuers. `cryptography` does not expose Java's attribute for trusted certificates in
PKCS12. So next to private keys, an issuer certificate is trusted only if it has an alias other than
the subject's name (CN=...), which keytool writes for the certificates of a chain. All other
certificates are trusted.

If a keystore has several private keys, the first one that the password opens is used. Java chooses
one by the broker's request.

Errors speak of "the store"; callers add the config key.
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
from sparkmirror.quantities import counted
from sparkmirror.security import jks
from sparkmirror.security.private_keys import check_kdf_cost, is_diffie_hellman, load_private_key

MAX_BYTES = 16 << 20
_MAX_ITERATIONS = 2_000_000  # openssl derives a key three times for a store

_KINDS = ("JKS", "PKCS12", "PEM")
_PEM_MARK = b"-----BEGIN "
_PEM_BOUNDARY = re.compile(r"-----(BEGIN|END) ([A-Z0-9 ]{1,64})-----")
_CERTIFICATES = ("CERTIFICATE", "X509 CERTIFICATE")
_DER_SEQUENCE = b"\x30"
_SHROUDED_KEY = bytes.fromhex("060b2a864886f70d010c0a0102")  # starts a private key in PKCS12
_DECODE_ERRORS = (ValueError, TypeError, x509.InvalidVersion)  # what cryptography raises
_TO_PKCS12 = (
    "convert it with keytool -importkeystore -srckeystore OLD -destkeystore NEW "
    "-deststoretype PKCS12"
)


@dataclass(frozen=True, slots=True)
class KeyPair:
    """The client's certificate and its issuers (PEM), and its private key (PKCS #8, PEM)."""

    chain: str
    key: Secret
    note: str = ""  # which key is used, if the store has several


class _Names(NamedTuple):
    subject: x509.Name
    issuer: x509.Name


def read_truststore(data: bytes, kind: str, password: Secret | None) -> str:
    """Return all trusted certificates as PEM. Raises ValueError."""
    match _store_type(data, kind):
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
        _check_certificate(certificate, number)
    return "".join(map(ssl.DER_cert_to_PEM_cert, dict.fromkeys(found)))


def read_keystore(
    data: bytes, kind: str, password: Secret | None, key_password: Secret | None
) -> KeyPair:
    """Return the certificate chain and private key. Raises ValueError."""
    match _store_type(data, kind):
        case "PEM":
            return _pem_keystore(data, key_password)
        case "JKS":
            return _jks_keystore(data, password, key_password)
        case _:
            return _pkcs12_keystore(data, password, key_password)


def _store_type(data: bytes, kind: str) -> str:
    """Return the store's real type, which may differ from the declared one."""
    declared = kind.upper()
    if declared not in _KINDS:
        raise ValueError(f"the type of the store is not one of {', '.join(_KINDS)}")
    if len(data) > MAX_BYTES:
        raise ValueError(f"the store is larger than {MAX_BYTES:,} bytes")
    if not data:
        raise ValueError("the store is empty")
    if declared == "PEM":
        return declared
    if data.startswith(jks.MAGIC):
        return "JKS"
    if data.startswith(jks.JCEKS_MAGIC):
        raise ValueError(f"the store has the type JCEKS, which is not supported; {_TO_PKCS12}")
    if _PEM_MARK in data[:65536]:
        raise ValueError(f"the store is PEM, not {declared}: set its type to PEM")
    if not data.startswith(_DER_SEQUENCE):
        raise ValueError(f"the store is not {declared}, or it is damaged")
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
                load_private_key(key), [_load_certificate(one) for one in entry.certificates], note
            )
    raise ValueError("the key password does not open the private key")


# -- PKCS12


def _load_pkcs12(data: bytes, password: Secret | None) -> pkcs12.PKCS12KeyAndCertificates:
    text = None if password is None else password.reveal().encode("utf-8", "replace")
    check_kdf_cost(data, "the PKCS12 store", _MAX_ITERATIONS)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # such as unusual serial numbers
            return pkcs12.load_pkcs12(data, text)
    except UnsupportedAlgorithm as error:
        raise ValueError(
            f"the store is encrypted with an algorithm that OpenSSL does not support; {_TO_PKCS12}"
        ) from error
    except _DECODE_ERRORS as error:
        what = "needs a password" if password is None else "does not open with this password"
        raise ValueError(f"the PKCS12 store {what}, or it is damaged") from error


def _pkcs12_certificates(loaded: pkcs12.PKCS12KeyAndCertificates) -> list[x509.Certificate]:
    first = [] if loaded.cert is None else [loaded.cert.certificate]
    return first + [other.certificate for other in loaded.additional_certs]


def _pkcs12_trusted(loaded: pkcs12.PKCS12KeyAndCertificates, keys: int) -> list[x509.Certificate]:
    """Return all certificates except those that are only in a key's chain.

    keytool writes a certificate twice if it is also trusted.
    """
    found = _pkcs12_certificates(loaded)
    if loaded.key is None or loaded.cert is None:
        return found
    own = loaded.cert.certificate
    issuers = {_names(one).issuer for one in found if not _is_self_signed(one)}
    trusted = [
        one.certificate
        for one in loaded.additional_certs
        if b"=" not in (one.friendly_name or b"=")
        or _names(one.certificate).subject not in issuers
        or found.count(one.certificate) > max(keys, 1)
    ]
    for issuer in _issuer_chain(own, found)[1:]:
        if found.count(issuer) == 1 and issuer in trusted:  # openssl may write any alias
            trusted.remove(issuer)
    return [own, *trusted]


def _pkcs12_keystore(data: bytes, password: Secret | None, key_password: Secret | None) -> KeyPair:
    try:
        loaded = _load_pkcs12(data, password)
    except ValueError:
        if key_password is None or key_password == password:
            raise
        raise ValueError(
            "the PKCS12 store does not open with its password, or it is damaged, or its key has "
            "another password, which is not supported: set the same one with keytool "
            "-importkeystore"
        ) from None
    if loaded.key is None:
        raise ValueError("the store has no private key")
    count = data.count(_SHROUDED_KEY)
    note = f"the first of {count} private keys is used" if count > 1 else ""
    return _key_pair(loaded.key, _pkcs12_certificates(loaded), note)


# -- PEM


def _pem_blocks(data: bytes) -> list[tuple[str, str]]:
    """Return name and content of every block; text between blocks is ignored."""
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError:
        text = data.decode("latin-1")
    blocks = []
    for begin, end in itertools.pairwise(_PEM_BOUNDARY.finditer(text)):
        if (begin[1], end[1]) == ("BEGIN", "END") and begin[2] == end[2]:
            blocks.append((begin[2], text[begin.end() : end.start()]))
    if not blocks:
        raise ValueError(
            "the store is not PEM: it has no -----BEGIN ...-----, or no matching -----END"
        )
    return blocks


def _pem_bytes(name: str, content: str) -> bytes:
    if "Proc-Type:" in content and "ENCRYPTED" in content:
        raise ValueError(
            "the private key is encrypted in OpenSSL's legacy format; convert it with openssl "
            "pkcs8 -topk8"
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
        found = "no private key" if not keys else counted(len(keys), "private key")
        raise ValueError(f"the store has {found}; it must have exactly one")
    name, content = keys[0]
    is_encrypted = name == "ENCRYPTED PRIVATE KEY"
    if is_encrypted and key_password is None:
        raise ValueError("the private key is encrypted and needs a key password")
    key = load_private_key(_pem_bytes(name, content), key_password if is_encrypted else None)
    return _key_pair(key, [_load_certificate(one) for one in _pem_certificates(blocks)], "")


# -- keys and certificates


def _load_certificate(certificate: bytes) -> x509.Certificate:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return x509.load_der_x509_certificate(certificate)
    except _DECODE_ERRORS as error:
        raise ValueError("a certificate of the store is damaged") from error


def _der(certificate: x509.Certificate) -> bytes:
    return certificate.public_bytes(serialization.Encoding.DER)


def _check_certificate(certificate: bytes, number: int) -> None:
    """Raise ValueError unless OpenSSL can load the certificate."""
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
    """Return the key's certificate, then its issuers; `found` may have any order."""
    own = _public_key_bytes(key.public_key())
    chain = [one for one in found if _certificate_public_key(one) == own][:1]
    if not chain:
        raise ValueError(
            "the store has no certificate for its private key"
            if not found
            else "the private key does not belong to any certificate of the store"
        )
    return _issuer_chain(chain[0], found)


def _issuer_chain(own: x509.Certificate, found: list[x509.Certificate]) -> list[x509.Certificate]:
    chain = [own]
    rest = [one for one in found if one != own]
    names = {one: _names(one) for one in found}
    while not _is_self_signed(chain[-1]):
        issuer = next((one for one in rest if names[one].subject == names[chain[-1]].issuer), None)
        if issuer is None:
            break
        rest = [one for one in rest if one != issuer]
        chain.append(issuer)
    return chain


def _is_self_signed(certificate: x509.Certificate) -> bool:
    names = _names(certificate)
    return names.issuer == names.subject


def _names(certificate: x509.Certificate) -> _Names:
    try:
        return _Names(certificate.subject, certificate.issuer)
    except _DECODE_ERRORS as error:
        raise ValueError("a certificate of the store is damaged") from error


def _certificate_public_key(certificate: x509.Certificate) -> bytes | None:
    if is_diffie_hellman(_der(certificate)):
        return None
    try:
        return _public_key_bytes(certificate.public_key())
    except (UnsupportedAlgorithm, *_DECODE_ERRORS):
        return None  # a key type that OpenSSL does not support cannot be the client's


def _public_key_bytes(key: object) -> bytes:
    text: bytes = key.public_bytes(  # type: ignore[attr-defined]  # every key type has it
        serialization.Encoding.DER, serialization.PublicFormat.SubjectPublicKeyInfo
    )
    return text


def _pem(certificate: x509.Certificate) -> str:
    return certificate.public_bytes(serialization.Encoding.PEM).decode()
