# SPDX-License-Identifier: Apache-2.0
"""Bodies become what Connect's JSON library makes of them, or are refused with 500."""

from __future__ import annotations

import pytest

from sparkmirror.connect.api import ApiError
from sparkmirror.connect.offset_alterations import OffsetEntry
from sparkmirror.rest.request_bodies import (
    parse_create_request,
    parse_offset_entries,
    parse_string_map,
    parse_string_maps,
)


def test_scalars_become_the_texts_that_were_written() -> None:
    """Numbers keep their digits, truth values are lower case, null stays nothing."""
    body = b'{"a": 1, "b": 1.50, "c": 1e5, "d": true, "e": false, "f": null, "g": " x ", "h": -0}'
    expected = {
        "a": "1", "b": "1.50", "c": "1e5", "d": "true", "e": "false", "f": None, "g": " x ",
        "h": "-0",
    }  # fmt: skip
    assert expected == parse_string_map(body)


def test_a_number_of_any_length_is_only_a_text() -> None:
    """Nothing is computed with it."""
    digits = "9" * 10_000
    assert {"a": digits} == parse_string_map(f'{{"a": {digits}}}'.encode())


def test_the_last_of_two_keys_counts() -> None:
    """As Java's maps have it."""
    assert parse_string_map(b'{"a": 1, "a": 2}') == {"a": "2"}


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16", "utf-32"])
def test_every_unicode_encoding_is_understood(encoding: str) -> None:
    """With and without a mark of its byte order."""
    assert parse_string_map('{"ü": "\N{GRINNING FACE}"}'.encode(encoding)) == {
        "ü": "\N{GRINNING FACE}"
    }


@pytest.mark.parametrize(
    "body",
    [
        b"", b"{", b"null", b"[]", b'"text"', b"1", b'{"a": {}}', b'{"a": []}', b'{"a": NaN}',
        b'{"a": Infinity}', b'{"a": "\\ud800"}', b'{"\\udfff": 1}', b'{"a": "\xff"}',
        b"[" * 100_000, b'{"a":' * 100_000, b"{'a': 1}", b'{"a": 1,}',
    ],
)  # fmt: skip
def test_what_is_no_flat_object_is_an_error_of_the_server(body: bytes) -> None:
    """Connect's status for it is 500; the sentence is short."""
    with pytest.raises(ApiError) as refused:
        parse_string_map(body)
    assert refused.value.status == 500
    assert len(refused.value.message) < 200


def test_a_request_for_a_connector_is_trimmed_and_its_state_put_in_capitals() -> None:
    """The name without blanks around it, a number as a text."""
    asked = parse_create_request(
        b'{"name": " beat ", "config": {"tasks.max": 1}, "initial_state": "paused"}'
    )
    assert (
        asked.name,
        asked.config,
        asked.initial_state,
    ) == ("beat", {"tasks.max": "1"}, "PAUSED")


@pytest.mark.parametrize(
    "body",
    [
        b"{}", b'{"name": "x"}', b'{"name": "x", "config": null}', b'{"name": [], "config": {}}',
        b'{"name": "x", "config": {}, "colour": "red"}',
        b'{"name": "x", "config": {}, "initial_state": "DREAMING"}',
        b'{"name": "x", "config": {}, "initial_state": {}}',
    ],
)  # fmt: skip
def test_a_request_of_another_shape_is_refused(body: bytes) -> None:
    """Unknown properties as well: a misspelt one would do nothing."""
    with pytest.raises(ApiError) as refused:
        parse_create_request(body)
    assert refused.value.status == 500


def test_a_secret_is_not_repeated_in_a_refusal() -> None:
    """Nor in the text of a request for logs."""
    body = b'{"name": "x", "config": {"a.password": "secret"}, "initial_state": "RUNNING"}'
    assert "secret" not in repr(parse_create_request(body))


def test_numbers_in_offsets_are_numbers() -> None:
    """A whole one stays whole, however large."""
    body = b'{"offsets": [{"partition": {"p": 0, "t": "x"}, "offset": {"o": 41, "f": 1.5}}]}'
    assert [OffsetEntry({"p": 0, "t": "x"}, {"o": 41, "f": 1.5})] == parse_offset_entries(body)
    huge = b'{"offsets": [{"partition": {"p": 99999999999999999999}}]}'
    assert [OffsetEntry({"p": 99_999_999_999_999_999_999}, None)] == parse_offset_entries(huge)


@pytest.mark.parametrize("body", [b"{}", b'{"offsets": null}', b'{"offsets": []}'])
def test_no_offsets_are_an_empty_list(body: bytes) -> None:
    """Which is refused with 400 by whoever asked for them."""
    assert parse_offset_entries(body) == []


@pytest.mark.parametrize(
    "body",
    [
        b"[]", b'{"offsets": {}}', b'{"offsets": [null]}', b'{"offsets": [1]}',
        b'{"offsets": [{"partition": "x"}]}', b'{"offsets": [{"more": 1}]}', b'{"more": 1}',
        b'{"offsets": [{"offset": {"offset": ' + b"9" * 5_000 + b"}}]}",
        b'{"offsets": [{"offset": {"offset": 1e999}}]}',
    ],
)  # fmt: skip
def test_offsets_of_another_shape_are_refused(body: bytes) -> None:
    """With 500, as every shape that is wrong."""
    with pytest.raises(ApiError) as refused:
        parse_offset_entries(body)
    assert refused.value.status == 500


def test_configurations_of_tasks_are_a_list_of_flat_objects() -> None:
    """What one worker sends another."""
    assert parse_string_maps(b'[{"a": 1}, {}]') == [{"a": "1"}, {}]
    with pytest.raises(ApiError):
        parse_string_maps(b"{}")
