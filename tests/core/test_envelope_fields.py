"""The envelope's fields are read as a whole parse would read them, in memory that the body's values do not fill."""

import json
import math
import re
import tracemalloc
from collections.abc import Mapping
from typing import Any

import msgspec
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from receiver.core.envelope import NotAnObject, NotJson, load_json, read_fields

NAMES = ("type", "id", "jobId", "webhookId", "success")
MEBIBYTE = 1024 * 1024
LONG = b" " * (64 * 1024)
"""Makes a body long enough that it is never parsed as a whole."""


def parsed(body: bytes) -> dict[str, Any] | type[NotJson]:
    """Return the fields by way of a whole parse, or the error."""
    try:
        content = load_json(body)
    except NotJson:
        return NotJson
    if not isinstance(content, dict):
        return NotAnObject
    values = {name: content.get(name) for name in NAMES}
    return plain({name: one for name, one in values.items() if not isinstance(one, list | dict)})


def fields(body: bytes) -> dict[str, Any] | type[NotJson]:
    """Return the fields as they are read, or the error."""
    try:
        found = read_fields(body)
    except NotJson as exc:
        return type(exc)
    return plain(msgspec.structs.asdict(found))


def plain(content: Mapping[str, Any]) -> dict[str, Any]:
    """Return the fields that are there, with 0 for NaN and Infinity, which no rule asks for."""
    return {
        name: 0 if isinstance(value, float) and not math.isfinite(value) else value
        for name, value in content.items()
        if value is not None
    }


TEXTS = st.text() | st.sampled_from(
    ["NaN", ", -Infinity]", '\\", NaN, "', "\\\\", "\ud83d", "\\ud83d", "\ud83d\ude00"]
)
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | TEXTS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from([*NAMES, "data"]), inner),
    max_leaves=10,
)


@given(JSON, st.booleans())
def test_json_is_read_as_by_a_whole_parse(content: Any, ascii_only: bool) -> None:
    """Whatever is in it, in a short body and in a long one."""
    body = json.dumps(content, ensure_ascii=ascii_only).encode("utf-8", "surrogatepass")
    read = parsed(body)
    long = read if isinstance(read, type) else {name: replaced(value) for name, value in read.items()}

    assert fields(body) == read
    assert fields(body + LONG) in (read, long)


def replaced(value: Any) -> Any:
    """Return a text without lone surrogates."""
    return re.sub("[\ud800-\udfff]", "\ufffd", value) if isinstance(value, str) else value


@pytest.mark.parametrize("encoding", ["utf-8-sig", "utf-16", "utf-16-be", "utf-32-le"])
def test_a_long_body_in_another_encoding_is_read_as_a_short_one(encoding: str) -> None:
    """Python's json module finds out the encoding from the first bytes."""
    text = '{"type":"é","data":[NaN]}'

    assert fields(text.encode(encoding)) == fields(text.ljust(70_000).encode(encoding)) == {"type": "é"}


@pytest.mark.parametrize(
    "number", ["nan", "-NaN", "+Infinity", "NaN5", "1NaN", "NaNNaN", "1-Infinity", "--Infinity", "NaN.0", '"x"NaN']
)
def test_what_only_resembles_nan_or_infinity_is_not_json(number: str) -> None:
    """The replacement must not turn it into a number."""
    body = b'{"type":"x","data":[%b]}' % number.encode()

    assert fields(body) == fields(body + LONG) == NotJson


def test_pieces_cut_nothing_that_is_replaced() -> None:
    """Wherever the text begins, and so wherever a piece of it ends."""
    text = (
        rb'-Infinity,NaN],"id":"\\\\\"NaN\ud83d\ude00\ud83d\\","type":"x","b":"'
        + b'\xed\xa0\xbd\xed\xb0\x80\xc3\xa9"}'
    )
    for shift in range(len(text)):
        body = b'{"data":['.ljust(65_536 - shift) + text + LONG

        assert fields(body) == {"type": "x", "id": '\\\\"NaN😀�\\'}, shift


@given(st.binary(max_size=40), st.integers(0, 60), st.integers(0, 20))
@example(b"\xff", 30, 0)
@example(b"\xed\xa0\x80", 30, 0)
@example(b"\\ud83d", 30, 0)
@example(b"\x00", 30, 0)
def test_what_is_cut_or_overwritten_is_judged_as_by_a_whole_parse(piece: bytes, at: int, removed: int) -> None:
    """So that nothing gets in that nobody could read later, and nothing is refused that could be."""
    whole = '{"type": "crawl.page", "id": "é", "data": ["text", 1, {"x": "y"}], "success": true}'.encode()
    body = whole[:at] + piece + whole[at + removed :]

    assert fields(body) == parsed(body)
    if isinstance(parsed(body), type):
        assert fields(body + LONG) == parsed(body)


@pytest.mark.parametrize(
    ("text", "read"),
    [
        (rb"a\ud83db", "a�b"),
        (rb"a\ude00b", "a�b"),
        (rb"\ud83d\ude00", "😀"),
        (rb"\ud83d\ud83d\ude00", "�😀"),
        (rb"\ude00\ud83d", "��"),
        (rb"\\ud83d\ude00", "\\ud83d�"),
        (rb"\\\ud83d", "\\�"),
        (rb"\\\\ud83d", "\\\\ud83d"),
        (rb"\uD83D\uDE00", "😀"),
    ],
)
def test_lone_surrogates_in_a_long_body_read_as_replacement_characters(text: bytes, read: str) -> None:
    """Pairs stay what they are, and so do escaped backslashes."""
    body = b'{"data":"\\ud83d","type":"%b"}' % text

    assert fields(body + LONG) == {"type": read}


def test_a_long_body_may_begin_with_a_byte_order_mark() -> None:
    """As a short one may."""
    assert fields(b'\xef\xbb\xbf{"type":"x"}' + LONG) == {"type": "x"}


@pytest.mark.parametrize(
    "body",
    [
        b'{"type":"x","data":[' + b"{}," * MEBIBYTE + b"0]}",
        b'{"type":"x","data":[' + b"{}," * MEBIBYTE + b'"\\ud83d"]}',
        b'{"type":"x","data":[' + b'"",NaN,' * (MEBIBYTE // 2) + b"0]}",
        b'{"type":"x","id":[' + b"{}," * MEBIBYTE + b"0]}",
        b'{"type":"x",' + b",".join(b'"%d":1' % number for number in range(200_000)) + b"}",
        b'{"type":"x","data":"' + "é".encode() * MEBIBYTE + b'"}',
    ],
    ids=["objects", "objects and a lone surrogate", "texts and no numbers", "objects as an id", "keys", "text"],
)
def test_memory_grows_with_the_length_alone(body: bytes) -> None:
    """A whole parse of three megabytes of objects takes a hundred."""
    tracemalloc.start()
    try:
        assert read_fields(body).type == "x"
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()

    assert peak < 2 * len(body) + 4 * MEBIBYTE
