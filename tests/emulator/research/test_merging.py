"""Data of several pages, put together."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from receiver.emulator.research.outcome import merged

A, B, C = "https://a.test/", "https://b.test/", "https://c.test/"


@pytest.mark.parametrize(
    ("first", "second", "together"),
    [
        (None, 1, 1),
        (1, 2, 1),
        ({"a": 1, "b": None}, {"a": 2, "b": 3, "c": 4}, {"a": 1, "b": 3, "c": 4}),
        ({"a": {"b": None}}, {"a": {"b": 1}}, {"a": {"b": 1}}),
        ([1, 2], [2, 3], [1, 2, 3]),
        ([{"name": "Oak", "price": 4}], [{"name": "oak", "size": 2}], [{"name": "Oak", "price": 4, "size": 2}]),
        ([{"name": "Oak", "price": 4}], [{"name": "Elm"}], [{"name": "Oak", "price": 4}, {"name": "Elm"}]),
        ([{"p": 1}, {"p": 1}], [{"p": 1}], [{"p": 1}]),
        ({"a": 1}, [1], {"a": 1}),
        ({"a": 1}, 5, {"a": 1}),
        (None, None, None),
        ({"a": None}, {"a": None}, {"a": None}),
    ],
    ids=str,
)
def test_the_first_value_counts_and_lists_grow(first: Any, second: Any, together: Any) -> None:
    assert merged([(A, first), (B, second)]).value == together


def test_sources_name_every_page_that_has_a_value() -> None:
    pages = [
        (A, {"name": "Oak", "sizes": [1]}),
        (B, {"name": "Oak", "sizes": [1, 2], "maker": {"city": "Hull"}}),
        (C, {"name": "Elm"}),
    ]

    assert merged(pages).sources == {
        "name": [A, B],
        "sizes[0]": [A, B],
        "sizes[1]": [B],
        "maker.city": [B],
    }


def test_what_all_members_of_a_list_lack_is_missing() -> None:
    data = {"a": None, "b": [{"n": 1, "p": None, "q": None}, {"n": 2, "p": 3, "q": None}], "c": {"d": None}}

    assert merged([(A, data)]).missing() == ["a", "b[].q", "c.d"]


DATA = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=3),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.sampled_from(["name", "id", "a"]), inner),
    max_leaves=12,
)


@given(st.lists(DATA, max_size=4))
def test_merging_any_data_again_changes_nothing(pages: list[Any]) -> None:
    """The result of a page that is read twice is that of the page."""
    once = merged((f"{A}{number}", data) for number, data in enumerate(pages))

    assert merged([(A, once.value), (A, once.value)]).value == merged([(A, once.value)]).value
    assert len(once.sources) <= 2_000
    assert isinstance(once.missing(), list)


def test_deep_data_end() -> None:
    deep: Any = 1
    for _ in range(300):
        deep = {"a": [deep]}

    assert merged([(A, deep)]).sources == {}
