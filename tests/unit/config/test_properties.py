# SPDX-License-Identifier: Apache-2.0
"""Java's properties syntax with line numbers, and a sentence for every unreadable file."""

from __future__ import annotations

from pathlib import Path

import javaproperties
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sparkmirror.config.files.properties import Property, parse_properties, read_properties
from sparkmirror.config.mirror_config import MirrorConfig
from sparkmirror.config.worker_config import WorkerConfig
from sparkmirror.errors import ConfigError

TEXT = st.text(st.characters(codec="utf-8", exclude_characters="\x00"), max_size=20)


def texts(source: str) -> dict[str, str]:
    """The keys and values of a file's text."""
    return {key: entry.text for key, entry in parse_properties(source, "x").entries.items()}


@given(st.dictionaries(TEXT.filter(bool), TEXT))
def test_what_java_would_write_is_read_back(values: dict[str, str]) -> None:
    """Escapes of any kind survive."""
    assert values == texts(javaproperties.dumps(values, timestamp=False))


@pytest.mark.parametrize(
    ("line", "key", "value"),
    [
        ("a=b", "a", "b"),
        ("a : b", "a", "b"),
        ("a b", "a", "b"),
        ("  a = b ", "a", "b "),
        ("a->b.enabled=true", "a->b.enabled", "true"),
        (r"a\=b=c", "a=b", "c"),
        (r"a=x\.y", "a", "x.y"),
        (r"a=x\\.y", "a", r"x\.y"),
        ("a=b # no comment", "a", "b # no comment"),
        ("a", "a", ""),
        (r"a=\u0041", "a", "A"),
        ("a=b\\\n    c", "a", "bc"),
    ],
)
def test_a_line_is_read_as_java_reads_it(line: str, key: str, value: str) -> None:
    """Separators, escapes, continuation; blanks behind a value stay."""
    assert texts(line) == {key: value}


def test_entries_know_the_line_they_begin_on() -> None:
    """Comments, blank lines and continuations count, in any line ending."""
    for newline in ("\n", "\r\n", "\r"):
        source = newline.join(["# one", "", "a=1\\", "  2", "! five", "b=3", "", "c=4"])
        found = [(e.key, e.line) for e in parse_properties(source, "x").entries.values()]
        assert found == [("a", 3), ("b", 6), ("c", 8)]


def test_the_last_of_repeated_keys_counts() -> None:
    """The others are remembered."""
    file = parse_properties("a=1\nb=2\na=3\na=4\n", "x")
    assert file.entries["a"] == Property("a", "4", 4)
    assert file.repeated == (Property("a", "1", 1), Property("a", "3", 3))


def test_a_malformed_escape_names_its_line(tmp_path: Path) -> None:
    """A Windows path is the usual culprit."""
    path = tmp_path / "mm2.properties"
    path.write_text("a=1\n\nb=C:\\users\\x\n")
    with pytest.raises(ConfigError) as error:
        read_properties(path)
    assert error.value.where == "line 3"
    assert f"{path} line 3" in str(error.value)


def test_a_malformed_escape_shows_nothing_of_the_line(tmp_path: Path) -> None:
    """It may be in a password."""
    path = tmp_path / "mm2.properties"
    path.write_text("a.ssl.key.password=\\uq7x9\n")
    with pytest.raises(ConfigError) as error:
        read_properties(path)
    assert "q7x9" not in str(error.value)


@pytest.mark.parametrize(
    ("key", "secret"),
    [
        ("a.security.protocol=SASL_SSL", "a.sasl.jaas.config = x.PlainLoginModule required hush;"),
        ("clusters = a, b", "a.ssl.keystore.password=hush"),
        ("topics = x", "  b.ssl.keystore.key: hush"),
        ("client.id=me", "my.own.secret=hush"),
    ],
)
def test_a_secret_that_became_part_of_another_value_is_refused(key: str, secret: str) -> None:
    """A stray backslash: whoever complains about the value, or lists it, would show it."""
    text = f"first=1\n{key}\\\n{secret}\n"
    for read in (MirrorConfig.parse, WorkerConfig.parse):
        with pytest.raises(ConfigError, match="line 2: it ends in a backslash") as error:
            read(text)
        assert "hush" not in str(error.value)
        assert error.value.where == "line 2"


def test_other_texts_of_several_lines_are_not_changed() -> None:
    """A secret of its own, options of a JVM, and files whose keys nobody knows."""
    jaas = 'a.sasl.jaas.config=x.Module required \\\n username="u" \\\n password="p";\n'
    options = "spark.driver.extraJavaOptions=-Da=b \\\n  -Djavax.net.ssl.trustStorePassword=p\n"
    topics = "a->b.topics=one,\\\n  two\n"
    hosts = "a.bootstrap.servers=k1:9092,\\\n k2.passwords.token:9092,\\\n my.secret:9092\n"
    store = "a.ssl.truststore.certificates=MII\\\n  MIIToken==\n"
    for text in (jaas, options, topics, hosts, store):
        MirrorConfig.parse(f"clusters=a,b\n{text}")
    assert texts("login=x required \\\n password=p;\n") == {"login": "x required password=p;"}


def test_utf8_and_latin1_are_both_read(tmp_path: Path) -> None:
    """UTF-8 first, with or without a mark; else Latin-1 as in Java."""
    path = tmp_path / "mm2.properties"
    for data in ("a=é".encode(), "a=é".encode("utf-8-sig"), "a=é".encode("latin-1")):
        path.write_bytes(data)
        assert read_properties(path).entries["a"].text == "é"


@pytest.mark.parametrize("data", [b"a=1\nb=\x00", "a=1".encode("utf-16")])
def test_a_file_that_is_no_text_is_refused(tmp_path: Path, data: bytes) -> None:
    """Binary files and UTF-16 get a sentence."""
    path = tmp_path / "mm2.properties"
    path.write_bytes(data)
    with pytest.raises(ConfigError, match="not a text file"):
        read_properties(path)


def test_a_file_that_is_not_there_is_named(tmp_path: Path) -> None:
    """A missing file and a directory are different sentences."""
    with pytest.raises(ConfigError, match=r"There is no file .*nowhere\.properties"):
        read_properties(tmp_path / "nowhere.properties")
    with pytest.raises(ConfigError, match="is a directory"):
        read_properties(tmp_path)


def test_a_file_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    """A loop of links stands for all that an operating system refuses, whoever runs the test."""
    loop = tmp_path / "loop.properties"
    loop.symlink_to(loop)
    with pytest.raises(ConfigError, match=r"loop\.properties cannot be read"):
        read_properties(loop)


def test_what_never_ends_is_no_properties_file() -> None:
    """A device named by mistake is not read for ever."""
    with pytest.raises(ConfigError, match=r"larger than 16\.8 MB"):
        read_properties(Path("/dev/zero"))


def test_half_a_character_names_its_line() -> None:
    """It could be read, but never be printed or sent."""
    with pytest.raises(ConfigError, match=r"x line 2: .*half of a surrogate pair"):
        parse_properties("a=\\ud83d\\ude00\nb=\\ud83d\n", "x")
