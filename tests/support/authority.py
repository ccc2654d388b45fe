# SPDX-License-Identifier: Apache-2.0
"""Settings for TLS without any store: whom an authority of a test's own vouches for."""

from __future__ import annotations

from sparkmirror.model import Secret
from sparkmirror.security.settings import TlsSettings
from support import certificates


class Authority:
    """Vouches for whoever asks."""

    def __init__(self) -> None:
        self._authority = certificates.Authority("authority of a test")
        self.pem = self._authority.pem

    def tls(self, host: str = "127.0.0.1") -> TlsSettings:
        """Trusts this authority, and is `host` by its word."""
        who = self._authority.identity(host, hosts=(host,))
        return TlsSettings(self.pem, who.chain, Secret(who.key))

    def stranger(self) -> TlsSettings:
        """Trusts this authority, and says not who it is."""
        return TlsSettings(self.pem)
