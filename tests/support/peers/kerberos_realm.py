# SPDX-License-Identifier: Apache-2.0
"""A Kerberos realm for a test: an MIT KDC on a port of 127.0.0.1, its database in a directory.

realm = Realm(folder)
realm.add("mirror")                 add a principal with a random key
realm.keytab("mirror")              write a keytab with its key
realm.change_key("mirror")          invalidate older keytabs
realm.start(), realm.stop()         start and stop the KDC
realm.environment                   environment of clients
"""

from __future__ import annotations

import os
import re
import shutil
import socket
import subprocess
from pathlib import Path
from types import TracebackType
from typing import Self

from sparkmirror.devcluster.ports import HOST, ReservedPort
from support.waiting import eventually

NAME = "MIRROR.TEST"
_SECONDS = 30.0
_SKEW_SECONDS = 2  # tickets would be good for five more minutes otherwise
_PLACES = os.pathsep.join((os.environ.get("PATH", ""), "/usr/sbin", "/sbin", "/usr/local/sbin"))

# Over TCP only: a KDC that is down is found out at once.
_KRB5_CONF = """\
[libdefaults]
    default_realm = {realm}
    dns_lookup_realm = false
    dns_lookup_kdc = false
    udp_preference_limit = 1
    clockskew = {skew}
[realms]
    {realm} = {{
        kdc = {host}:{port}
    }}
[domain_realm]
    localhost = {realm}
[logging]
    kdc = FILE:{folder}/requests.log
"""
_KDC_CONF = """\
[realms]
    {realm} = {{
        database_name = {folder}/principal
        key_stash_file = {folder}/stash
        kdc_listen = {host}:{port}
        kdc_tcp_listen = {host}:{port}
        max_life = {seconds}s
        max_renewable_life = 0s
    }}
"""


class KerberosRealm:
    """The KDC, its principals and their keytabs; also a context manager."""

    def __init__(self, folder: Path, *, ticket_seconds: int) -> None:
        self._folder = folder
        self._port = ReservedPort()
        self._port.reserve()
        self._process: subprocess.Popen[bytes] | None = None
        self.krb5_conf = folder / "krb5.conf"
        self.environment = {"KRB5_CONFIG": str(self.krb5_conf), "KRB5CCNAME": f"{folder}/no-cache"}
        places = {"realm": NAME, "host": HOST, "port": self._port.number, "folder": folder}
        places["skew"] = _SKEW_SECONDS
        self.krb5_conf.write_text(_KRB5_CONF.format(**places), encoding="utf-8")
        kdc_conf = folder / "kdc.conf"
        kdc_conf.write_text(_KDC_CONF.format(**places, seconds=ticket_seconds), encoding="utf-8")
        self._server_environment = self.environment | {"KRB5_KDC_PROFILE": str(kdc_conf)}
        self._run("kdb5_util", "create", "-s", "-r", NAME, "-P", "a master's password")

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self,
        _kind: type[BaseException] | None,
        _error: BaseException | None,
        _traceback: TracebackType | None,
    ) -> None:
        self.stop()
        self._port.release()

    # --- the KDC

    def start(self) -> None:
        with (self._folder / "kdc.log").open("ab") as log:
            self._process = subprocess.Popen(
                [_binary("krb5kdc"), "-n"],
                env={**os.environ, **self._server_environment},
                stdout=log,
                stderr=log,
            )
        eventually(self._answers, _SECONDS, "the KDC answers")

    def stop(self) -> None:
        if self._process is not None:
            self._process.terminate()
            self._process.wait(_SECONDS)
            self._process = None

    def _answers(self) -> bool:
        if self._process is not None and self._process.poll() is not None:
            told = (self._folder / "kdc.log").read_text(encoding="utf-8", errors="replace")
            raise RuntimeError(f"the KDC ended with {self._process.returncode}: {told}")
        with socket.socket() as client:
            return client.connect_ex((HOST, self._port.number)) == 0

    def issued(self, name: str) -> int:
        """Count the initial tickets of this principal."""
        log = (self._folder / "requests.log").read_text(encoding="utf-8", errors="replace")
        return len(re.findall(rf"AS_REQ .* ISSUE: .* {re.escape(name)}@{NAME} for", log))

    def refused(self, name: str) -> int:
        """Count the failed authentications of this principal."""
        log = (self._folder / "requests.log").read_text(encoding="utf-8", errors="replace")
        return len(re.findall(rf"AS_REQ .* PREAUTH_FAILED: .*{re.escape(name)}@{NAME} for", log))

    # --- who it knows

    def add(self, name: str, *, ticket_seconds: int = 0) -> None:
        """Add a principal with a random key that requires preauthentication."""
        limit = f'-maxlife "{ticket_seconds} seconds" ' if ticket_seconds else ""
        self._admin(f"addprinc -randkey +requires_preauth {limit}{name}")

    def remove(self, name: str) -> None:
        self._admin(f"delprinc -force {name}")

    def change_key(self, name: str) -> None:
        self._admin(f"cpw -randkey {name}")

    def keytab(self, name: str, file: str = "") -> Path:
        """Write a keytab with the current key of a principal."""
        path = self._folder / (file or f"{name.replace('/', '-')}.keytab")
        self._admin(f"ktadd -norandkey -k {path} {name}")
        return path

    def _admin(self, command: str) -> None:
        self._run("kadmin.local", "-r", NAME, "-q", command)

    def _run(self, name: str, *arguments: str) -> None:
        done = subprocess.run(
            [_binary(name), *arguments],
            env={**os.environ, **self._server_environment},
            capture_output=True,
            text=True,
            timeout=_SECONDS,
            check=True,
        )
        # kadmin.local ends with 0 whatever happened.
        errors = [line for line in done.stderr.splitlines() if "while" in line]
        assert errors == [], f"{arguments}: {done.stdout} {done.stderr}"


def _binary(name: str) -> str:
    found = shutil.which(name, path=_PLACES)
    assert found, f"{name} is missing: make kerberos says what to install"
    return found
