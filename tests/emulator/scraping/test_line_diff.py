"""Differences of lines: right, shortest, and bounded."""

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from receiver.emulator.scraping.diffs import MAX_CHANGES, LineEdit, StepCount, diff_lines, split_lines

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
