# SPDX-License-Identifier: Apache-2.0
"""Which hosts are this machine and nobody else."""

from __future__ import annotations

from ipaddress import ip_address


def is_loopback(host: str) -> bool:
    """Whether what is sent there stays here; a name is taken by its word."""
    name = host.strip("[]").rstrip(".").lower()
    if name == "localhost":
        return True
    try:
        return ip_address(name).is_loopback
    except ValueError:
        return False
