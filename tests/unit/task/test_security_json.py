# SPDX-License-Identifier: Apache-2.0
"""Security reaches a task as it was, over the control channel and in no other way."""

from __future__ import annotations

import json
import logging
import pickle
from dataclasses import fields, replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sparkmirror.model import Secret
from sparkmirror.security.settings import (
    AssertionSettings,
    AwsSettings,
    KerberosSettings,
    OAuthSettings,
    SaslMechanism,
    SaslSettings,
    SecurityKeyNames,
    SecurityProtocol,
    SecuritySettings,
    TlsSettings,
)
from sparkmirror.task.messages import (
    TaskSettings,
    task_settings_from_json,
    task_settings_to_json,
)
from sparkmirror.task.security_json import security_from_json, security_to_json
from sparkmirror.wire.settings import ConnectionSettings, FetchSettings, ProduceSettings

SECRETS = st.builds(Secret, st.text(max_size=20))
TEXTS = st.text(max_size=10)
WORDS = st.dictionaries(TEXTS, TEXTS, max_size=3)
TLS = st.builds(
    TlsSettings,
    trusted=st.none() | TEXTS,
    chain=TEXTS,
    key=st.none() | SECRETS,
    verifies_hostname=st.booleans(),
    protocols=st.lists(TEXTS, max_size=2).map(tuple),
    ciphers=st.lists(TEXTS, max_size=2).map(tuple),
)
ASSERTIONS = st.builds(
    AssertionSettings,
    form_field=TEXTS,
    key=SECRETS,
    algorithm=TEXTS,
    header=WORDS,
    claims=st.dictionaries(TEXTS, TEXTS | st.integers() | st.lists(TEXTS, max_size=2), max_size=3),
    lifetime_seconds=st.integers(0, 100),
    not_before_skew_seconds=st.integers(0, 100),
    includes_jti=st.booleans(),
)
OAUTH = st.builds(
    OAuthSettings,
    endpoint=TEXTS,
    client_id=TEXTS,
    client_secret=st.none() | SECRETS,
    form_fields=WORDS,
    secret_form_fields=st.dictionaries(TEXTS, SECRETS, max_size=3),
    assertion=st.none() | ASSERTIONS,
    static_token=st.none() | SECRETS,
    max_token_seconds=st.none() | st.floats(0, 100),
    scope=TEXTS,
    audience=TEXTS,
    extensions=WORDS,
    urlencodes_header=st.booleans(),
    tls=TLS,
    connect_timeout_seconds=st.floats(0, 100),
    read_timeout_seconds=st.floats(0, 100),
    refresh_window_factor=st.floats(0, 1),
    refresh_min_seconds=st.floats(0, 100),
    refresh_buffer_seconds=st.floats(0, 100),
)
KERBEROS = st.builds(
    KerberosSettings,
    service=TEXTS,
    principal=TEXTS,
    keytab=st.none() | SECRETS,
    uses_ticket_cache=st.booleans(),
    ticket_cache=TEXTS,
)
AWS = st.builds(
    AwsSettings,
    profile=st.none() | TEXTS,
    role=st.none() | TEXTS,
    session_name=st.none() | TEXTS,
    external_id=st.none() | TEXTS,
    sts_region=st.none() | TEXTS,
    access_key=st.none() | TEXTS,
    secret_key=st.none() | SECRETS,
    session_token=st.none() | SECRETS,
)
SASL = st.builds(
    SaslSettings,
    mechanism=st.sampled_from(SaslMechanism),
    username=TEXTS,
    password=st.none() | SECRETS,
    oauth=st.none() | OAUTH,
    kerberos=st.none() | KERBEROS,
    aws=st.none() | AWS,
    is_token=st.booleans(),
)
SECURITY = st.builds(
    SecuritySettings,
    protocol=st.sampled_from(SecurityProtocol),
    tls=st.none() | TLS,
    sasl=st.none() | SASL,
    keys=st.builds(SecurityKeyNames, login=TEXTS),
)
HUSH = "hush-hush-hush"
SECURED = SecuritySettings(
    SecurityProtocol.SASL_SSL,
    TlsSettings(chain="c", key=Secret(HUSH)),
    SaslSettings(
        SaslMechanism.PLAIN,
        "me",
        Secret(HUSH),
        oauth=OAuthSettings(
            "https://h",
            "me",
            Secret(HUSH),
            secret_form_fields={"x": Secret(HUSH)},
            assertion=AssertionSettings("x", Secret(HUSH)),
            static_token=Secret(HUSH),
        ),
        kerberos=KerberosSettings(keytab=Secret(HUSH)),
        aws=AwsSettings(secret_key=Secret(HUSH), session_token=Secret(HUSH)),
    ),
)


def task_settings(security: SecuritySettings) -> TaskSettings:
    """What a task gets, with this security for the source."""
    connection = ConnectionSettings("a", ("h:1",), "x")
    return TaskSettings(
        flow="a->b",
        connector="m",
        source_alias="a",
        consumer=replace(connection, security=security),
        producer=connection,
        fetch=FetchSettings(),
        produce=ProduceSettings(),
        offsets_topic="o",
        offsets_partitions=1,
        flush_seconds=1.0,
        buffer_bytes=1,
        epoch_seconds=1.0,
        lease_seconds=1.0,
    )


@given(SECURITY)
def test_what_is_written_is_read(security: SecuritySettings) -> None:
    """Every field, names of keys included, through real JSON."""
    read = security_from_json(json.loads(json.dumps(security_to_json(security))))
    assert read == security
    assert read.keys == security.keys


def test_no_field_is_forgotten_when_one_is_added() -> None:
    """The strategies above name all of them."""
    assert {one.name for one in fields(OAuthSettings)} == set(
        security_to_json(SECURED)["sasl"]["oauth"]
    )
    assert {one.name for one in fields(AssertionSettings)} == set(
        security_to_json(SECURED)["sasl"]["oauth"]["assertion"]
    )
    assert {one.name for one in fields(KerberosSettings)} == set(
        security_to_json(SECURED)["sasl"]["kerberos"]
    )
    assert {one.name for one in fields(AwsSettings)} == set(
        security_to_json(SECURED)["sasl"]["aws"]
    )
    assert {one.name for one in fields(TlsSettings)} == set(security_to_json(SECURED)["tls"])


def test_a_task_has_the_security_of_its_clients() -> None:
    """Of the consumer here; the producer has none."""
    settings = task_settings(SECURED)
    read = task_settings_from_json(json.loads(json.dumps(task_settings_to_json(settings))))
    assert read == settings
    assert read.consumer.security.sasl is not None
    assert read.consumer.security.sasl.password == Secret(HUSH)


def test_settings_are_neither_pickled_nor_printed() -> None:
    """So no Spark closure can hold them, and no log tells them."""
    settings = task_settings(SECURED)
    with pytest.raises(TypeError, match="never pickled"):
        pickle.dumps(settings)
    record = logging.LogRecord("x", logging.INFO, "x", 1, "%s %r", (settings, settings), None)
    assert "[hidden]" in record.getMessage()
    assert HUSH not in record.getMessage()
