"""Differences of pages in the service's two forms."""

import re

from hypothesis import given
from hypothesis import strategies as st

from receiver.emulator.scraping.diffs import diff_pages
from receiver.events.documents.diffs import Diff

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
