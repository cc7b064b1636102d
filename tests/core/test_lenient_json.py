"""JSON as this sender makes it, read by two parsers."""

import json
from contextlib import suppress
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from receiver.core.envelope import NotJson, TooDeep, load_json

json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8), inner, max_size=4),
    max_leaves=12,
)


@given(json_values)
def test_every_json_value_is_read(value: Any) -> None:
    """It is the same after writing, with escapes or as UTF-8, and reading."""
    assert load_json(json.dumps(value).encode()) == value
    assert load_json(json.dumps(value, ensure_ascii=False).encode("utf-8", "surrogatepass")) == value


@pytest.mark.parametrize(
    ("body", "value"),
    [
        (rb'{"a":"\ud83d"}', {"a": "\ud83d"}),
        (rb'["\ude00 alone"]', ["\ude00 alone"]),
        (b"\xef\xbb\xbf{}", {}),
        (b" \r\n\t{} \n", {}),
        (b'{"a":1,"a":2}', {"a": 2}),
        (b"1e400", float("inf")),
        (b"123456789012345678901234567890", 123456789012345678901234567890),
    ],
    ids=["high surrogate", "low surrogate", "BOM", "space", "key twice", "overflow", "long integer"],
)
def test_odd_but_legal_texts_are_read(body: bytes, value: object) -> None:
    """The second parser reads what the first refuses."""
    assert load_json(body) == value


@pytest.mark.parametrize("depth", [100, 300, 900])
def test_deep_nesting_is_read(depth: int) -> None:
    """Also past the limit of the fast parser."""
    value = load_json(b"[" * depth + b"]" * depth)

    for _ in range(depth - 1):
        (value,) = value
    assert value == []


@pytest.mark.parametrize("digits", [4_300, 4_301, 100_000])
def test_integers_of_thousands_of_digits_are_read(digits: int) -> None:
    """They are numbers or, past Python's limit, text. They are never refused."""
    (value,) = load_json(b"[" + b"9" * digits + b"]")

    assert value in (10**4_300 - 1, "9" * digits)


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b" ",
        b"\0",
        b"{",
        b'{"a":1,}',
        b"{'a':1}",
        b"[1] [2]",
        b'"\xff"',
        b'"\x01"',
        b"nul",
        b"\xff\xfe\xfd",
        b'{"a":',
        b'"\\x"',
        b"[" * 200_000,
        b"[" * 200_000 + b"]" * 200_000,
        b'{"a":' * 200_000,
    ],
    ids=lambda body: repr(body[:12]),
)
def test_other_bytes_are_refused(body: bytes) -> None:
    """The error is always NotJson."""
    with pytest.raises(NotJson):
        load_json(body)


def test_what_is_too_deep_is_told_apart() -> None:
    """It may be JSON."""
    with pytest.raises(TooDeep, match="nested too deeply"):
        load_json(b"[" * 100_000 + b"]" * 100_000)


@given(st.binary(max_size=100))
def test_bytes_are_read_or_refused(body: bytes) -> None:
    """No other error is raised."""
    with suppress(NotJson):
        load_json(body)
