# SPDX-License-Identifier: Apache-2.0
"""Files, request bodies and answers over HTTP: whatever they hold, a sentence and no secret."""

from __future__ import annotations

import base64
import json
import ssl
from pathlib import Path
from typing import Any

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from starlette.datastructures import MutableHeaders

from sparkmirror.config.connector_config import read_connector
from sparkmirror.config.connector_validation import validate_connector
from sparkmirror.config.files.config_providers import ReferenceResolver
from sparkmirror.config.files.notices import Notice
from sparkmirror.config.files.properties import parse_properties, read_properties
from sparkmirror.config.keys.connector_classes import ConnectorClass
from sparkmirror.config.keys.secret_keys import is_secret
from sparkmirror.config.mirror_config import MirrorConfig
from sparkmirror.config.security.oauth_settings import parse_template
from sparkmirror.config.worker_config import WorkerConfig
from sparkmirror.connect.api import ApiError
from sparkmirror.connect.offset_alterations import offset_records
from sparkmirror.errors import ArgumentError, AuthenticationError, ConfigError, PlanError
from sparkmirror.kafka.acls import AclBinding, Operation, PatternType, Permission, ResourceType
from sparkmirror.model import Flow, Secret
from sparkmirror.policy.java_regex import compile_java
from sparkmirror.rest import request_bodies
from sparkmirror.rest.basic_auth import parse_authorization
from sparkmirror.rest.response_headers import parse_header_rules
from sparkmirror.rest_client import responses
from sparkmirror.rest_client.connector_files import load_connector_files
from sparkmirror.rest_client.http_client import HttpResponse
from sparkmirror.security.certificates import parse_certificate
from sparkmirror.security.jaas import jaas_file_in_opts, parse_jaas, parse_jaas_file
from sparkmirror.security.jwt_assertions import ES256, load_signing_key
from sparkmirror.security.keystores import read_keystore, read_truststore
from sparkmirror.security.keytab import read_principals
from sparkmirror.security.sasl import create_sasl_client
from sparkmirror.security.settings import OAuthSettings, SaslMechanism, SaslSettings, TlsSettings
from sparkmirror.security.tokens import Token, parse_static_token, parse_token_response
from sparkmirror.topology import plan_file
from sparkmirror.topology.acls import GrantAcl
from sparkmirror.topology.flow_plan import FlowPlan, MoveGroup
from sparkmirror.topology.forecast import Forecast, TopicForecast
from sparkmirror.topology.topics import CreateTopic
from support.data.encrypted_keys import as_pem, with_pbkdf2, with_scrypt
from support.data.keytabs import keytab
from support.fuzzing import HUSH, Parser, attempt, damaged, fuzzed

TESTS = Path(__file__).parent.parent
NOW = 1_700_000_000.0
OK = 200

# --- configuration

MIRROR = rf"""
clusters = source, target
source.bootstrap.servers = one:9092,two:9092
target.bootstrap.servers = [::1]:9092
source->target.enabled = true
source->target.topics = orders.*, pay\\.ments
tasks.max = 4
sync.topic.acls.interval.seconds = 600
offset-syncs.topic.location = target
source.security.protocol = SASL_SSL
source.sasl.mechanism = SCRAM-SHA-512
source.sasl.jaas.config = org.apache.kafka.common.security.scram.ScramLoginModule required \
    username="me" password="{HUSH}";
target.security.protocol = SSL
target.ssl.truststore.type = PEM
target.ssl.truststore.location = /no/such/trust.pem
target.ssl.keystore.password = {HUSH}
target.ssl.key.password = ${{file:/no/such/file:key}}
config.providers = env, directory
config.providers.env.class = org.apache.kafka.common.config.provider.EnvVarConfigProvider
config.providers.env.param.allowlist.pattern = PATH.*
config.providers.directory.param.allowed.paths = /tmp
profile = event-hubs
gr\u00f6\u00dfe = ${{env:PATH}} ${{directory:/no:where}}
""".encode()
WORKER = f"""
bootstrap.servers=localhost:9092
group.id=workers
key.converter=org.apache.kafka.connect.json.JsonConverter
value.converter=org.apache.kafka.connect.json.JsonConverter
config.storage.topic=c
offset.storage.topic=o
status.storage.topic=s
listeners=http://127.0.0.1:0,http://[::1]:8083
rest.advertised.port=8083
inter.worker.key.ttl.ms=3600000
sasl.jaas.config=org.apache.kafka.common.security.plain.PlainLoginModule required \\
    username="me" password="{HUSH}";
security.protocol=SASL_PLAINTEXT
sasl.mechanism=PLAIN
response.http.headers.config=add X-A: "b", set C:d
""".encode()
CONNECTOR: dict[str, Any] = {
    "name": "m",
    "connector.class": "org.apache.kafka.connect.mirror.MirrorSourceConnector",
    "source.cluster.alias": "a",
    "target.cluster.alias": "b",
    "source.cluster.bootstrap.servers": "localhost:1",
    "target.cluster.bootstrap.servers": "localhost:2",
    "source.cluster.security.protocol": "SASL_SSL",
    "source.cluster.sasl.mechanism": "PLAIN",
    "source.cluster.sasl.jaas.config": (
        "org.apache.kafka.common.security.plain.PlainLoginModule required "
        f'username="me" password="{HUSH}";'
    ),
    "source.cluster.ssl.truststore.password": HUSH,
    "tasks.max": 3,
    "topics": "a.*,${env:PATH}",
    "sync.topic.acls.enabled": False,
    "refresh.topics.interval.seconds": 1.50,
}


