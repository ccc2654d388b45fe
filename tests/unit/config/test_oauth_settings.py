# SPDX-License-Identifier: Apache-2.0
"""Every way to get a token that Kafka and Strimzi know, in every spelling."""

from __future__ import annotations

from pathlib import Path

import pytest
from cryptography.hazmat.primitives.asymmetric import rsa
from cryptography.hazmat.primitives.serialization import (
    BestAvailableEncryption,
    Encoding,
    PrivateFormat,
)

from sparkmirror.config.files.notices import NoticeLevel
from sparkmirror.config.files.tracked_files import record_file_reads
from sparkmirror.config.mirror_config import MirrorConfig
from sparkmirror.model import Flow, Secret
from sparkmirror.security.settings import OAuthSettings, SecurityKeyNames

FLOW = Flow("a", "b")
MODULE = "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule"
RETRIEVERS = "org.apache.kafka.common.security.oauthbearer"
URL = "https://login.example.com/token"
HUSH = "hush-hush-hush"
JWT_ASSERTION = "urn:ietf:params:oauth:client-assertion-type:jwt-bearer"
ASKED = {"token.endpoint.uri": URL, "client.id": "me"}


def config(*lines: str) -> MirrorConfig:
    """An ordinary file whose source takes tokens, with these further lines about it."""
    return MirrorConfig.parse(
        "\n".join(
            (
                "clusters=a,b",
                "a.bootstrap.servers=a1:9092",
                "b.bootstrap.servers=b1:9092",
                "a->b.enabled=true",
                "a.security.protocol=SASL_SSL",
                "a.sasl.mechanism=OAUTHBEARER",
                *(f"a.{line}" for line in lines),
            )
        )
    )


def read(*lines: str) -> tuple[OAuthSettings, SecurityKeyNames]:
    """Where tokens come from, and the keys that a failed login names."""
    security = config(*lines).flow_settings(FLOW).consumer.security
    assert security.sasl is not None
    assert security.sasl.oauth is not None
    return security.sasl.oauth, security.keys


def wrong(*lines: str) -> str:
    """The one sentence about what is wrong."""
    (found,) = (str(one) for one in config(*lines).all_notices() if one.level is NoticeLevel.ERROR)
    assert HUSH not in found
    return found


def strimzi(place: str, **options: str) -> tuple[str, ...]:
    """Strimzi's names, as options of the JAAS line or as keys."""
    named = {f"oauth.{name}": text for name, text in options.items()}
    if place == "keys":
        return tuple(f"{name}={text}" for name, text in named.items())
    line = " ".join(f'{name}="{text}"' for name, text in named.items())
    return (f"sasl.jaas.config={MODULE} required {line};",)


@pytest.fixture
def file(tmp_path: Path) -> Path:
    """A file with a word, as people write them: with a line end."""
    path = tmp_path / "a token"
    path.write_text(f"{HUSH}\n")
    return path


PLACES = pytest.mark.parametrize("place", ["options", "keys"])


@PLACES
def test_a_token_that_is_given_needs_nothing_else(place: str, file: Path) -> None:
    """As it is, or in a file, which wins; a failed login names the key."""
    fixed, names = read(*strimzi(place, **{"access.token": HUSH}))
    assert (fixed.static_token, fixed.endpoint) == (Secret(HUSH), "")
    assert names.login == ("a.sasl.jaas.config" if place == "options" else "a.oauth.access.token")
    both = {"access.token": "other", "access.token.location": str(file)}
    found, names = read(*strimzi(place, **both, **ASKED))
    assert (found.static_token, found.endpoint) == (Secret(HUSH), str(file))
    location = "a.oauth.access.token.location"
    assert names.endpoint == ("a.sasl.jaas.config" if place == "options" else location)


@pytest.mark.parametrize("retriever", ["", "DefaultJwtRetriever", "FileJwtRetriever"])
def test_kafkas_endpoint_may_be_a_file(retriever: str, file: Path) -> None:
    """Its content is the token; the file is watched like any other."""
    chosen = f"sasl.oauthbearer.jwt.retriever.class={RETRIEVERS}.{retriever}"
    with record_file_reads() as files:
        found, names = read(
            f"sasl.oauthbearer.token.endpoint.url={file.as_uri()}",
            f"sasl.jaas.config={MODULE} required ;",
            *((chosen,) if retriever else ()),
        )
    assert (found.static_token, found.endpoint) == (Secret(HUSH), file.as_uri())
    assert names.endpoint == "a.sasl.oauthbearer.token.endpoint.url"
    assert file in files


