"""JSON bodies as the service's runtime sees them."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from receiver.emulator.failures import CallRefused
from receiver.emulator.wire.bodies import MAX_DEPTH, MAX_VALUES, parse_body, without_nulls
from tests.cases import for_each


@for_each(
    ("text", "body"),
    [
        (b"", {}),
        (b"  \n", {}),
        (b'{"a":30000.0}', {"a": 30000}),
        (b'{"a":1e3}', {"a": 1000}),
        (b'{"a":0.5}', {"a": 0.5}),
        (b'{"a":9007199254740991}', {"a": 9007199254740991}),
        (b'{"a":9007199254740993}', {"a": 9007199254740992.0}),
        (b'{"a":100000000000000000000}', {"a": 1e20}),
        (b'{"a":true,"b":null,"c":[null]}', {"a": True, "b": None, "c": [None]}),
        (b'{"a":"\\ud800x"}', {"a": "�x"}),
        (b'{"\\udfff":1}', {"�": 1}),
        ('{"a":"\N{GRINNING FACE}"}'.encode(), {"a": "\N{GRINNING FACE}"}),
        (b'{"a":"\\ud83d\\ude00"}', {"a": "\N{GRINNING FACE}"}),
        (b'{"a":1,"a":2}', {"a": 2}),
    ],
)
def test_a_body_is_read_as_doubles_and_unicode(text: bytes, body: dict[str, Any]) -> None:
    """An integer beyond 2**53 is none, and a lone surrogate becomes U+FFFD."""
    read = parse_body(text)

    assert read == body
    assert [type(one) for one in read.values()] == [type(one) for one in body.values()]


@for_each(
    "text",
    [
        b"{",
        b"nonsense",
        b'{"a":NaN}',
        b'{"a":-Infinity}',
        b'{"a":1e400}',
        b'{"a":' + b"9" * 400 + b"}",
        b'{"a":' + b"9" * 5000 + b"}",
        b'{"a":"\xff"}',
        b"\xff\xfe{}",
        b"[" * 100_000,
        b'{"a":' * 100_000,
        b'{"a":' + b"[" * (MAX_DEPTH + 1) + b"]" * (MAX_DEPTH + 1) + b"}",
        b'{"a":[' + b"0," * MAX_VALUES + b"0]}",
        b"{} {}",
        b"{'a':1}",
    ],
)
def test_what_is_no_json_is_malformed(text: bytes) -> None:
    """So are numbers beyond a double, and bodies that are too deep or have too many values."""
    with pytest.raises(CallRefused) as caught:
        parse_body(text)

    assert (caught.value.status, caught.value.code) == (400, "BAD_REQUEST_INVALID_JSON")
    assert caught.value.error == "Bad request, malformed JSON"


@for_each("text", [b"[]", b"null", b"5", b'"x"', b"true", b"[{}]"])
def test_what_is_no_object_is_a_wrong_body(text: bytes) -> None:
    """It is JSON, so it gets the list of issues."""
    with pytest.raises(CallRefused) as caught:
        parse_body(text)

    assert (caught.value.status, caught.value.code) == (400, "BAD_REQUEST")
    assert [issue["path"] for issue in caught.value.details or []] == [[]]


def test_null_is_absent_but_for_schemas() -> None:
    """SDKs send null for every option that is not set; a JSON Schema may mean it."""
    schema = {"type": ["string", "null"], "default": None, "enum": ["a", None]}

    assert without_nulls(
        {"a": None, "b": {"c": None, "d": 1}, "e": [{"f": None}, None], "schema": schema, "g": {"schema": None}}
    ) == {"b": {"d": 1}, "e": [{}, None], "schema": schema, "g": {}}


@given(st.binary(max_size=200))
def test_any_bytes_are_an_object_or_refused(data: bytes) -> None:
    """Nothing else comes out."""
    try:
        assert isinstance(parse_body(data), dict)
    except CallRefused as exc:
        assert exc.status == 400  # noqa: PT017 - one of two right ends


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
)


@given(VALUES)
def test_any_json_can_be_written_again(value: Any) -> None:
    """What was read has no surrogate, no NaN and no integer that is not exact."""
    try:
        body = parse_body(json.dumps({"a": value}).encode())
    except CallRefused:
        return
    json.dumps(body, allow_nan=False, ensure_ascii=False).encode()