def told(notices: list[Notice]) -> None:
    """What a report says can be printed, and tells no secret."""
    text = "\n".join(str(one) for one in notices)
    text.encode()
    assert HUSH not in text


def is_misplaced(data: bytes) -> bool:
    """Whether damage has moved the secret to a key that is none: sentences may repeat it then."""
    text = data.decode(errors="replace")
    try:
        document = json.loads(text)
    except (ValueError, RecursionError):
        document = None
    try:
        entries = parse_properties(text, "x").entries.values() if document is None else ()
    except ConfigError:
        entries = ()
    pairs: list[tuple[str, object]] = [(one.key, one.text) for one in entries]
    if isinstance(document, dict):
        pairs += [(key, one) for key, one in document.items() if key != "config"]
        inner = document.get("config")
        pairs += inner.items() if isinstance(inner, dict) else [("", inner)]
    return any(HUSH in key or (HUSH in str(one) and not is_secret(key)) for key, one in pairs)


class Folder:
    """Bytes as a file, for parsers that take a path."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def file(self, data: bytes) -> Path:
        """A file that holds them."""
        path = self.path / "given.properties"
        path.write_bytes(data)
        return path

    def mirror(self, data: bytes) -> None:
        """As `check` reads a file: every remark on every flow."""
        config = MirrorConfig(read_properties(self.file(data)))
        told(config.all_notices())
        for flow in config.flows():
            told(list(config.parsed_flow(flow).report.notices))
            assert HUSH not in repr(config.parsed_flow(flow).settings)

    def worker(self, data: bytes) -> None:
        """As `sparkmirror worker` reads its file."""
        file = WorkerConfig(read_properties(self.file(data)))
        told(list(file.notices))
        assert HUSH not in repr(file.settings)

    def connector(self, data: bytes) -> None:
        """A file that is deployed, then read and validated as a worker does it."""
        path = self.file(data)
        (found,) = load_connector_files([path])
        reading = read_connector(found.config, GOOD_WORKER)
        told(list(reading.notices))
        assert HUSH not in repr(reading)
        assert HUSH not in " ".join(validate_connector(found.config, GOOD_WORKER).errors)

    def plan(self, data: bytes) -> None:
        """A plan that somebody edited."""
        plan_file.dump(plan_file.read(self.file(data))).encode()


GOOD_WORKER = WorkerConfig.parse(WORKER.decode())
DOCUMENT = plan_file.PlanDocument(
    "/etc/mm2.properties",
    "2030-01-01T00:00:00+00:00",
    50e6,
    (
        FlowPlan(
            Flow("a", "b"),
            "digest",
            "id-a",
            None,
            (
                CreateTopic("orders", "a.orders", 3, 2, {"x": "y"}),
                MoveGroup("billing", "a.orders", 0, 10, 17),
                GrantAcl(
                    AclBinding(
                        ResourceType.TOPIC,
                        "a.orders",
                        PatternType.LITERAL,
                        "User:reader",
                        "*",
                        Operation.READ,
                        Permission.ALLOW,
                    )
                ),
            ),
            ("a remark",),
            Forecast(10, 1000, (TopicForecast("orders", 10, 1000),)),
        ),
    ),
)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Folder:
    """For one file at a time."""
    return Folder(tmp_path_factory.mktemp("given"))


FILES = {
    "mirror": MIRROR,
    "worker": WORKER,
    "connector": json.dumps({"name": "m", "config": CONNECTOR}).encode(),
    "plan": plan_file.dump(DOCUMENT).encode(),
}


@pytest.mark.parametrize("kind", FILES)
def test_good_files_are_read(folder: Folder, kind: str) -> None:
    """Or damage would be done to what nobody reads anyway."""
    getattr(folder, kind)(FILES[kind])


@pytest.mark.parametrize("kind", FILES)
@given(data=st.data())
@fuzzed()
def test_a_file_is_read_or_refused(folder: Folder, kind: str, data: st.DataObject) -> None:
    """With a sentence that names it; nothing in a file is worth a stack trace."""
    seeds = [FILES[kind], json.dumps(CONNECTOR).encode()] if kind == "connector" else [FILES[kind]]
    drawn = data.draw(damaged(seeds))
    assume(not is_misplaced(drawn))
    attempt(getattr(folder, kind), drawn, (ConfigError, PlanError))


PIECES = st.lists(
    st.sampled_from(
        [
            *("/", "/dev", "..", "\x00", "\ud800", "x" * 300, "a" * 5000, "PATH", "*", "é"),
            *("${", "}", ":", "/dev/null", "/dev/stdin", "/dev/zero"),
        ]
    ),
    max_size=4,
).map("".join)
PROVIDERS = st.sampled_from(["file", "directory", "env", "other"])


@given(text=PIECES | st.builds("${{{}:{}:{}}}".format, PROVIDERS, PIECES, PIECES))
@fuzzed(4)
def test_a_reference_leads_somewhere_or_nowhere(text: str) -> None:
    """LookupError, whatever the path or the name looks like."""
    attempt(lambda _data: ReferenceResolver({}).resolve(text), b"", (LookupError,))


# --- over HTTP

HTTP = [
    Parser(
        "texts", request_bodies.parse_string_map, (ApiError,), (json.dumps(CONNECTOR).encode(),)
    ),
    Parser(
        "text lists",
        request_bodies.parse_string_maps,
        (ApiError,),
        (json.dumps([CONNECTOR]).encode(),),
    ),
    Parser(
        "create request",
        request_bodies.parse_create_request,
        (ApiError,),
        (json.dumps({"name": "m", "config": CONNECTOR, "initial_state": "PAUSED"}).encode(),),
    ),
    Parser(
        "offsets",
        request_bodies.parse_offset_entries,
        (ApiError,),
        (b'{"offsets":[{"partition":{"cluster":"a","partition":0},"offset":{"offset":1.5e3}}]}',),
    ),
    Parser(
        "offset reset",
        request_bodies.parse_offset_reset,
        (ApiError,),
        (b'{"topic":"t","partitions":[0,3],"to":"1200","dryRun":true}',),
    ),
]


PLACE = {"cluster": "a", "topic": "t", "partition": 0}


def altered(data: bytes) -> object:
    """Offsets as far as the records that would be written."""
    return offset_records(ConnectorClass.SOURCE, "m", request_bodies.parse_offset_entries(data))


def header_rules(data: bytes) -> None:
    """Rules as far as the headers of an answer."""
    headers = MutableHeaders()
    for rule in parse_header_rules(data.decode(errors="replace")):
        rule.apply_to(headers)


TEXTS = [
    Parser(
        "altered offsets",
        altered,
        (ApiError, ArgumentError),
        (json.dumps({"offsets": [{"partition": PLACE, "offset": {"offset": 41}}]}).encode(),),
    ),
    Parser(
        "header rules",
        header_rules,
        (ConfigError,),
        (b'"set Cache-Control: no-cache, no-store", add C:d, setDate Expires: 60000',),
        (b"set A:b\n, \r", b'"', b"set X: \xff", b"setDate E: 999999999999999", b"x" * 140_000),
    ),
    Parser(
        "pattern",
        lambda data: compile_java(data.decode(errors="replace")),
        (ValueError,),
        (rb"(?i)or[a-z&&[^xyz]]ders\Q.\E(?<n>\p{Alpha}+)\k<n>\x{41}{2,3}|\d*+",),
        (b"(" * 3000, b"a{99999999999}", b"[" * 3000, b"(?i)" * 3000),
    ),
]
RECORDED = json.loads((TESTS / "unit/rest_client/recorded.json").read_text())["answers"]


def recorded(path: str) -> bytes:
    """What a worker of Java's answered."""
    found = next(one["answer"] for one in RECORDED if one["path"].startswith(path))
    return json.dumps(found).encode()


