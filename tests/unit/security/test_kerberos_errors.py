# SPDX-License-Identifier: Apache-2.0
"""What the codes of Kerberos mean; the real ones are in tests/kerberos."""

from __future__ import annotations

import pytest

from sparkmirror.model import Secret
from sparkmirror.security.kerberos_errors import kerberos_error
from sparkmirror.security.settings import KerberosSettings

FAILURE = 13 << 16  # GSS_S_FAILURE
NO_CRED = 7 << 16
KEYTAB = KerberosSettings(principal="me@HERE", keytab=Secret("k"), uses_ticket_cache=False)
CACHE = KerberosSettings(ticket_cache="/tmp/krb5cc_7")  # noqa: S108 - the usual place


@pytest.mark.parametrize(
    ("settings", "major", "minor", "part", "retriable"),
    [
        (KEYTAB, FAILURE, 2529638918, "does not know me@HERE", False),
        (KEYTAB, FAILURE, 2529638919, "sasl.kerberos.service.name", False),
        (KEYTAB, FAILURE, 2529638930, "of me@HERE is disabled or expired", False),
        (KEYTAB, FAILURE, 2529638936, "export the keytab again", False),
        (KEYTAB, FAILURE, 2529638943, "export the keytab again", False),
        (KEYTAB, FAILURE, 2529638949, "clocks", True),
        (KEYTAB, FAILURE, 2529639068, "no KDC responds", True),
        (KEYTAB, FAILURE, 2529639066, "krb5.conf", True),
        (CACHE, NO_CRED, 2529639053, "no valid ticket in /tmp/krb5cc_7", True),
        (KerberosSettings(principal="me"), NO_CRED, 0, "ticket for me in the system's", True),
        (KEYTAB, NO_CRED, 39756044, "no ticket for kafka/h", True),
        (KEYTAB, FAILURE, 12345, "no ticket for kafka/h", True),
    ],
)
def test_each_code_is_an_error_message(
    settings: KerberosSettings, major: int, minor: int, part: str, *, retriable: bool
) -> None:
    """With what the library said; who is refused is not sent again, as KDCs lock accounts."""
    error = kerberos_error(major, minor, "its words", settings, "kafka/h")
    assert part in str(error)
    assert "its words" in str(error)
    assert error.retriable is retriable
