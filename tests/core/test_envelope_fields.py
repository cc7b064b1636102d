"""The envelope's fields are read as a whole parse would read them, in memory that the body's values do not fill."""

import json
import tracemalloc
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from receiver.core.envelope_fields import NotAnObject, read_fields
from receiver.core.lenient_json import NotJson, load_json

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
    return {name: content[name] for name in NAMES if name in content and not isinstance(content[name], list | dict)}


def fields(body: bytes) -> dict[str, Any] | type[NotJson]:
    """Return the fields as they are read, or the error."""
    try:
        found = read_fields(body)
    except NotJson as exc:
        return type(exc)
    return {name: value for name, value in found.items() if not isinstance(value, list | dict)}


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from([*NAMES, "data"]), inner),
    max_leaves=10,
)


@given(JSON, st.booleans())
def test_json_is_read_as_by_a_whole_parse(content: Any, ascii_only: bool) -> None:
    """Whatever is in it, in a short body and in a long one."""
    body = json.dumps(content, ensure_ascii=ascii_only).encode("utf-8", "surrogatepass")

    assert fields(body) == parsed(body)
    assert fields(body + LONG) == parsed(body)


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
    if b"NaN" not in body and b"Infinity" not in body and isinstance(parsed(body), type):
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
        b'{"type":"x","id":[' + b"{}," * MEBIBYTE + b"0]}",
        b'{"type":"x",' + b",".join(b'"%d":1' % number for number in range(200_000)) + b"}",
        b'{"type":"x","data":"' + "é".encode() * MEBIBYTE + b'"}',
    ],
    ids=["objects", "objects and a lone surrogate", "objects as an id", "keys", "text"],
)
def test_memory_grows_with_the_length_alone(body: bytes) -> None:
    """A whole parse of three megabytes of objects takes a hundred."""
    tracemalloc.start()
    try:
        assert read_fields(body)["type"] == "x"
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()

    assert peak < 2 * len(body) + 4 * MEBIBYTE
