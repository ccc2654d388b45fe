# SPDX-License-Identifier: Apache-2.0
"""JAAS login files are read as Java reads them, and never repeated in a message."""

from __future__ import annotations

import contextlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sparkmirror.security.jaas import jaas_file_in_opts, krb5_conf_in_opts, parse_jaas_file

FILE = """\
// who may use the REST API
KafkaConnect {
    org.apache.kafka.connect.rest.basic.auth.extension.PropertyFileLoginModule required
    file="/etc/kafka/users };.properties"; /* a comment
    of two lines */
};
KafkaClient{a.B required x="1" y="2";c.D optional;};
"""


def test_sections_and_entries_are_found() -> None:
    """Braces and semicolons in quotes are text, comments are nothing."""
    found = parse_jaas_file(FILE)
    assert list(found) == ["KafkaConnect", "KafkaClient"]
    (entry,) = found["KafkaConnect"]
    assert entry.module.endswith(".PropertyFileLoginModule")
    assert entry.options == {"file": "/etc/kafka/users };.properties"}
    first, second = found["KafkaClient"]
    assert (first.module, first.options) == ("a.B", {"x": "1", "y": "2"})
    assert (second.module, second.flag, second.options) == ("c.D", "optional", {})


def test_an_empty_file_has_no_sections() -> None:
    """Comments are as good as nothing."""
    assert parse_jaas_file("") == parse_jaas_file("// nothing\n/* more */") == {}


@pytest.mark.parametrize(
    "text",
    [
        "KafkaConnect",
        "KafkaConnect {",
        "KafkaConnect { a.B required; }",
        "KafkaConnect { a.B required; } KafkaClient { a.B required; };",
        "KafkaConnect { a.B required };",
        "KafkaConnect { a.B required x; };",
        "{ a.B required; };",
        "KafkaConnect { a.B required; };;",
        'a.B required password="hunter2";',
        'KafkaConnect { a.B sometimes password="hunter2"; };',
        'KafkaConnect { a.B required password="hunter2; };',
    ],
)
def test_invalid_jaas_text_is_reported_without_its_content(text: str) -> None:
    """They may be passwords."""
    with pytest.raises(ValueError, match=r"\w") as refused:
        parse_jaas_file(text)
    assert "hunter2" not in str(refused.value)


@given(st.text() | st.text(alphabet='aB.{};="/*\\ \n', max_size=60))
def test_any_text_is_read_or_refused(text: str) -> None:
    """Nothing but ValueError comes out."""
    for one in (text, f"KafkaConnect {{ {text} }};"):
        with contextlib.suppress(ValueError):
            assert isinstance(parse_jaas_file(one), dict)


@pytest.mark.parametrize(
    ("options", "file"),
    [
        ("", None),
        ("-Xmx1g -Dother=1", None),
        ("-Xmx1g -Djava.security.auth.login.config=/etc/jaas.conf -Dx=y", "/etc/jaas.conf"),
        ("-Djava.security.auth.login.config==/etc/jaas.conf", "/etc/jaas.conf"),
        ("-Djava.security.auth.login.config=file:/etc/jaas.conf", "/etc/jaas.conf"),
        ("'-Djava.security.auth.login.config=/a b/jaas.conf'", "/a b/jaas.conf"),
        ("-Djava.security.auth.login.config=/old -Djava.security.auth.login.config=/new", "/new"),
        ("-Djava.security.auth.login.config=/it's", "/it's"),
    ],
)
def test_kafka_opts_name_the_file(options: str, file: str | None) -> None:
    """As a JVM would take it: the last one counts."""
    assert jaas_file_in_opts(options) == file


def test_kafka_opts_name_the_file_of_kerberos() -> None:
    """The last one counts."""
    option = "-Djava.security.krb5.conf="
    assert krb5_conf_in_opts(f"-Xmx1g {option}/old {option}/etc/krb5.conf") == "/etc/krb5.conf"
    assert krb5_conf_in_opts("-Djava.security.auth.login.config=/x") is None
