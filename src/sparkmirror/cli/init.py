# SPDX-License-Identifier: Apache-2.0
"""`sparkmirror init`: write a properties file for two clusters, and check it."""

from __future__ import annotations

import os
import sys
import tempfile
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from sparkmirror.cli.check import check_mirror_config
from sparkmirror.cli.check_report import problem_lines
from sparkmirror.cli.console import print_error
from sparkmirror.config.mirror_config import MirrorConfig
from sparkmirror.config.new_mirror_file import (
    PASSWORD_MECHANISMS,
    ClusterAnswers,
    MirrorAnswers,
    check_answers,
    mirror_file_text,
    secrets_file_text,
)
from sparkmirror.errors import ConfigError
from sparkmirror.model import Secret
from sparkmirror.security.settings import SaslMechanism, SecurityProtocol

_OK, _FAILED, _USAGE_ERROR = 0, 1, 2
_NOT_INTERACTIVE = "Not a terminal: pass"
_PROTOCOLS = tuple(one.value for one in SecurityProtocol)
_MECHANISMS = tuple(one.value for one in PASSWORD_MECHANISMS)

_Servers = Annotated[str | None, typer.Option(metavar="HOST:PORT,...", help="Bootstrap servers.")]
_Protocol = Annotated[
    str | None, typer.Option(metavar="PROTOCOL", help=f"{', '.join(_PROTOCOLS)}.")
]
_Mechanism = Annotated[
    str | None, typer.Option(metavar="MECHANISM", help=f"With SASL: {', '.join(_MECHANISMS)}.")
]
_User = Annotated[
    str | None,
    typer.Option(
        metavar="USER", help="With SASL. The password is asked for, or comes from the environment."
    ),
]
_Truststore = Annotated[
    str | None,
    typer.Option(metavar="FILE", help="Trusted certificates, if the system does not trust them."),
]


def init(
    file: Annotated[Path, typer.Argument(help="The file to write.")] = Path("mm2.properties"),
    *,
    source: Annotated[
        str | None, typer.Option(metavar="ALIAS", help="Alias of the source cluster.")
    ] = None,
    source_servers: _Servers = None,
    source_security: _Protocol = None,
    source_mechanism: _Mechanism = None,
    source_user: _User = None,
    source_truststore: _Truststore = None,
    target: Annotated[
        str | None, typer.Option(metavar="ALIAS", help="Alias of the target cluster.")
    ] = None,
    target_servers: _Servers = None,
    target_security: _Protocol = None,
    target_mechanism: _Mechanism = None,
    target_user: _User = None,
    target_truststore: _Truststore = None,
    topics: Annotated[
        str | None, typer.Option(help="Topics: names and regular expressions, with commas.")
    ] = None,
    force: Annotated[bool, typer.Option("--force", help="Overwrite an existing file.")] = False,
    no_check: Annotated[
        bool, typer.Option("--no-check", help="Do not connect to the clusters afterwards.")
    ] = False,
) -> None:
    """Write a commented properties file for two clusters, and check it with their brokers.

    Asks on a terminal for what no option says. Passwords are never options: at the prompt they go
    to a file of their own, otherwise the file refers to an environment variable.

    Exit codes: 0 written and checked, 1 written but the check found problems, or refused; 2 an
    option is missing or wrong.
    """
    options = {
        "source": source,
        "source-servers": source_servers,
        "source-security": source_security,
        "source-mechanism": source_mechanism,
        "source-user": source_user,
        "source-truststore": source_truststore,
        "target": target,
        "target-servers": target_servers,
        "target-security": target_security,
        "target-mechanism": target_mechanism,
        "target-user": target_user,
        "target-truststore": target_truststore,
        "topics": topics,
    }
    secrets = file.with_name(f"{file.stem}.secrets.properties").absolute()
    try:
        if not force:
            _require_absent(file)
        answers = _Questions(options).answers(str(secrets))
        check_answers(answers)
        text = mirror_file_text(answers)
        passwords = secrets_file_text(answers)
        if passwords and not force:
            _require_absent(secrets)
        if passwords:
            _write_private(secrets, passwords)
        _write_private(file, text)
    except typer.BadParameter as error:
        print_error(str(error))
        raise typer.Exit(_USAGE_ERROR) from error
    except ConfigError as error:
        print_error(str(error))
        raise typer.Exit(_FAILED) from error
    except OSError as error:
        print_error(f"Cannot write {file}: {error.strerror}.")
        raise typer.Exit(_FAILED) from error
    typer.echo(f"Wrote {file}.")
    if passwords:
        typer.echo(f"Wrote the passwords to {secrets}, which only you can read.")
    missing = [
        one.variable
        for one in answers.clusters
        if one.uses_sasl and one.password is None and one.variable not in os.environ
    ]
    for variable in missing:
        typer.echo(f"Set the environment variable {variable} to the password before each command.")
    is_good = bool(no_check) or (not missing and _check(file))
    _print_next(file, is_checked=is_good and not no_check)
    raise typer.Exit(_OK if is_good else _FAILED)


