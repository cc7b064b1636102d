"""Tests that a bundle keeps every delivery unchanged, and that damage loses only the damaged parts."""

import base64
import errno
import gzip
import hashlib
import io
import json
import random
import re
import tracemalloc
import zlib
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime, timedelta
from importlib import resources
from typing import Any

import jsonschema
import pytest
from hypothesis import given
from hypothesis import strategies as st

from receiver.core.deliveries import Delivery
from receiver.core.types import DeliveryKey, HandlerName
from receiver.errors import NoBundle, ReceiverError
from receiver.replay.bundles.format import (
    MAX_DUPLICATES,
    VERSION,
    Bundle,
    BundleWriter,
    Damage,
    Entry,
    Header,
    longest_line,
    read_bundle,
)
from receiver.worker.upkeep.schedules import run_delivery
from tests.doubles import NOON, delivery

MAX_BODY = 2**20
RUN = "every:h.tick:2026-08-04T12:00:00Z"
ODD_BODIES = {
    "empty": b"",
    "NUL": b"\0",
    "many NULs": b"\0" * 1000,
    "invalid UTF-8": b'{"type":"\xff\xfe"}',
    "surrogate as bytes": b"\xed\xa0\x80",
    "surrogate as escape": rb'{"type":"crawl.page","a":"\ud83d"}',
    "line separators": "{\u2028\u2029\x85\x0b\x0c}".encode(),
    "CR and LF": b'{\r\n"a":1}\n\n\r',
    "BOM": b"\xef\xbb\xbf{}",
    "quotes": b'"\\"' * 100,
    "astral": "😀𝄞".encode(),
}


def bundled(entries: Iterable[tuple[Delivery, int]], *, pack: bool = False, made_at: datetime = NOON) -> bytes:
    """Return a bundle of these deliveries, each with its duplicates."""
    listed = list(entries)
    stream = io.BytesIO()
    writer = BundleWriter(stream, Header(made_at=made_at, count=len(listed)), pack=pack)
    for one, duplicates in listed:
        writer.add(one, duplicates)
    writer.finish()
    assert writer.count == len(listed)
    return stream.getvalue()


def opened(data: bytes, *, max_body: int = MAX_BODY) -> Bundle:
    """Return the bundle in these bytes."""
    return read_bundle(io.BytesIO(data), max_body=max_body)


def read(data: bytes, *, max_body: int = MAX_BODY) -> tuple[list[Entry], list[Damage]]:
    """Return the entries and the damage of a bundle."""
    found = list(opened(data, max_body=max_body).entries)
    return [one for one in found if isinstance(one, Entry)], [one for one in found if isinstance(one, Damage)]


def keys(entries: Sequence[Entry]) -> list[str]:
    """Return the keys of the entries."""
    return [one.delivery.key for one in entries]


