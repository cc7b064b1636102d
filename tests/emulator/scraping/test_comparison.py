"""When a page counts as the same, and which values differ."""

from typing import Any

import pytest

from receiver.emulator.scraping.diffs import MAX_VALUE_CHANGES, changed_keys, changed_paths, is_same_text


@pytest.mark.parametrize(
    ("old", "new", "same"),
    [
        ("a b", "a b", True),
        ("a  b\n", "ab", True),
        ("first\n\nsecond", "second\n\nfirst", True),
        ("listen", "silent", True),
        ("a", "a b", False),
        ("a", "aa", False),
        ("a [iframe](https://ads.example/1)", "[iframe](https://ads.example/23) a", True),
        ("A", "a", False),
        ("", "", True),
    ],
)
def test_pages_are_the_same_when_they_have_the_same_characters(old: str, new: str, same: bool) -> None:
    """White space, embedded frames and the order do not count, as at the service."""
    assert is_same_text(old, new) is same


@pytest.mark.parametrize(
    ("old", "new", "changes"),
    [
        ({"a": 1, "b": 2}, {"a": 1, "b": 3}, {"b": {"previous": 2, "current": 3}}),
        ({"a": 1}, {"b": 1}, {"a": {"previous": 1, "current": None}, "b": {"previous": None, "current": 1}}),
        ({"a": [1, {"x": 2}]}, {"a": [1, {"x": 2}]}, {}),
        ({"a": True}, {"a": 1}, {"a": {"previous": True, "current": 1}}),
        (None, {"a": 1}, {"a": {"previous": None, "current": 1}}),
        ([1], [2], {}),
    ],
)
def test_top_level_keys_are_listed_with_both_values(old: Any, new: Any, changes: Any) -> None:
    assert changed_keys(old, new) == changes


@pytest.mark.parametrize(
    ("old", "new", "changes"),
    [
        ({"a": {"b": [{"c": 1}]}}, {"a": {"b": [{"c": 2}]}}, {"a.b[0].c": {"previous": 1, "current": 2}}),
        ([1, 2], [1], {"[1]": {"previous": 2, "current": None}}),
        ({"a": "x  y\n"}, {"a": "x y"}, {}),
        ({"a": "e\u0301"}, {"a": "\u00e9"}, {}),
        ({"a": 0}, {"a": False}, {"a": {"previous": 0, "current": False}}),
        ({"a": 1}, {"a": 1.0}, {}),
        ({"a": {}}, {"a": []}, {"a": {"previous": {}, "current": []}}),
        (1, 2, {"": {"previous": 1, "current": 2}}),
    ],
)
def test_changed_values_are_listed_by_their_paths(old: Any, new: Any, changes: Any) -> None:
    """Strings that differ only in white space or in the form of their Unicode are equal."""
    assert changed_paths(old, new) == changes


def test_the_list_of_changes_is_bounded() -> None:
    assert len(changed_paths(list(range(20_000)), [-1] * 20_000)) == MAX_VALUE_CHANGES


def test_values_of_any_depth_are_compared() -> None:
    old: Any = 1
    new: Any = 2
    for _ in range(50_000):
        old, new = [old], [new]

    assert list(changed_paths(old, new)) == ["[0]" * 50_000]
