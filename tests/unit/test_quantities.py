# SPDX-License-Identifier: Apache-2.0
"""Counts, sizes, rates, durations and times as text."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

from sparkmirror.quantities import (
    and_more,
    counted,
    format_byte_rate,
    format_bytes,
    format_duration,
    format_latency,
    format_record_rate,
    format_time,
    shorten_middle,
)

PACKAGE = Path(__file__).parents[2] / "src" / "sparkmirror"
NOUNS = (
    "ACLs|actions|attempts|batches|brokers|chunks|clusters|configs|connectors|cores|entries|epochs|"
    "errors|executors|files|flows|groups|incidents|keys|letters|offsets|orders|partitions|positions|"
    "records|splits|tasks|times|topics|transactions|warnings|workers"
)


@pytest.mark.parametrize(
    ("number", "noun", "text"),
    [
        (0, "record", "0 records"),
        (1, "record", "1 record"),
        (2050, "record", "2,050 records"),
        (1, "entry", "1 entry"),
        (3, "entry", "3 entries"),
        (2, "record batch", "2 record batches"),
        (2, "topic partition", "2 topic partitions"),
        (2, "day", "2 days"),
        (2, "ACL", "2 ACLs"),
    ],
)
def test_a_noun_agrees_with_its_number(number: int, noun: str, text: str) -> None:
    assert counted(number, noun) == text


def test_a_shortened_list_says_how_much_is_missing() -> None:
    """A complete list says nothing."""
    assert (and_more(0), and_more(2), and_more(1, "topic")) == (
        "",
        " and 2 more",
        " and 1 more topic",
    )


@pytest.mark.parametrize(
    ("size", "text"),
    [
        (0, "0 B"),
        (999, "999 B"),
        (1000, "1 KB"),
        (1234, "1.2 KB"),
        (999_960, "1 MB"),
        (50e6, "50 MB"),
        (1.25e9, "1.2 GB"),
        (3e15, "3 PB"),
        (5e18, "5000 PB"),
    ],
)
def test_sizes_are_short(size: float, text: str) -> None:
    """Never 1000 of a unit if there is a larger unit."""
    assert format_bytes(size) == text
    assert format_byte_rate(size) == f"{text}/s"


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0.2, "less than 1 s"),
        (25, "25 s"),
        (59.7, "1 min"),
        (135, "2 min 15 s"),
        (3600, "1 h"),
        (5400, "1 h 30 min"),
        (200_000, "2 d 7 h"),
    ],
)
def test_durations_have_two_units_at_most(seconds: float, text: str) -> None:
    assert format_duration(seconds) == text


@pytest.mark.parametrize(
    ("milliseconds", "text"),
    [(None, "-"), (2.14, "2.1 ms"), (64.2, "64 ms"), (3400.0, "3.4 s"), (125_000, "2 min 5 s")],
)
def test_a_latency_is_shown_in_the_unit_that_fits(milliseconds: float | None, text: str) -> None:
    assert format_latency(milliseconds) == text


def test_rates_name_what_they_count() -> None:
    assert format_record_rate(1500.4) == "1,500 records/s"


def test_times_have_a_zone() -> None:
    """Also those that no calendar has are printed."""
    assert format_time(0) == "1970-01-01T00:00:00+00:00"
    assert format_time(None) == "-"
    assert format_time(10**18) == "1000000000000000000"


@pytest.mark.parametrize(
    ("width", "text"), [(20, "payments.eu.west"), (11, "paym...west"), (5, "p...t"), (2, "pa")]
)
def test_names_keep_both_ends(width: int, text: str) -> None:
    assert shorten_middle("payments.eu.west", width) == text


def counts_without_agreement(source: str) -> list[str]:
    """F-strings with a value, then a plural noun: `{n} records` is wrong for one record."""
    found = []
    plural = re.compile(rf"^ (?:[a-z]+ )?(?:{NOUNS})\b")
    for node in ast.walk(ast.parse(source)):
        if not isinstance(node, ast.JoinedStr):
            continue
        for value, text in zip(node.values, node.values[1:], strict=False):
            if (
                isinstance(value, ast.FormattedValue)
                and isinstance(text, ast.Constant)
                and plural.match(str(text.value))
                and not re.fullmatch(r"_?[A-Z_.]+", ast.unparse(value.value))  # a constant
            ):
                found.append(f"{{{ast.unparse(value.value)}}}{text.value}")
    return found


# The value is no number, or there are always several.
NO_COUNT = (
    "{source.source.name} are connectors",
    "{len(granted)} granted ACLs",
    "{len(self._requested)} flows need",
    "{len(found)} keys; the maximum",
    "{count} private keys is used",
    "{len(keys)} private keys is used",
    "{self.last_offset_delta + 1} offsets",
    "{self._name} accepts records",
    "{format_count(records_per_second)} records/s",
)


@pytest.mark.parametrize(
    "module", sorted(PACKAGE.rglob("*.py")), ids=lambda path: str(path.relative_to(PACKAGE))
)
def test_every_count_agrees_with_its_noun(module: Path) -> None:
    """Numbers before plural nouns come from `counted`; `partition(s)` is not written."""
    text = module.read_text()
    assert re.search(r"\w\((s|es|ies)\) ", text) is None
    found = [one for one in counts_without_agreement(text) if not one.startswith(NO_COUNT)]
    assert found == []


def test_a_count_without_agreement_is_found() -> None:
    assert counts_without_agreement('f"{n} records"') == ["{n} records"]
    assert counts_without_agreement("f\"{counted(n, 'record')} wait\"") == []


def test_no_other_module_formats_sizes_and_dates() -> None:
    """Steps of 1,024 are Spark's only (`spark.executor.memory`); dates are ISO 8601."""
    own = re.compile(r"strftime|ctime\(|>> [123]0\} [KMG]i?B|/ (?:1024|1e[369])[^0-9].*[KMG]i?B")
    found = [
        f"{module.relative_to(PACKAGE)}: {line.strip()}"
        for module in sorted(PACKAGE.rglob("*.py"))
        for line in module.read_text().splitlines()
        if own.search(line)
    ]
    assert found == []
