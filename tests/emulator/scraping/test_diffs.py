"""Differences of two scrapes: of lines (right, shortest, bounded), of pages in two forms, and of values."""

import itertools
import re
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from receiver.emulator.scraping.diffs import (
    MAX_CHANGES,
    MAX_VALUE_CHANGES,
    LineEdit,
    StepCount,
    changed_keys,
    changed_paths,
    diff_lines,
    diff_pages,
    is_same_text,
    split_lines,
)
from receiver.events.documents.diffs import Diff

LINES = st.lists(st.sampled_from([f"{letter}\n" for letter in "abcdef"]), max_size=30)


def longest_common(old: list[str], new: list[str]) -> int:
    """Return the length of the longest common subsequence, by the textbook's table."""
    above = [0] * (len(new) + 1)
    for one in old:
        row = [0]
        for at, other in enumerate(new):
            row.append(above[at] + 1 if one == other else max(above[at + 1], row[-1]))
        above = row
    return above[-1]


@given(LINES, LINES)
def test_a_difference_has_both_texts_and_as_few_changes_as_possible(old: list[str], new: list[str]) -> None:
    edits = diff_lines(old, new)

    assert [edit.text for edit in edits if edit.kind != "add"] == old
    assert [edit.text for edit in edits if edit.kind != "del"] == new
    assert sum(edit.kind == "normal" for edit in edits) == longest_common(old, new)


@given(LINES, LINES)
def test_deleted_lines_of_a_change_stand_before_added_ones(old: list[str], new: list[str]) -> None:
    kinds = [edit.kind for edit in diff_lines(old, new)]

    assert ("add", "del") not in itertools.pairwise(kinds)


@given(LINES, LINES)
def test_a_difference_that_is_not_the_shortest_has_both_texts_too(old: list[str], new: list[str]) -> None:
    """Very different texts are cut at lines that both have once."""
    edits = diff_lines(old, new, most=3)

    assert [edit.text for edit in edits if edit.kind != "add"] == old
    assert [edit.text for edit in edits if edit.kind != "del"] == new


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ([f"{n}\n" for n in range(20_000)], [f"{n}\n" for n in reversed(range(20_000))]),
        (["a\n", "b\n"] * 10_000, ["b\n", "c\n"] * 10_000),
        ([f"{n}\n" for n in range(20_000)], [f"x{n}\n" for n in range(20_000)]),
        ([f"{n % 7}\n" for n in range(20_000)], [f"{n % 11}\n" for n in range(20_000)]),
    ],
    ids=["reversed", "shifted", "nothing shared", "repeating"],
)
def test_the_steps_are_bounded_for_every_text(old: list[str], new: list[str]) -> None:
    count = StepCount()
    diff_lines(old, new, count)

    assert count.steps <= 2 * MAX_CHANGES**2 + 200 * (len(old) + len(new))


def test_texts_that_move_between_anchors_keep_them() -> None:
    """Too many changes for the shortest way: lines that both have once still count as shared."""
    old = [f"old {n}\n" for n in range(1500)] + ["anchor\n"] + [f"old {n}\n" for n in range(1500, 3000)]
    new = [f"new {n}\n" for n in range(1500)] + ["anchor\n"] + [f"new {n}\n" for n in range(1500, 3000)]

    assert LineEdit("normal", "anchor\n") in diff_lines(old, new)


@pytest.mark.parametrize(
    ("text", "lines"),
    [
        ("", []),
        ("a", ["a"]),
        ("a\n", ["a\n"]),
        ("a\n\nb", ["a\n", "\n", "b"]),
        ("\n", ["\n"]),
        ("a\r\nb", ["a\r\n", "b"]),
    ],
)
def test_lines_end_with_line_feeds_alone(text: str, lines: list[str]) -> None:
    assert split_lines(text) == lines