def over_http(read: Any) -> Any:
    """An answer's body through the reader of its path."""
    return lambda data: read(HttpResponse(200, data).json())


ANSWERED = [
    Parser("names", over_http(responses.parse_names), (ValueError,), (b'["a","b"]',)),
    Parser(
        "listed",
        over_http(responses.parse_listed_connectors),
        (ValueError,),
        (recorded("/connectors?expand"),),
    ),
    Parser(
        "topics",
        over_http(lambda found: responses.parse_topics(found, "a")),
        (ValueError,),
        (b'{"a":{"topics":["x"]}}',),
    ),
    Parser(
        "offsets answer",
        over_http(responses.parse_offsets),
        (ValueError,),
        (b'{"offsets":[{"partition":{},"offset":{}}]}',),
    ),
    Parser(
        "plugins",
        over_http(responses.parse_plugins),
        (ValueError,),
        (recorded("/connector-plugins"),),
    ),
    Parser(
        "errors",
        over_http(responses.parse_config_problems),
        (ValueError,),
        (b'{"configs":[{"value":{"name":"a","errors":["b"]}},{"value":null}]}',),
    ),
    Parser(
        "loggers",
        over_http(responses.parse_loggers),
        (ValueError,),
        (b'{"root":{"level":"INFO","last_modified":null}}',),
    ),
]
OAUTH = OAuthSettings(
    endpoint="https://idp.example/token",
    client_id="me",
    client_secret=Secret(HUSH),
    tls=TlsSettings(),
)
CLAIMS = base64.urlsafe_b64encode(b'{"exp":1800000000,"sub":"me"}').decode().rstrip("=")
TOKEN = json.dumps({"access_token": f"a.{CLAIMS}.c", "expires_in": 300, "scope": "x"}).encode()
REFUSAL = json.dumps({"error": "no", "error_description": f"bad secret {HUSH}"}).encode()
TOKENS = [
    Parser(
        f"token answer {status}",
        lambda data, s=status: parse_token_response(
            s, data, "https://idp.example/token", OAUTH, NOW
        ),
        (AuthenticationError,),
        (TOKEN if status == OK else REFUSAL,),
    )
    for status in (OK, 401)
]
TOKENS += [
    Parser(
        "token in a file",
        lambda data: parse_static_token(data.decode(errors="replace")),
        (ValueError,),
        (f"a.{CLAIMS}.c".encode(), HUSH.encode()),
    ),
    Parser(
        "assertion's template",
        parse_template,
        (ValueError,),
        (b'{"header": {"kid": "k"}, "payload": {"sub": "me", "more": [1, null]}}',),
    ),
]