@PLACES
@pytest.mark.parametrize("is_file", [False, True], ids=["fixed", "file"])
def test_a_refresh_token_asks_for_tokens(place: str, file: Path, *, is_file: bool) -> None:
    """With the client's id in the request; a secret is optional, and goes into the header."""
    given = {"refresh.token.location": str(file)} if is_file else {"refresh.token": HUSH}
    found, _ = read(*strimzi(place, **ASKED, **given))
    assert found.form_fields == {"grant_type": "refresh_token", "client_id": "me"}
    assert found.secret_form_fields == {"refresh_token": Secret(HUSH)}
    assert (found.endpoint, found.client_secret) == (URL, None)
    with_secret, _ = read(*strimzi(place, **ASKED, **given, **{"client.secret": "s"}))
    assert with_secret.client_secret == Secret("s")


@PLACES
def test_a_user_asks_for_tokens(place: str) -> None:
    """A client without a secret has an empty one, as with Strimzi."""
    user = {"password.grant.username": "ann", "password.grant.password": HUSH}
    found, _ = read(*strimzi(place, **ASKED, **user))
    assert found.form_fields == {"grant_type": "password", "username": "ann"}
    assert found.secret_form_fields == {"password": Secret(HUSH)}
    assert (found.client_id, found.client_secret) == ("me", Secret(""))
    assert "oauth.password.grant.password is missing" in wrong(
        *strimzi(place, **ASKED, **{"password.grant.username": "ann"})
    )


@PLACES
@pytest.mark.parametrize("is_file", [False, True], ids=["fixed", "file"])
def test_strimzis_assertion_stands_for_a_secret(place: str, file: Path, *, is_file: bool) -> None:
    """Without a header; its kind can be chosen. A secret beside it wins."""
    given = {"client.assertion.location": str(file)} if is_file else {"client.assertion": HUSH}
    found, _ = read(*strimzi(place, **ASKED, **given))
    assert found.form_fields == {
        "grant_type": "client_credentials",
        "client_assertion_type": JWT_ASSERTION,
        "client_id": "me",
    }
    assert found.secret_form_fields == {"client_assertion": Secret(HUSH)}
    assert found.client_secret is None
    other, _ = read(*strimzi(place, **ASKED, **given, **{"client.assertion.type": "saml"}))
    assert other.form_fields["client_assertion_type"] == "saml"
    secret, _ = read(*strimzi(place, **ASKED, **given, **{"client.secret": "s"}))
    assert (secret.client_secret, secret.secret_form_fields) == (Secret("s"), {})


def test_kafkas_assertion_is_a_clients_or_a_grant_of_its_own(file: Path) -> None:
    """By the class that gets tokens; it wins against a secret."""
    common = (
        f"sasl.oauthbearer.token.endpoint.url={URL}",
        f"sasl.oauthbearer.assertion.file={file}",
        "sasl.oauthbearer.client.credentials.client.secret=s",
    )
    found, _ = read(*common)
    assert found.form_fields == {
        "grant_type": "client_credentials",
        "client_assertion_type": JWT_ASSERTION,
    }
    assert found.secret_form_fields == {"client_assertion": Secret(HUSH)}
    bearer = f"sasl.oauthbearer.jwt.retriever.class={RETRIEVERS}.JwtBearerJwtRetriever"
    granted, _ = read(*common, bearer)
    assert granted.form_fields == {"grant_type": "urn:ietf:params:oauth:grant-type:jwt-bearer"}
    assert granted.secret_form_fields == {"assertion": Secret(HUSH)}
    assert found.client_secret is granted.client_secret is None