class _Questions:
    """Asks on a terminal for answers that no option has."""

    def __init__(self, options: Mapping[str, str | None]) -> None:
        self._options = options
        self._is_interactive = sys.stdin.isatty() and sys.stdout.isatty()
        if not self._is_interactive:
            required = ("source", "source-servers", "target", "target-servers", "topics")
            missing = [f"--{name}" for name in required if options[name] is None]
            if missing:
                raise typer.BadParameter(f"{_NOT_INTERACTIVE} {', '.join(missing)}.")

    def answers(self, secrets_path: str) -> MirrorAnswers:
        source = self._cluster("source", "Source")
        target = self._cluster("target", "Target")
        topics = self._text(
            "topics", "Topics (names and regular expressions, separated by commas)", ".*"
        )
        return MirrorAnswers(source, target, topics, secrets_path)

    def _cluster(self, side: str, title: str) -> ClusterAnswers:
        alias = self._text(side, f"{title} cluster: alias", side)
        servers = self._text(f"{side}-servers", f"{alias}: bootstrap servers", "localhost:9092")
        security = f"{side}-security"
        protocol = SecurityProtocol(self._choice(security, f"{alias}: security", _PROTOCOLS))
        cluster = ClusterAnswers(alias, servers, protocol)
        truststore = ""
        if protocol.has_tls:
            question = f"{alias}: truststore (empty: certificates that the system trusts)"
            truststore = self._text(f"{side}-truststore", question, "")
        if not cluster.uses_sasl:
            return ClusterAnswers(alias, servers, protocol, truststore=truststore)
        mechanism = self._choice(f"{side}-mechanism", f"{alias}: SASL mechanism", _MECHANISMS)
        user = self._text(f"{side}-user", f"{alias}: user name", "")
        return ClusterAnswers(
            alias,
            servers,
            protocol,
            SaslMechanism(mechanism),
            user,
            self._password(cluster),
            truststore,
        )

    def _password(self, cluster: ClusterAnswers) -> Secret | None:
        if not self._is_interactive or cluster.variable in os.environ:
            return None
        typed = typer.prompt(
            f"{cluster.alias}: password (empty: from the environment variable {cluster.variable})",
            default="",
            hide_input=True,
            show_default=False,
        )
        return Secret(typed) if typed else None

    def _text(self, option: str, question: str, default: str) -> str:
        given = self._options[option]
        if given is not None:
            return given.strip()
        if not self._is_interactive:
            return default
        answer: str = typer.prompt(question, default=default, show_default=bool(default))
        return answer.strip()

    def _choice(self, option: str, question: str, choices: tuple[str, ...]) -> str:
        while True:
            answer = self._text(option, f"{question} ({', '.join(choices)})", choices[0]).upper()
            if answer in choices:
                return answer
            sentence = f"--{option} {answer} is not valid: use {', '.join(choices)}."
            if self._options[option] is not None:
                raise typer.BadParameter(sentence)
            print_error(f"{answer} is not one of them.")


def _require_absent(path: Path) -> None:
    if path.exists() or path.is_symlink():
        raise ConfigError(
            f"{path} exists already. Name another file, or overwrite it with --force."
        )


def _write_private(path: Path, text: str) -> None:
    """Replace the file at once; only its owner can read it."""
    descriptor, temporary = tempfile.mkstemp(dir=path.absolute().parent, prefix=f".{path.name}.")
    try:
        with os.fdopen(descriptor, "w", encoding="utf-8") as output:
            output.write(text)
        Path(temporary).replace(path)
    except BaseException:
        with suppress(FileNotFoundError):
            Path(temporary).unlink()
        raise


def _check(file: Path) -> bool:
    """Connect to both clusters and print what is wrong. Returns whether nothing is."""
    console = Console()
    typer.echo("Connecting to both clusters ...", err=True)
    report = check_mirror_config(MirrorConfig.load(file), [], connect=True)
    for line in problem_lines(report):
        console.print(line, markup=False, highlight=False, soft_wrap=True)
    return report.ok


def _print_next(file: Path, *, is_checked: bool) -> None:
    typer.echo("Next:")
    if not is_checked:
        typer.echo(f"  sparkmirror check {file} --connect   # again, until it finds no error")
    typer.echo(f"  sparkmirror plan {file}              # what a run would create and copy")
    typer.echo(f"  sparkmirror run {file}               # replicate until Ctrl-C")