# --- material

STORES = TESTS / "unit/security/golden"
STORE, KEY = Secret("store-secret"), Secret("key-secret")


def stored(*names: str) -> tuple[bytes, ...]:
    """Stores that keytool and openssl made."""
    return tuple((STORES / name).read_bytes() for name in names)


PEM = read_truststore(*stored("trust.jks"), "JKS", STORE).encode()
STORED = [
    Parser(
        f"trust in {kind}",
        lambda data, k=kind: read_truststore(data, k, STORE if k != "PEM" else None),
        (ValueError,),
        seeds,
    )
    for kind, seeds in [
        ("JKS", stored("trust.jks")),
        ("PKCS12", stored("trust.p12", "trust-legacy.p12")),
        ("PEM", (PEM,)),
    ]
]
STORED += [
    Parser(
        "assertion's key",
        lambda data: load_signing_key(data, None, ES256),
        (ValueError,),
        (read_keystore(*stored("key.p12"), "PKCS12", STORE, None).key.reveal().encode(),),
    )
]
KEYED = [
    Parser(
        f"key in {kind}",
        lambda data, k=kind, p=password: read_keystore(data, k, STORE, p),
        (ValueError,),
        stored(name),
    )
    for kind, name, password in [("JKS", "key.jks", KEY), ("PKCS12", "key.p12", None)]
]
PAIR = read_keystore(*stored("key.jks"), "JKS", STORE, KEY)
KEYED.append(
    Parser(
        "key in PEM",
        lambda data: read_keystore(data, "PEM", None, None),
        (ValueError,),
        ((PAIR.chain + PAIR.key.reveal()).encode(),),
    )
)
BARE_KEY = base64.b64decode("".join(PAIR.key.reveal().splitlines()[1:-1]))
KEYED.append(
    Parser(
        "key with a password",
        lambda data: read_keystore((PAIR.chain + as_pem(data)).encode(), "PEM", None, KEY),
        (ValueError,),
        (
            with_pbkdf2(BARE_KEY, KEY.reveal(), 2048),
            with_scrypt(BARE_KEY, KEY.reveal(), (1 << 10, 8, 1)),
        ),
        (
            with_pbkdf2(BARE_KEY, KEY.reveal(), 1, said=2**31 - 1),
            with_scrypt(BARE_KEY, KEY.reveal(), (2, 8, 1), said=(1 << 30, 8, 1)),
            with_scrypt(BARE_KEY, KEY.reveal(), (2, 8, 1), said=(1 << 14, 1 << 20, 1)),
        ),
    )
)
CERTIFICATE = Parser(
    "certificate", parse_certificate, (ValueError,), (ssl.PEM_cert_to_DER_cert(PEM.decode()),)
)
LINES = Parser(
    "JAAS line",
    lambda data: parse_jaas(data.decode(errors="surrogateescape")),
    (ValueError,),
    (
        f'org.apache.kafka.X required username="a\\"b" password=\'{HUSH}\' n="x";'.encode(),
        f'/* c */ a.B optional // d\n k="{HUSH}" e="f\\101";'.encode(),
    ),
)


