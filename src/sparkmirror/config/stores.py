# SPDX-License-Identifier: Apache-2.0
"""Trust stores and key stores, read when settings are made: files of three kinds, or PEM inline.

What may stand together is what Java's clients accept.
"""

from __future__ import annotations

from functools import lru_cache
from pathlib import Path

from sparkmirror.config.bounded_files import read_bounded
from sparkmirror.config.security_texts import Texts
from sparkmirror.security.keystores import MOST_BYTES, KeyPair, read_keystore, read_truststore

_PEM = "PEM"
_DEFAULT = "JKS"


def read_trust(texts: Texts, prefix: str) -> str | None:
    """The PEM of all trusted certificates; None: whom the system trusts."""
    location, inline = f"{prefix}truststore.location", f"{prefix}truststore.certificates"
    kind, password = f"{prefix}truststore.type", f"{prefix}truststore.password"
    path, certificates = texts.text(location), texts.secret(inline)
    declared = _declared(texts, kind)
    if certificates is not None:
        if path:
            raise texts.misfit(inline, f"stands beside {texts.called(location)}: remove one")
        _no_password(texts, password)
        _must_be_pem(texts, kind, inline, declared)
        try:
            return read_truststore(certificates.reveal().encode(), _PEM, None)
        except ValueError as error:
            raise texts.misfit(inline, _because(error)) from error
    if not path:
        _nothing_to_open(texts, password, location)
        return None
    if declared == _PEM:
        _no_password(texts, password)
    data = read_named(texts, location, path)
    try:
        return _trusted(data, declared or _DEFAULT, texts.secret(password))
    except ValueError as error:
        raise texts.misfit(location, f"({texts.shown(location)}) {_because(error)}") from error


def read_identity(texts: Texts, prefix: str) -> KeyPair | None:
    """The certificate to show and its key; None: this client shows none."""
    location, key = f"{prefix}keystore.location", f"{prefix}keystore.key"
    password, kind = f"{prefix}keystore.password", f"{prefix}keystore.type"
    path, declared = texts.text(location), _declared(texts, kind)
    inline = _inline_identity(texts, key, f"{prefix}keystore.certificate.chain")
    key_password = texts.secret(f"{prefix}key.password")
    if inline is not None:
        if path:
            raise texts.misfit(key, f"stands beside {texts.called(location)}: remove one")
        _no_password(texts, password)
        _must_be_pem(texts, kind, key, declared)
        try:
            return _identity(inline.encode(), _PEM, None, key_password)
        except ValueError as error:
            raise texts.misfit(key, _because(error)) from error
    if not path:
        _nothing_to_open(texts, password, location)
        return None
    if declared == _PEM:
        _no_password(texts, password)
    elif texts.secret(password) is None:
        beside = texts.called(location).removesuffix(location) + password
        raise texts.misfit(location, f"needs a password: write {beside}")
    data = read_named(texts, location, path)
    try:
        return _identity(data, declared or _DEFAULT, texts.secret(password), key_password)
    except ValueError as error:
        raise texts.misfit(location, f"({texts.shown(location)}) {_because(error)}") from error


def _inline_identity(texts: Texts, key: str, chain: str) -> str | None:
    """Certificates and key as one text, if they stand in the file themselves."""
    private, certificates = texts.secret(key), texts.secret(chain)
    if private is None and certificates is None:
        return None
    if private is None:
        raise texts.misfit(chain, f"needs {key} beside it")
    if certificates is None:
        raise texts.misfit(key, f"needs {chain} beside it")
    return f"{certificates.reveal()}\n{private.reveal()}"


# A flow has four clients and a file many flows, most with the same stores; opening one takes long
# on purpose.
_trusted = lru_cache(maxsize=64)(read_truststore)
_identity = lru_cache(maxsize=64)(read_keystore)


def _declared(texts: Texts, kind: str) -> str:
    """What kind of store it is said to be; empty: nobody said."""
    return (texts.text(kind) or "").strip().upper()


def _must_be_pem(texts: Texts, kind: str, inline: str, declared: str) -> None:
    if declared not in ("", _PEM):
        raise texts.misfit(kind, f"must be PEM, because {texts.called(inline)} is set")


def _no_password(texts: Texts, password: str) -> None:
    if texts.secret(password) is not None:
        raise texts.misfit(password, "does not go with PEM, of which only a key has a password")


def read_named(texts: Texts, location: str, path: str, most: int = MOST_BYTES) -> bytes:
    """What is in the file that a key names; Misfit if it cannot be read."""
    try:
        data = read_bounded(Path(path), most, only_files=True)
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise texts.misfit(
            location,
            f"names {texts.shown(location)}, which cannot be read ({reason}): it must be on the "
            "machine where the program runs, and readable for it",
        ) from error
    if data is None:
        raise texts.misfit(
            location, f"names {texts.shown(location)}, which has more than {most >> 20} MiB"
        )
    return data


def _nothing_to_open(texts: Texts, password: str, location: str) -> None:
    if texts.secret(password) is not None:
        raise texts.misfit(password, f"has no file to open: {texts.called(location)} is not set")


def _because(error: ValueError) -> str:
    return f"cannot be used: {error}"
