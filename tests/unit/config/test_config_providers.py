# SPDX-License-Identifier: Apache-2.0
"""References to files, directories and the environment."""

from __future__ import annotations

from pathlib import Path

import pytest

from sparkmirror.config.files.config_providers import ReferenceResolver, create_resolver
from sparkmirror.config.files.layering import with_prefix
from sparkmirror.config.files.properties import parse_properties

CLASS = "org.apache.kafka.common.config.provider."


@pytest.fixture
def secrets(tmp_path: Path) -> Path:
    """A properties file with two secrets."""
    path = tmp_path / "secrets.properties"
    path.write_text("user=ann\npass:word=p:w\n")
    return path


def resolver(*lines: str) -> ReferenceResolver:
    """The resolver of a file with these lines; none of them may be wrong."""
    made, errors = create_resolver(parse_properties("\n".join(lines), "x").entries)
    assert errors == []
    return made


def test_providers_work_without_a_line(
    tmp_path: Path, secrets: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """File, directory and environment are there under their own names."""
    monkeypatch.setenv("BROKERS", "x:9092")
    (tmp_path / "token").write_text("t0\n")
    resolve = resolver().resolve
    assert resolve(f"${{file:{secrets}:user}}").text == "ann"
    assert resolve("${env:BROKERS}").text == "x:9092"
    assert resolve("${env::BROKERS}").text == "x:9092"
    assert resolve(f"${{directory:{tmp_path}:token}}").text == "t0\n"


def test_several_references_in_one_text(secrets: Path) -> None:
    """The text around them stays; keys may hold colons."""
    text = f'user="${{file:{secrets}:user}}" password="x${{file:{secrets}:user}}";'
    resolved = resolver().resolve(text)
    assert resolved.text == 'user="ann" password="xann";'
    assert resolved.from_provider
    secrets.write_text("a\\:b=colon\n")
    assert resolver().resolve(f"${{file:{secrets}:a:b}}").text == "colon"


def test_a_text_without_references_is_untouched() -> None:
    """Dollars and braces alone mean nothing."""
    resolved = resolver().resolve("a{2}$ {x}")
    assert resolved.text == "a{2}$ {x}"
    assert not resolved.from_provider


@pytest.mark.parametrize(
    ("reference", "part"),
    [
        ("${env:SURELY_NOT_SET}", "SURELY_NOT_SET is not set"),
        ("${env:path:NAME}", "no path"),
        ("${file:/no/such/file:key}", "There is no file"),
        ("${file::key}", "names no file"),
        ("${directory:/no/such/dir:key}", "not a directory"),
        ("${directory::key}", "names no directory"),
        ("${vault:secret:key}", "no config provider 'vault'"),
        ("${NAME}", "${env:NAME}"),
    ],
)
def test_a_reference_that_leads_nowhere_is_named(reference: str, part: str) -> None:
    """Unlike in MM2 nothing but a secret is left standing as text."""
    with pytest.raises(LookupError) as error:
        resolver().resolve(f"before {reference} after")
    assert reference in str(error.value)
    assert part in str(error.value)


@pytest.mark.parametrize("text", ["pre${hush}post", "${hush:x}", "${a${hush:b:c}", "${}", "${:}"])
def test_a_secret_may_look_like_a_reference(text: str) -> None:
    """As in Java it stays what it is, if no provider has the name."""
    resolved = resolver().resolve(text, is_secret=True)
    assert (resolved.text, resolved.provided_parts, resolved.is_literal) == (text, (), True)
    with pytest.raises(LookupError, match="names no file"):
        resolver().resolve("${file:hush}", is_secret=True)


def test_over_rest_only_declared_providers_count(monkeypatch: pytest.MonkeyPatch) -> None:
    """The operator says what a stranger may have looked up; the sentence says how."""
    monkeypatch.setenv("GOOD_ONE", "1")
    limit = "config.providers.env.param.allowlist.pattern=GOOD_.*"
    assert resolver(limit).resolve("${env:GOOD_ONE}", from_request=True).text == "1"
    assert (
        resolver("config.providers=env")
        .resolve("${env:GOOD_ONE}", from_request=True)
        .provided_parts
    )
    for is_secret in (False, True):
        with pytest.raises(LookupError) as error:
            resolver().resolve("${env:GOOD_ONE}", is_secret=is_secret, from_request=True)
        for line in ("config.providers=env", f"class={CLASS}EnvVar", "env.param.allowlist.pattern"):
            assert line in str(error.value)
    with pytest.raises(LookupError, match="none is declared"):
        resolver().resolve("${vault:x}", from_request=True)


def test_nothing_found_is_in_a_repr(secrets: Path) -> None:
    """A text may be a secret, wherever it stands."""
    entries = parse_properties(f"a=${{file:{secrets}:user}}\nb=ann", "x").entries
    made = resolver().resolve(entries["a"].text)
    assert made.text == "ann"
    assert "ann" not in repr((made, entries, with_prefix(entries, "")))


def test_a_text_of_colons_takes_no_time() -> None:
    """Whoever may send a configuration must not stop the server with it."""
    for text in ("${" + ":" * 200_000, "${" * 200_000, "${:" * 100_000 + "}"):
        assert resolver().resolve(text, is_secret=True).text == text


def test_a_missing_key_is_named(tmp_path: Path, secrets: Path) -> None:
    """The file is there, the key is not; a directory's files may not lie elsewhere."""
    with pytest.raises(LookupError, match="has no key 'nobody'"):
        resolver().resolve(f"${{file:{secrets}:nobody}}")
    with pytest.raises(LookupError, match="has no file"):
        resolver().resolve(f"${{directory:{tmp_path}:nobody}}")
    (tmp_path / "sub").mkdir()
    with pytest.raises(LookupError, match="has no file"):
        resolver().resolve(f"${{directory:{tmp_path / 'sub'}:../secrets.properties}}")


def test_declared_providers_have_any_name(secrets: Path) -> None:
    """As in MM2 the class says what a name does."""
    lines = ("config.providers=vault, e", f"config.providers.vault.class={CLASS}FileConfigProvider")
    made = resolver(*lines, f"config.providers.e.class={CLASS}EnvVarConfigProvider")
    assert made.resolve(f"${{vault:{secrets}:user}}").text == "ann"


def test_a_declared_provider_obeys_its_limits(
    tmp_path: Path, secrets: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """allowed.paths and allowlist.pattern win over our defaults of the same name."""
    allowed = tmp_path / "allowed"
    allowed.mkdir()
    (allowed / "in.properties").write_text("k=v")
    (allowed / "link.properties").symlink_to(secrets)
    monkeypatch.setenv("GOOD_ONE", "1")
    monkeypatch.setenv("OTHER", "2")
    made = resolver(
        "config.providers=file,directory,env",
        f"config.providers.file.class={CLASS}FileConfigProvider",
        f"config.providers.file.param.allowed.paths={allowed}",
        f"config.providers.directory.param.allowed.paths={allowed}",
        "config.providers.env.param.allowlist.pattern=GOOD_.*",
    )
    assert made.resolve(f"${{file:{allowed}/in.properties:k}}").text == "v"
    assert made.resolve("${env:GOOD_ONE}").text == "1"
    for reference in (
        f"${{file:{secrets}:user}}",
        f"${{file:{allowed}/link.properties:user}}",
        f"${{file:{allowed}/../secrets.properties:user}}",
        f"${{directory:{tmp_path}:secrets.properties}}",
    ):
        with pytest.raises(LookupError, match=r"allowed\.paths"):
            made.resolve(reference)
    with pytest.raises(LookupError, match=r"allowlist\.pattern"):
        made.resolve("${env:OTHER}")


def test_a_limit_counts_although_the_name_is_not_listed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever writes a limit means it."""
    monkeypatch.setenv("OTHER", "2")
    made = resolver("config.providers.env.param.allowlist.pattern=GOOD_.*")
    with pytest.raises(LookupError, match=r"allowlist\.pattern"):
        made.resolve("${env:OTHER}")


@pytest.mark.parametrize(
    ("lines", "key"),
    [
        (["config.providers=v", "config.providers.v.class=com.x.V"], "config.providers.v.class"),
        (["config.providers=v"], "config.providers"),
        (["config.providers=a,,b"], "config.providers"),
        (
            ["config.providers=file", "config.providers.file.param.allowed.paths=relative"],
            "config.providers.file.param.allowed.paths",
        ),
        (
            ["config.providers=env", "config.providers.env.param.allowlist.pattern=["],
            "config.providers.env.param.allowlist.pattern",
        ),
    ],
)
def test_a_wrong_declaration_is_an_error_of_its_line(lines: list[str], key: str) -> None:
    """Classes that do not exist here and unusable parameters."""
    _, errors = create_resolver(parse_properties("\n".join(lines), "x").entries)
    assert key in [error.key for error in errors]
    assert all(error.where for error in errors)


@pytest.mark.parametrize(
    "reference",
    [
        "${file:/a\x00b:k}",
        "${file:/dev/zero:k}",
        "${file:/dev/stdin:k}",
        f"${{directory:/dev:{'x' * 300}}}",
        "${directory:/dev:zero}",
        "${directory:/d\x00:x}",
        "${directory:/dev:\ud800}",
        "${env:\ud800}",
    ],
)
def test_a_name_that_nothing_can_have_leads_nowhere(reference: str) -> None:
    """Nor does what never ends, or waits for somebody to type."""
    with pytest.raises(LookupError, match="cannot be resolved"):
        ReferenceResolver({}).resolve(reference)