KEYTABS = Parser("keytab", read_principals, (ValueError,), (keytab("a/b@C", "d@E", hole=5),))


# --- logins

SECTIONS = f"""
KafkaClient {{ // of clients
    org.apache.kafka.common.security.plain.PlainLoginModule required
    username="me" password="{HUSH}";
}};
'Kafka Connect' {{ /* of the API */ a.B optional file="/etc/users"; a.C required; }};
""".encode()
NONCE = "0123456789abcdef"
SERVER_FIRST = f"r={NONCE}more,s=c2FsdA==,i=4096".encode()


def scram(*, is_first: bool) -> Any:
    """A broker's message to somebody who has said the name, or has also given the proof."""

    def said(data: bytes) -> object:
        login = SaslSettings(SaslMechanism.SCRAM_SHA_256, "me", Secret(HUSH))
        client: Any = create_sasl_client(login, "broker", None)
        client._nonce = NONCE.encode()
        return (
            client.evaluate_challenge(data)
            if is_first
            else (client.evaluate_challenge(SERVER_FIRST), client.evaluate_challenge(data))
        )

    return said


def bearer(data: bytes) -> object:
    """What a broker says to a token that it does not like."""
    login = SaslSettings(SaslMechanism.OAUTHBEARER, oauth=OAUTH)
    return create_sasl_client(login, "broker", Token(Secret(HUSH), NOW)).evaluate_challenge(data)


LOGINS = [
    Parser("login file", lambda data: parse_jaas_file(text_of(data)), (ValueError,), (SECTIONS,)),
    Parser(
        "options of Java",
        lambda data: jaas_file_in_opts(text_of(data)),
        (),
        (b"-Xmx1g '-Djava.security.auth.login.config=/a b' -Dx=\\",),
    ),
    Parser("SCRAM, first", scram(is_first=True), (AuthenticationError,), (SERVER_FIRST,)),
    Parser("SCRAM, last", scram(is_first=False), (AuthenticationError,), (b"v=c2FsdA==", b"e=no")),
    Parser("bearer", bearer, (AuthenticationError,), (b"", b'{"status":"invalid_token"}')),
    Parser(
        "name and password",
        lambda data: parse_authorization(text_of(data)),
        (),
        (b"Basic " + base64.b64encode(f"me:{HUSH}".encode()), b"bearer x"),
    ),
]


def text_of(data: bytes) -> str:
    """As servers read headers: any byte is a letter."""
    return data.decode("latin-1")


PARSERS = [*HTTP, *TEXTS, *ANSWERED, *TOKENS, *STORED, *KEYED, CERTIFICATE, KEYTABS, LINES, *LOGINS]
REFUSED = {"token answer 401", "SCRAM, last", "bearer"}  # whatever their seeds say


@pytest.mark.parametrize("parser", [one for one in PARSERS if one.name not in REFUSED], ids=str)
def test_good_ones_are_read(parser: Parser) -> None:
    """Or damage would be done to what nobody reads anyway."""
    for seed in parser.seeds:
        parser.parse(seed)


@pytest.mark.parametrize("parser", PARSERS, ids=str)
@given(data=st.data())
@fuzzed()
def test_only_what_is_promised(parser: Parser, data: st.DataObject) -> None:
    """A value, or one of its errors with a sentence; in little memory and time."""
    attempt(parser.parse, data.draw(damaged(parser.seeds)), parser.promised)


@pytest.mark.parametrize("parser", [one for one in PARSERS if one.found], ids=str)
def test_what_did_harm_does_no_more(parser: Parser) -> None:
    """Nested three thousand times, counted too far, or no table at all."""
    for data in parser.found:
        attempt(parser.parse, data, parser.promised)
