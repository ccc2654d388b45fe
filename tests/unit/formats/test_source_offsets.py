# SPDX-License-Identifier: Apache-2.0
"""Keys and values of the offsets topic: exact when written, tolerant when read."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sparkmirror.errors import WireError
from sparkmirror.formats.source_offsets import SourceOffsetKey, StoredPosition
from sparkmirror.model import TopicPartition

names = st.text(st.characters(exclude_categories=("Cs", "Cc")), max_size=80)
source_partitions = st.builds(
    SourceOffsetKey, names, names, st.builds(TopicPartition, names, st.integers(0, 2**31 - 1))
)


@given(source_partitions)
def test_a_key_comes_back(partition: SourceOffsetKey) -> None:
    """Decoding undoes encoding, for any connector, alias and topic."""
    assert SourceOffsetKey.from_key(partition.key()) == partition


@given(st.builds(StoredPosition, st.integers(-1, 2**63 - 1), st.none() | st.integers(0, 2**63 - 1)))
def test_a_value_comes_back(offset: StoredPosition) -> None:
    """Decoding undoes encoding, with and without a downstream offset."""
    assert StoredPosition.from_value(offset.value()) == offset


def test_other_alphabets_are_written_as_they_are() -> None:
    """Java does not escape non-ASCII characters, and keys are compared as bytes."""
    key = SourceOffsetKey("Spiegel-ü", "köln", TopicPartition("t", 0)).key()
    assert key == '["Spiegel-ü",{"cluster":"köln","partition":0,"topic":"t"}]'.encode()


@pytest.mark.parametrize(
    "key",
    [
        b'["c",{"partition":0,"cluster":"a","topic":"t"}]',
        b'["c", {"cluster":"a","partition":0,"topic":"t"}]',
        b'["c",{"cluster":"a","partition":0,"topic":"t","more":1}]',
        b'["c",{"cluster":"a","partition":0.0,"topic":"t"}]',
        b'["c",{"cluster":"a","partition":true,"topic":"t"}]',
        b'["MirrorHeartbeatConnector",{"sourceClusterAlias":"a","targetClusterAlias":"b"}]',
        b'["MirrorCheckpointConnector",{"partition":0,"topic":"a.t","group":"g"}]',
        b'["c",{"cluster":"a","partition":0,"topic":"t"},1]',
        b'["c",{"cluster":"a","partition":2147483648,"topic":"t"}]',
        b'["c",{"cluster":"a","partition":-1,"topic":"t"}]',
        b'["c",{"cluster":"a","partition":0,"topic":"\\uD800"}]',
        b'{"cluster":"a"}',
        b"[1,2]",
        b"no json",
        b"\xff",
        b"",
    ],
)
def test_a_key_that_java_would_not_find_is_not_ours(key: bytes) -> None:
    """Keys are compared as bytes, so another order or spelling is another key."""
    assert SourceOffsetKey.from_key(key) is None


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (b'{"offset":41}', StoredPosition(41)),
        (b'{"offset":41,"downstream":777}', StoredPosition(41, 777)),
        (b'{"downstream":777,"offset":41}', StoredPosition(41, 777)),
        (b'{ "offset": 41, "someday": {"a": [1]} }', StoredPosition(41)),
        (b'{"offset":41,"downstream":null}', StoredPosition(41)),
        (b'{"offset":41,"downstream":"soon"}', StoredPosition(41)),
    ],
)
def test_a_value_with_other_fields_is_understood(value: bytes, expected: StoredPosition) -> None:
    """Only the offset is required."""
    assert StoredPosition.from_value(value) == expected


@pytest.mark.parametrize(
    "value", [b"{}", b'{"offset":"41"}', b'{"offset":4.5}', b'{"offset":true}', b"41", b"nonsense"]
)
def test_a_value_without_an_offset_is_an_error(value: bytes) -> None:
    """An undecodable position is not treated as missing, which would copy everything again."""
    with pytest.raises(WireError, match="A stored offset"):
        StoredPosition.from_value(value)
