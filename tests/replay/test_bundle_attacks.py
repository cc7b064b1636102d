"""Tests of hostile bundles: the work to read one is proportional to its size, and it ends with a reason."""

import io
import re
import struct
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any

import pytest

from receiver.errors import NoBundle
from receiver.replay.bundles.format import MAX_DAMAGED, Damage, packed, read_bundle
from tests.doubles import delivery
from tests.replay.test_bundles import MAX_BODY, bundled, changed, keys, opened, read, some


class TooMuchWork(Exception):
    """A test counted more work than it allows."""


@contextmanager
def limited_calls(most: int) -> Iterator[None]:
    """Raise TooMuchWork when the block makes more calls than this."""
    calls = 0

    def count(_frame: FrameType, event: str, _arg: object) -> None:
        nonlocal calls
        calls += event in ("call", "c_call")
        if calls > most:
            sys.setprofile(None)
            raise TooMuchWork

    sys.setprofile(count)
    try:
        yield
    finally:
        sys.setprofile(None)


def nested_members(count: int) -> bytes:
    """Return the starts of nested members: each is in the stored block of the one before, and all end at damage."""
    start = bytes([0x1F, 0x8B, 8, 0, 0, 0, 0, 0, 0, 3])
    data = b"\xff" * 100
    for number in range(count):
        length = (len(start) + 5) * number
        data = start + struct.pack("<BHH", 0, length, length ^ 0xFFFF) + data
    return data


@pytest.mark.parametrize("count", [1_000, 4_000])
def test_nested_members_are_read_in_linear_work(count: int) -> None:
    """The damage at the end must not cause a new read of each of them."""
    data = packed(bundled([])) + nested_members(count)

    with limited_calls(20 * count):
        found, damages = read(data)

    assert found == []
    assert "the compressed data is damaged here, so lines may be missing" in [one.reason for one in damages]


class CountedReads(io.BytesIO):
    """A file that counts the bytes that are read."""

    count = 0

    def read(self, size: int | None = -1, /) -> bytes:
        """Read and count."""
        data = super().read(size)
        self.count += len(data)
        return data


EMPTY_LINES = packed(b"\n" * 2**24)


def test_a_file_that_unpacks_to_empty_lines_is_not_read_completely() -> None:
    """A few megabytes would become gigabytes.

    The last damage has the line at which the reading ended, and the reason.
    """
    file = CountedReads(packed(bundled([])) + EMPTY_LINES * 256)

    with limited_calls(100_000):
        (damage,) = read_bundle(file, max_body=MAX_BODY).entries

    assert isinstance(damage, Damage)
    assert re.fullmatch(r"[\d,]+ bytes hold no event, so the rest of the file is not read", damage.reason)
    assert damage.line > 2**26
    assert file.count < 2**20


def test_a_file_that_starts_with_many_empty_lines_is_not_a_bundle() -> None:
    """It is not read completely either."""
    with limited_calls(100_000), pytest.raises(NoBundle, match="bytes hold no event"):
        opened(EMPTY_LINES * 256)


def test_empty_lines_between_events_are_allowed_and_counted() -> None:
    """They change the numbers of later lines."""
    header, *rest = bundled(some(2)).splitlines(keepends=True)

    found, damages = read(header + b"\n \r\n\n" + rest[0] + b"\n" * 200_000 + rest[1])

    assert damages == []
    assert [one.line for one in found] == [5, 200_006]


def test_reading_ends_after_too_many_damaged_lines() -> None:
    """Each of them costs time and a message, and a packed file can contain millions."""
    lines_of_one_letter = packed(b"x\n" * 2**20)

    found, damages = read(packed(bundled([])) + lines_of_one_letter * 8)

    assert found == []
    assert len(damages) == MAX_DAMAGED + 2
    assert damages[-1].reason == "more than 10,000 places are damaged, so the rest of the file is not read"


def test_reading_ends_after_too_many_lines_above_the_count_in_the_header() -> None:
    """A packed file can repeat one event millions of times."""
    header, line = bundled(some(1)).splitlines(keepends=True)

    found, damages = read(packed(header) + packed(line * 1_000) * 20)

    assert len(found) == MAX_DAMAGED + 2
    assert [one.reason for one in damages] == [
        "more than 10,000 lines are not in the header's count, so the rest of the file is not read"
    ]


def test_events_with_a_high_compression_ratio_are_read() -> None:
    """Redacted bundles contain such events. Only data without events is limited."""
    entries = [(delivery(f"k{number}", body=b'["' + b"x" * 1_000_000 + b'"]'), 0) for number in range(100)]

    found, damages = read(bundled(entries, pack=True))

    assert (len(found), damages) == (100, [])


def test_an_endless_first_line_is_refused_early() -> None:
    """It is refused when it passes the limit, not at its end."""
    file = CountedReads(b"{" * 10_000_000)

    with pytest.raises(NoBundle, match="longer than 3,145,728 bytes"):
        read_bundle(file, max_body=MAX_BODY)

    assert file.count < 3_500_000


@pytest.mark.parametrize(
    ("fields", "reason"),
    [
        ({"made_at": "0001-01-01T00:00:00+05:00"}, "made_at: it has to be between the years 1970 and 8999"),
        ({"made_at": "9999-12-31T23:59:59-05:00"}, "made_at: it has to be between the years 1970 and 8999"),
        ({"count": 2**63}, "count: it has to be less than 9223372036854775808"),
    ],
)
def test_an_impossible_header_is_refused(fields: dict[str, Any], reason: str) -> None:
    """Its values could not be shown or counted."""
    with pytest.raises(NoBundle, match=re.escape(reason)):
        read(changed(0, **fields))


@pytest.mark.parametrize(
    "more", [b"[" * 100_000, b"9" * 100_000, b"[" * 100_000 + b"]" * 100_000], ids=["open", "digits", "nested"]
)
def test_json_that_no_parser_accepts_is_a_damaged_line(more: bytes) -> None:
    """Examples are deep nesting and very long numbers."""
    header, *rest = bundled(some(3)).splitlines(keepends=True)
    rest[1] = rest[1].replace(b"{", b'{"more":' + more + b",", 1)

    found, damages = read(header + b"".join(rest))

    assert keys(found) == ["k0", "k2"]
    assert damages == [Damage(3, "not JSON")]


def test_many_wrong_headers_cause_one_error() -> None:
    """The parser stops at the first one."""
    with limited_calls(10_000):
        found, damages = read(changed(2, headers=[[0, 0]] * 100_000))

    assert keys(found) == ["k0", "k2"]
    assert damages == [Damage(3, "headers.0.0: write a text")]


@pytest.mark.parametrize("end", [b"", b"\n"])
def test_buffered_data_at_the_end_of_a_packed_file_is_read(end: bytes) -> None:
    """A small member unpacks to much more than one piece, and no more data follows."""
    one = (delivery("k0", body=b'["' + b"x" * 900_000 + b'"]'), 0)

    found, damages = read(packed(bundled([one]).rstrip(b"\n") + end))

    assert (keys(found), damages) == (["k0"], [])