HEAD = "=" * 67 + "\n--- previous.md\t\n+++ current.md\t\n"
TEXTS = st.lists(st.sampled_from(["a", "b", "c", ""]), max_size=20).map("\n".join)


def test_the_text_is_a_unified_diff_with_the_services_head() -> None:
    old = "".join(f"line {n}\n" for n in range(1, 13))
    new = old.replace("line 2\n", "line two\n").replace("line 11\n", "")

    assert diff_pages(old, new).text == HEAD + (
        "@@ -1,5 +1,5 @@\n line 1\n-line 2\n+line two\n line 3\n line 4\n line 5\n"
        "@@ -8,5 +8,4 @@\n line 8\n line 9\n line 10\n-line 11\n line 12\n"
    )


def test_a_last_line_without_newline_is_marked() -> None:
    assert diff_pages("a\nb", "a\nc").text == HEAD + (
        "@@ -1,2 +1,2 @@\n a\n-b\n\\ No newline at end of file\n+c\n\\ No newline at end of file\n"
    )


def test_an_empty_text_has_a_range_of_no_lines() -> None:
    """The line before it counts as its start, as `diff -u` writes it."""
    assert diff_pages("", "a\nb\n").text == HEAD + "@@ -0,0 +1,2 @@\n+a\n+b\n"
    assert diff_pages("a\n", "").text == HEAD + "@@ -1,1 +0,0 @@\n-a\n"


def test_the_tree_numbers_the_lines_of_both_texts() -> None:
    assert diff_pages("a\nb\nc\n", "a\nx\ny\nc\n").tree == {
        "files": [
            {
                "from": "previous.md",
                "to": "current.md",
                "additions": 2,
                "deletions": 1,
                "chunks": [
                    {
                        "content": "@@ -1,3 +1,4 @@",
                        "changes": [
                            {"type": "normal", "normal": True, "ln1": 1, "ln2": 1, "content": " a"},
                            {"type": "del", "del": True, "ln": 2, "content": "-b"},
                            {"type": "add", "add": True, "ln": 2, "content": "+x"},
                            {"type": "add", "add": True, "ln": 3, "content": "+y"},
                            {"type": "normal", "normal": True, "ln1": 3, "ln2": 4, "content": " c"},
                        ],
                        "oldStart": 1,
                        "oldLines": 3,
                        "newStart": 1,
                        "newLines": 4,
                    }
                ],
            }
        ]
    }


@given(TEXTS, TEXTS)
def test_text_and_tree_say_the_same(old: str, new: str) -> None:
    diff = diff_pages(old, new)
    tree = Diff.model_validate({"text": diff.text, "json": diff.tree}).json_
    assert tree is not None
    lines = [line for line in diff.text.split("\n")[3:-1] if not line.startswith("\\")]
    chunks = [chunk for file in tree.files for chunk in file.chunks]

    assert lines == [line for one in chunks for line in (one.content, *(change.content for change in one.changes))]


@given(TEXTS, TEXTS)
def test_the_text_turns_the_old_page_into_the_new_one(old: str, new: str) -> None:
    assert patched(old, diff_pages(old, new).text) == new


def patched(old: str, text: str) -> str:
    """Apply a unified diff, as `patch` does."""
    source = re.findall(r"[^\n]*\n|[^\n]+$", old)
    made: list[str] = []
    at = 0
    for hunk in re.split(r"^@@ -", text, flags=re.MULTILINE)[1:]:
        head, _, body = hunk.partition("\n")
        start, size = map(int, head.split(" ")[0].split(","))
        begin = start if size == 0 else start - 1
        made += source[at:begin]
        at = begin + size
        is_new = False
        for line in re.findall(r"[^\n]*\n", body):
            if line.startswith("\\"):
                made[-1:] = [made[-1].removesuffix("\n")] if is_new else made[-1:]
            else:
                is_new = line[0] in " +"
                made += [line[1:]] if is_new else []
    return "".join(made + source[at:])


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
