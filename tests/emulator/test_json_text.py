"""JSON as it is sent: always valid, whatever a page holds, and large values without a long pause."""

import asyncio
import json
import math
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from receiver.emulator.json_text import LARGE, to_json, to_json_beside
from tests.doubles import turns

texts = st.text(st.characters(exclude_categories=()), max_size=5)  # lone surrogates, too
values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | texts,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(texts, inner, max_size=3),
    max_leaves=10,
)


def finite(value: Any) -> Any:
    """Return a value as JSON can say it."""
    match value:
        case float():
            return value if math.isfinite(value) else None
        case list():
            return [finite(one) for one in value]
        case dict():
            return {finite(key): finite(one) for key, one in value.items()}
        case str():  # the halves of a pair, side by side, are a character
            return value.encode("utf-16", "surrogatepass").decode("utf-16", "surrogatepass")
    return value


def never(name: str) -> None:
    raise AssertionError(f"{name} is no JSON")


@given(values)
def test_any_value_is_written_as_valid_json(value: Any) -> None:
    assert json.loads(to_json(value), parse_constant=never) == finite(value)


@given(values)
@settings(max_examples=20, deadline=None)
def test_a_large_value_is_written_like_a_small_one(value: Any) -> None:
    """It is made of pieces: texts are cut, and their escapes are not."""
    long = 'ä"\\\n\ud83d' * (LARGE // 2)
    large = {"data": [{"text": long, "value": value}], "nothing": [], "none": {}, "\ud800": 1}

    assert json.loads(to_json(large), parse_constant=never) == finite(large)


@pytest.mark.parametrize("number", [math.nan, math.inf, -math.inf])
def test_a_number_that_is_none_beside_a_lone_surrogate_is_null(number: float) -> None:
    assert to_json({"a": number, "b": ["\ud800", number]}) == b'{"a":null,"b":["\\ud800",null]}'


def test_what_is_written_already_is_taken_as_it_is() -> None:
    """Also beside what has to be escaped."""
    assert to_json({"data": [msgspec.Raw(b'{"a": 1}')], "b": "\ud800"}) == b'{"data":[{"a": 1}],"b":"\\ud800"}'


async def test_the_event_loop_goes_on_while_a_large_value_is_written() -> None:
    small = await to_json_beside({"a": "b"})
    writing = asyncio.create_task(to_json_beside({"a": "b" * 20 * LARGE}))
    await turns(1)
    is_done = writing.done()

    assert (small, is_done, len(await writing)) == (b'{"a":"b"}', False, 20 * LARGE + 8)