def test_an_assertion_is_signed_by_kafkas_keys(tmp_path: Path) -> None:
    """With client credentials if it says who signs, with the other class always."""
    key, template = tmp_path / "key.pem", tmp_path / "template.json"
    key.write_bytes(
        rsa.generate_private_key(public_exponent=65_537, key_size=2048).private_bytes(
            Encoding.PEM, PrivateFormat.PKCS8, BestAvailableEncryption(HUSH.encode())
        )
    )
    template.write_text('{"header": {"kid": "k"}, "payload": {"sub": "template"}}')
    prefix = "sasl.oauthbearer.assertion"
    lines = (
        f"sasl.oauthbearer.token.endpoint.url={URL}",
        f"{prefix}.private.key.file={key}",
        f"{prefix}.private.key.passphrase={HUSH}",
        f"{prefix}.template.file={template}",
        f"{prefix}.claim.iss=me",
        f"{prefix}.claim.sub=key",
        f"{prefix}.claim.exp.seconds=10",
    )
    with record_file_reads() as files:
        found, _ = read(*lines)
    assert {key, template} <= files.keys()
    signs = found.assertion
    assert signs is not None
    assert (signs.form_field, signs.algorithm, signs.header) == (
        "client_assertion",
        "RS256",
        {"kid": "k"},
    )
    assert signs.claims == {"iss": "me", "sub": "template"}
    assert (signs.lifetime_seconds, signs.not_before_skew_seconds, signs.includes_jti) == (
        10,
        60,
        False,
    )
    assert "PRIVATE" not in repr(found)
    bearer = f"sasl.oauthbearer.jwt.retriever.class={RETRIEVERS}.JwtBearerJwtRetriever"
    granted, _ = read(*lines, bearer)
    assert granted.assertion is not None
    assert granted.assertion.form_field == "assertion"
    template.write_text("[]")
    assert "must be a JSON object with header and payload" in wrong(*lines)
    key.write_text("")
    assert f"private.key.file ({key}) cannot be used: " in wrong(*lines)
    assert "private.key.file is missing" in wrong(lines[0], bearer)


@PLACES
def test_numbers_and_the_grant_of_strimzis_names_count(place: str) -> None:
    """In both places; a negative longest time is none, as with Strimzi."""
    more = {
        "client.secret": HUSH,
        "client.credentials.grant.type": "custom",
        "max.token.expiry.seconds": "90",
        "connect.timeout.seconds": "3",
        "read.timeout.seconds": "4",
    }
    found, _ = read(*strimzi(place, **ASKED, **more))
    assert found.form_fields == {"grant_type": "custom"}
    assert found.max_token_seconds == 90
    assert (found.connect_timeout_seconds, found.read_timeout_seconds) == (3, 4)
    none, _ = read(*strimzi(place, **ASKED, **more | {"max.token.expiry.seconds": "-1"}))
    assert none.max_token_seconds is None


@pytest.mark.parametrize(
    ("lines", "part"),
    [
        pytest.param(
            ("sasl.oauthbearer.token.endpoint.url=file:///no/where",),
            "token.endpoint.url names file:///no/where, which cannot be read (No such file",
            id="missing",
        ),
        pytest.param(
            ("sasl.oauthbearer.token.endpoint.url=file://host/x",),
            "must be a URL such as https://host/path",
            id="elsewhere",
        ),
        pytest.param(
            (
                f"sasl.oauthbearer.token.endpoint.url={URL}",
                f"sasl.oauthbearer.jwt.retriever.class={RETRIEVERS}.FileJwtRetriever",
            ),
            "token.endpoint.url must be file:///path, because a.sasl.oauthbearer.jwt.retriever",
            id="no file",
        ),
        pytest.param(
            ("sasl.oauthbearer.jwt.retriever.class=com.acme.Mine",),
            "names com.acme.Mine, a Java class that cannot run here",
            id="a class of others",
        ),
        pytest.param(
            strimzi("options", **{"access.token.location": "/dev/zero"}),
            "its option oauth.access.token.location names /dev/zero, which cannot be read (it is",
            id="a device",
        ),
        pytest.param(
            strimzi("options", **{"refresh.token": HUSH, "token.endpoint.uri": URL}),
            "must have the options clientId",
            id="nobody",
        ),
        pytest.param((), "endpoint.url is missing: set it to the URL", id="nothing"),
    ],
)
def test_what_is_wrong_is_one_error_message(lines: tuple[str, ...], part: str) -> None:
    """It names the key."""
    assert part in wrong(*lines)


@pytest.mark.parametrize(
    "content",
    [b"", b"two words\n", b"a\nb\n", b"\xff\xfe", b"a" * (2 << 20)],
    ids=["empty", "words", "lines", "bytes", "large"],
)
def test_a_file_without_a_token_is_not_used(content: bytes, tmp_path: Path) -> None:
    """What is in it is not repeated."""
    path = tmp_path / "token"
    path.write_bytes(content)
    sentence = wrong(f"oauth.access.token.location={path}")
    assert sentence.startswith(f"line 7: a.oauth.access.token.location names {path}, which ")


@pytest.mark.parametrize("name", ["access.token", "refresh.token", "client.assertion"])
def test_secrets_are_hidden(name: str) -> None:
    """In `check`, and in the settings themselves."""
    lines = strimzi("keys", **ASKED, **{name: HUSH})
    assert HUSH not in repr(read(*lines))
    shown = config(*lines).parsed_flow(FLOW).report.effective
    assert [str(one.text) for one in shown if one.key == f"oauth.{name}"] != [HUSH]
    assert HUSH not in repr(shown)