def some(count: int, size: int = 0) -> list[tuple[Delivery, int]]:
    """Return deliveries `k0`, `k1` and so on, with bodies that hardly shrink when packed."""
    noise = [random.Random(number).randbytes(size // 2).hex() for number in range(count)]
    return [(delivery(f"k{number}", body=json.dumps([text]).encode()), 0) for number, text in enumerate(noise)]


readable = st.text(st.characters(categories=["L", "N", "P"]), min_size=1, max_size=20)
ids = st.none() | readable
plain_ids = st.from_regex(r"[0-9A-Za-z._-]{1,36}", fullmatch=True)
headers = st.lists(st.tuples(*[st.text(st.characters(max_codepoint=255), max_size=12)] * 2), max_size=4)


@st.composite
def deliveries(draw: st.DrawFn) -> Delivery:
    """Any delivery that a store can have."""
    body = draw(
        st.binary(max_size=200) | st.text(max_size=200).map(str.encode) | st.sampled_from([*ODD_BODIES.values()])
    )
    webhook_id = draw(plain_ids | st.none())
    digest = "sha256:" + hashlib.sha256(body).hexdigest()
    return Delivery(
        key=DeliveryKey(digest if webhook_id is None else webhook_id),
        type=draw(readable),
        job_id=draw(ids),
        webhook_id=draw(ids) if webhook_id is None else webhook_id,
        success=draw(st.none() | st.booleans()),
        received_at=draw(st.datetimes(datetime(1970, 1, 1), datetime(8999, 12, 31), timezones=st.just(UTC))),
        headers=tuple(draw(headers)),
        body=body,
    )


# --- round trips


@given(st.lists(st.tuples(deliveries(), st.integers(0, MAX_DUPLICATES)), max_size=5), st.booleans())
def test_every_delivery_is_read_as_it_was_written(entries: list[tuple[Delivery, int]], pack: bool) -> None:
    """Bytes, headers, times, duplicates and order are the same. A second bundle has the same bytes."""
    data = bundled(entries, pack=pack)

    found, damages = read(data)

    assert damages == []
    assert [(one.delivery, one.duplicates) for one in found] == entries
    assert [one.line for one in found] == list(range(2, len(entries) + 2))
    assert bundled([(one.delivery, one.duplicates) for one in found], pack=pack) == data


@pytest.mark.parametrize("body", ODD_BODIES.values(), ids=ODD_BODIES)
def test_any_body_is_written_in_one_line(body: bytes) -> None:
    """A line feed in the body does not end the line."""
    one = delivery("sha256:" + hashlib.sha256(body).hexdigest(), body=body)
    data = bundled([(one, 3)])

    assert data.count(b"\n") == 2
    assert len(data) < longest_line(len(body))
    assert [entry.delivery for entry in read(data)[0]] == [one]


def test_the_header_has_the_time_and_the_count() -> None:
    """The time is in UTC."""
    made_at = NOON.astimezone().replace(microsecond=7)

    header = opened(bundled(some(3), made_at=made_at)).header

    assert (header.version, header.made_at, header.count, header.redacted) == (VERSION, made_at, 3, False)


@pytest.mark.parametrize("pack", [False, True])
def test_a_large_bundle_is_read_in_pieces(pack: bool) -> None:
    """It has several megabytes, and its lines are longer than the pieces."""
    entries = [*some(40, 100_000), *some(3, 900_000)]
    data = bundled(entries, pack=pack)

    found, damages = read(data)

    assert damages == []
    assert [one.delivery for one in found] == [one for one, _ in entries]


def test_a_file_of_the_program_gzip_is_read() -> None:
    """It has a name and a time, or is joined from several files."""
    first, rest = bundled(some(3)).split(b"\n", 1)
    data = gzip.compress(first + b"\n", mtime=1) + gzip.compress(rest, mtime=2)

    assert keys(read(data)[0]) == ["k0", "k1", "k2"]
    assert read(data)[1] == []


# --- the schema


def lines(data: bytes) -> list[Any]:
    """Return the lines of a bundle as JSON values."""
    return [json.loads(line) for line in data.splitlines()]


SCHEMA = json.loads(resources.files("receiver.replay.bundles").joinpath("schema.json").read_text(encoding="utf-8"))
VALIDATOR = jsonschema.Draft202012Validator(SCHEMA)


def test_the_schema_is_valid() -> None:
    """It is valid for the draft that it names, and describes the version that is written."""
    jsonschema.Draft202012Validator.check_schema(SCHEMA)
    assert SCHEMA["$schema"] == "https://json-schema.org/draft/2020-12/schema"
    assert SCHEMA["$defs"]["header"]["properties"]["version"] == {"const": VERSION}


@given(st.lists(st.tuples(deliveries(), st.integers(0, 9)), max_size=3))
def test_written_bundles_match_the_schema(entries: list[tuple[Delivery, int]]) -> None:
    """The header and the deliveries have only fields of the schema."""
    header, *rest = [json.loads(line) for line in bundled(entries).split(b"\n")[:-1]]

    for line, kind in [(header, "header"), *((one, "delivery") for one in rest)]:
        VALIDATOR.validate(line)
        assert line.keys() <= SCHEMA["$defs"][kind]["properties"].keys()


@pytest.mark.parametrize(
    "field", ["id", "type", "job_id", "received_at", "duplicates", "headers", "sha256", "body"]
)
def test_schema_and_reader_refuse_a_missing_field(field: str) -> None:
    """Both refuse the same lines."""
    header, line = lines(bundled(some(1)))
    del line[field]

    assert not VALIDATOR.is_valid(line)
    assert read(b"\n".join([json.dumps(one).encode() for one in (header, line)]) + b"\n")[0] == []


# --- damage


def changed(number: int, **fields: Any) -> bytes:
    """Return a bundle of three deliveries with changed fields in one of its lines."""
    content = lines(bundled(some(3)))
    content[number] |= fields
    return b"".join([json.dumps(line).encode() + b"\n" for line in content])


@pytest.mark.parametrize(
    ("fields", "reason"),
    [
        ({"body": "[]"}, "its body does not have the SHA-256 of the line"),
        ({"sha256": "0" * 64}, "its body does not have the SHA-256 of the line"),
        ({"id": "another"}, "its id matches neither its body nor its webhook_id"),
        ({"id": "sha256:" + "0" * 64}, "its id matches neither its body nor its webhook_id"),
        ({"id": RUN, "webhook_id": RUN}, "its id is that of a scheduled run: each store makes its own"),
        ({"id": RUN}, "its id is that of a scheduled run: each store makes its own"),
        ({"id": "a b", "webhook_id": "a b"}, "its id matches neither its body nor its webhook_id"),
        ({"id": 5}, "id: write a text"),
        ({"type": ""}, "type, job_id or webhook_id has control characters, is empty, or is too long"),
        ({"type": "\x1b[31m"}, "type, job_id or webhook_id has control characters, is empty, or is too long"),
        ({"job_id": "x" * 201}, "type, job_id or webhook_id has control characters, is empty, or is too long"),
        ({"received_at": "2026-08-04T12:00:00"}, "received_at: it needs a time zone, such as Z"),
        ({"received_at": 5}, "received_at: it has to be a valid datetime"),
        ({"received_at": "0001-01-01T00:00:00+05:00"}, "received_at: it has to be between the years 1970 and"),
        ({"received_at": "0001-01-01T00:00:00Z"}, "received_at: it has to be between the years 1970 and 8999"),
        ({"received_at": "9999-12-31T23:59:59-05:00"}, "received_at: it has to be between the years 1970 and"),
        ({"received_at": "10000-01-01T00:00:00Z"}, "received_at: it has to be a valid datetime"),
        ({"received_at": "1" * 5_000}, "received_at: it has to be a valid datetime"),
        ({"duplicates": -1}, "duplicates: it has to be 0 or more"),
        ({"duplicates": 2**31}, "duplicates: it has to be 2147483647 or less"),
        ({"duplicates": True}, "duplicates: write a whole number"),
        ({"duplicates": 10**4_000}, "duplicates: it has to be 2147483647 or less"),
        ({"headers": [["a", "b"]] * 2**16 + [["c", "d"]]}, "headers: list 65536 or fewer"),
        ({"headers": [["a"]]}, "headers.0.1: this is missing"),
        ({"headers": [["a", "€"]]}, "headers: not Latin-1"),
        ({"headers": None}, "headers: write a list"),
        ({"body_base64": ""}, "it needs either body or body_base64"),
        ({"body": None}, "it needs either body or body_base64"),
        ({"body": None, "body_base64": "#"}, "body_base64: not base64"),
        ({"body": None, "body_base64": "é"}, "body_base64: not base64"),
        ({"job_id": "\ud83d"}, "not JSON"),
    ],
)
def test_a_changed_line_is_reported_and_the_others_are_read(fields: dict[str, Any], reason: str) -> None:
    """The report has the number and the reason, but not the contents of the line."""
    found, damages = read(changed(2, **fields))

    assert keys(found) == ["k0", "k2"]
    assert [one.line for one in damages] == [3]
    assert damages[0].reason.startswith(reason)


def test_an_exported_run_can_be_looked_at_and_is_not_read() -> None:
    """A store that had its id would leave the run of that moment out."""
    bundle = bundled([(run_delivery(HandlerName("h.tick"), NOON, NOON), 0), *some(1)])
    found, damages = read(bundle)

    VALIDATOR.validate(lines(bundle)[1])
    assert lines(bundle)[1]["id"] == RUN
    assert keys(found) == ["k0"]
    assert [one.line for one in damages] == [2]


def test_unknown_fields_are_ignored() -> None:
    """A later program may write more fields in this version."""
    assert keys(read(changed(1, more=[1]))[0]) == ["k0", "k1", "k2"]
    assert read(changed(1, more=[1]))[1] == []


@pytest.mark.parametrize("line", [b"", b"{", b"nonsense", b"[]", b"null", b"\xff", b'{"id":"k1"}', b"\0" * 100])
def test_a_line_that_is_not_a_delivery_is_skipped(line: bytes) -> None:
    """An empty line is noticed at the end, by the count."""
    header, *rest = bundled(some(3)).splitlines(keepends=True)
    found, damages = read(b"".join([header, rest[0], line + b"\n", rest[2]]))

    assert keys(found) == ["k0", "k2"]
    assert len(damages) == 1
    assert damages[0].line == (3 if line else 4)


def test_a_cut_file_is_read_up_to_its_end() -> None:
    """The missing part is reported by its line, or by the count in the header."""
    data = bundled(some(3))
    ends = [match.end() for match in re.finditer(b"\n", data)]
    for length in range(ends[0], len(data)):
        found, damages = read(data[:length])

        whole = sum(end <= length + 1 for end in ends[1:])
        assert keys(found) == ["k0", "k1", "k2"][:whole]
        cut_within = length not in ends and length + 1 not in ends
        said = ["the file ends within this line"] * cut_within
        said += ["the header counts 3 deliveries"] * (whole + cut_within < 3)
        assert len(damages) == len(said)
        for damage, words in zip(damages, said, strict=True):
            assert damage.reason.startswith(words)


def test_a_line_that_is_too_long_is_not_kept_in_memory() -> None:
    """Its body is longer than the receiver accepts. The lines after it are read."""
    header, first, last = bundled([*some(1), (delivery("k2"), 0)]).splitlines(keepends=True)
    longest = longest_line(1_000)
    exact = first[:-1] + b" " * (longest + 1 - len(first)) + b"\n"

    assert read(b"".join([header, exact, last]), max_body=1_000)[1] == []
    found, damages = read(b"".join([header, b" " + exact, last]), max_body=1_000)
    assert keys(found) == ["k2"]
    assert damages == [
        Damage(2, f"longer than {longest:,} bytes, so its body is longer than RECEIVER_MAX_BODY allows")
    ]


def test_a_wrong_count_is_reported_at_the_end() -> None:
    """The count in the header may also be too small."""
    found, damages = read(changed(0, count=2))

    assert keys(found) == ["k0", "k1", "k2"]
    assert damages == [Damage(4, "the header counts 2 deliveries, and 3 lines came")]


@given(st.data())
def test_a_changed_bundle_never_gives_a_wrong_delivery(data: st.DataObject) -> None:
    """Each delivery that is read is one that was written, or the damage is reported."""
    entries = some(5, 200)
    bundle = bytearray(bundled(entries, pack=data.draw(st.booleans())))
    for _ in range(data.draw(st.integers(1, 3))):
        at = data.draw(st.integers(0, len(bundle) - 1))
        bundle[at : at + data.draw(st.integers(0, 3))] = data.draw(st.binary(max_size=3))
    try:
        found, _ = read(bytes(bundle))
    except NoBundle:
        return

    bodies = {one.body for one, _ in entries}
    assert all(one.delivery.body in bodies for one in found)


# --- damage to what is packed


def packed_in_members() -> tuple[bytes, list[int], list[tuple[Delivery, int]]]:
    """Return a packed bundle of several members, the places where they begin, and its deliveries."""
    entries = some(60, 100_000)
    data = bundled(entries, pack=True)
    return data, [found.start() for found in re.finditer(re.escape(data[:8]), data)], entries


def test_a_cut_packed_bundle_is_read_up_to_the_cut() -> None:
    """The cut may be at any place."""
    data, starts, _ = packed_in_members()
    for length in (starts[1] - 4, starts[1] - 1, starts[2] + 1, starts[2] + 9, starts[3] + 100_000, len(data) - 1):
        found, damages = read(data[:length])

        assert keys(found) == [f"k{number}" for number in range(len(found))]
        assert "the compressed data ends too early" in [one.reason for one in damages]
    assert len(found) == 60


def test_a_packed_bundle_cut_between_members_is_reported_by_its_count() -> None:
    """No other sign shows that lines are missing."""
    data, starts, _ = packed_in_members()

    found, damages = read(data[: starts[2]])

    assert 0 < len(found) < 60
    assert [one.reason for one in damages] == [f"the header counts 60 deliveries, and {len(found)} lines came"]


@pytest.mark.parametrize("where", ["beginning", "middle", "end"])
def test_a_packed_bundle_loses_only_the_damaged_member(where: str) -> None:
    """Data before the damage and after the member is read, and the loss is reported."""
    data, starts, _ = packed_in_members()
    at = {"beginning": starts[2] + 12, "middle": (starts[2] + starts[3]) // 2, "end": starts[3] - 3}[where]
    broken = data[:at] + bytes([data[at] ^ 0xFF]) + data[at + 1 :]

    found, damages = read(broken)

    lost = [f"k{number}" for number in range(60) if f"k{number}" not in keys(found)]
    assert len(lost) <= 11
    assert keys(found)[-1] == "k59"
    assert "the compressed data is damaged here, so lines may be missing" in [one.reason for one in damages]


def test_a_packed_bundle_needs_little_memory_for_any_contents() -> None:
    """A few kilobytes that unpack to hundreds of megabytes are one line that is too long."""
    packing = zlib.compressobj(9, wbits=31)
    zeros = b"0" * 2**20
    bomb = packing.compress(bundled([]).replace(b'"count":0', b'"count":1'))
    bomb += b"".join([packing.compress(zeros) for _ in range(200)]) + packing.flush()
    tracemalloc.start()
    try:
        found, damages = read(bomb)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()

    assert found == []
    assert damages[0].reason.startswith("longer than 3,145,728 bytes")
    assert peak < 20 * 2**20


# --- files that are not bundles


@pytest.mark.parametrize(
    ("data", "words"),
    [
        (b"", "not a bundle: it is empty"),
        (b"\n \n", "not a bundle: it is empty"),
        (b"hello\n", r"not a bundle: its first line is not a header \(not JSON\)"),
        (b"{}\n", r"not a bundle: its first line is not a header \(format: this is missing\)"),
        (
            b'{"format":"tar","version":1}',
            r"its first line is not a header \(format: it has to be 'crawl-receiver",
        ),
        (b"\x1f\x8b\x08\x00broken", r"not a bundle: its first line is not a header \(the compressed data"),
        (b"x" * 5_000_000, r"not a bundle: its first line is not a header \(longer than"),
        (b"SQLite format 3\0" + b"\0" * 5000, r"not a bundle: its first line is not a header \(not JSON\)"),
    ],
)
def test_a_file_that_is_not_a_bundle_is_refused(data: bytes, words: str) -> None:
    """It may be any file."""
    with pytest.raises(NoBundle, match=words):
        opened(data)


def test_a_newer_version_is_refused() -> None:
    """The error is a sentence, and the other fields of the header make no difference."""
    for header in (
        {"format": "crawl-receiver bundle", "version": VERSION + 1},
        {"format": "crawl-receiver bundle", "version": 99, "made_at": 5, "count": "many"},
    ):
        with pytest.raises(NoBundle, match=r"a bundle of version \d+, and this program reads version 2$"):
            opened(json.dumps(header).encode() + b"\n")


def test_only_bodies_that_are_not_text_are_in_base64() -> None:
    """A body in UTF-8 is readable in the file, unless control characters make it very long."""
    entries = [
        (delivery("a", body="Zoë".encode()), 0),
        (delivery("b", body=b"\xff"), 0),
        (delivery("c", body=b"\1" * 9), 0),
    ]

    _, text, code, control = lines(bundled(entries))

    assert text["body"] == "Zoë"
    assert base64.b64decode(code["body_base64"]) == b"\xff"
    assert base64.b64decode(control["body_base64"]) == b"\1" * 9


def test_times_are_kept_to_the_microsecond() -> None:
    """They are in UTC, and may be the first and the last allowed year."""
    ends = [datetime(1970, 1, 1, tzinfo=UTC), datetime(9000, 1, 1, tzinfo=UTC) - timedelta(microseconds=1)]
    moments = [NOON + timedelta(microseconds=1), *ends]
    entries = [(delivery()._replace(received_at=moment), 0) for moment in moments]

    assert [one.delivery.received_at for one in read(bundled(entries))[0]] == moments


class FailingFile(io.BytesIO):
    """A file on a disk that fails after the first chunk."""

    def read(self, size: int | None = -1, /) -> bytes:
        if self.tell():
            raise OSError(errno.EIO, "Input/output error")
        return super().read(size)


def test_a_file_that_fails_is_an_error_after_what_was_read() -> None:
    """What came before it is not lost."""
    events = some(9, 30_000)
    found: list[Entry | Damage] = []

    with pytest.raises(ReceiverError, match="cannot read the rest of the bundle: Input/output error"):
        found.extend(read_bundle(FailingFile(bundled(events)), max_body=MAX_BODY).entries)

    assert [entry.delivery for entry in found if isinstance(entry, Entry)] == [one for one, _ in events[:2]]
