# SPDX-License-Identifier: Apache-2.0
"""What Java takes of TLS by default, asked of Java: suites in their order, and odd certificates."""

from __future__ import annotations

import subprocess
from pathlib import Path

from sparkmirror.security.settings import TlsSettings
from sparkmirror.security.tls import client_context, openssl_suite
from sparkmirror.system.java import java_binary
from support.data.certificate_chains import CA, OLD_CA, REFUSED, TAKEN
from support.data.weak_certificates import WeakCertificate

PROGRAM = Path(__file__).parents[1] / "support/java/TlsDefaults.java"
SECONDS = 60.0


def test_java_offers_and_takes_the_same(tmp_path: Path) -> None:
    """Newer ones offer less; what they still offer is in the same order."""
    cases = {f"taken {name}": case for name, case in TAKEN.items()}
    for trusted, of in ((CA, ""), (OLD_CA, " below the expired one")):
        cases |= {f"refused {name}{of}": (trusted, chain) for name, (chain, _) in REFUSED.items()}
    files = [
        str(file)
        for number, (trusted, chain) in enumerate(cases.values())
        for file in (
            written(tmp_path / f"{number}.trust", [trusted]),
            written(tmp_path / f"{number}.chain", chain),
        )
    ]
    done = subprocess.run(
        [str(java_binary()), str(PROGRAM), *files],
        capture_output=True,
        text=True,
        timeout=SECONDS,
        check=True,
    )
    suites, *verdicts = done.stdout.splitlines()

    offered = [one["name"] for one in client_context(TlsSettings()).get_ciphers()]
    javas = [name for one in suites.split() if (name := openssl_suite(one)) is not None]
    assert javas
    assert [one for one in offered if one in javas] == javas
    assert {name: said.split(":")[0] for name, said in zip(cases, verdicts, strict=True)} == {
        name: name.split()[0] for name in cases
    }


def written(file: Path, certificates: list[WeakCertificate]) -> Path:
    """As PEM."""
    file.write_text("".join(one.pem for one in certificates))
    return file
