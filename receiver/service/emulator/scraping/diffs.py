"""The difference of two scrapes of a page as the service shows it: a unified diff, and the same as a tree."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from receiver.service.emulator.scraping.comparison import is_same_text
from receiver.service.emulator.scraping.line_diff import LineEdit, StepCount, diff_lines, split_lines

Json = dict[str, Any]

OLD_NAME, NEW_NAME = "previous.md", "current.md"
CONTEXT = 3
"""Shared lines that are shown before and after a change."""
_HEAD = "=" * 67 + f"\n--- {OLD_NAME}\t\n+++ {NEW_NAME}\t\n"
_SIGNS = {"normal": " ", "del": "-", "add": "+"}
_NO_NEWLINE = "\\ No newline at end of file\n"


@dataclass(frozen=True, slots=True)
class PageDiff:
    """What changed in a page's Markdown."""

    text: str
    """A unified diff with three lines of context."""
    tree: Json
    """The same as `{files: [{from, to, additions, deletions, chunks}]}`."""


@dataclass(frozen=True, slots=True)
class DiffHunk:
    """Changes that stand close together, and the shared lines around them."""

    old_start: int
    """Number of the first line in the old text, from 1."""
    new_start: int
    """Number of the first line in the new text, from 1."""
    edits: Sequence[LineEdit]
    """The lines in their order."""

    @property
    def old_lines(self) -> int:
        """How many lines of the old text it has."""
        return sum(edit.kind != "add" for edit in self.edits)

    @property
    def new_lines(self) -> int:
        """How many lines of the new text it has."""
        return sum(edit.kind != "del" for edit in self.edits)

    @property
    def head(self) -> str:
        """The `@@` line. The line before an empty range counts as its start, as in every unified diff."""
        old = self.old_start - (self.old_lines == 0)
        new = self.new_start - (self.new_lines == 0)
        return f"@@ -{old},{self.old_lines} +{new},{self.new_lines} @@"


def diff_pages(old: str, new: str, count: StepCount | None = None) -> PageDiff:
    """Return the difference of two Markdown texts. Its work is bounded, whatever the texts are."""
    hunks = list(_hunks(diff_lines(split_lines(old), split_lines(new), count)))
    return PageDiff(_HEAD + "".join(map(_text, hunks)), {"files": [_file(hunks)]})


def compare_texts(old: str, new: str, with_diff: bool) -> Json | None:
    """Return the difference of two texts as `{text, tree}`, null if it is not asked for; None if they are same."""
    if is_same_text(old, new):
        return None
    diff = diff_pages(old, new) if with_diff else None
    return {"text": None, "tree": None} if diff is None else {"text": diff.text, "tree": diff.tree}


def _hunks(edits: Sequence[LineEdit]) -> Iterator[DiffHunk]:
    changed = [at for at, edit in enumerate(edits) if edit.kind != "normal"]
    spans: list[tuple[int, int]] = []
    for at in changed:
        begin, end = max(0, at - CONTEXT), min(len(edits), at + CONTEXT + 1)
        if spans and begin <= spans[-1][1]:
            begin = spans.pop()[0]
        spans.append((begin, end))
    old = new = 1
    done = 0
    for begin, end in spans:
        shared = begin - done  # between two hunks there are only shared lines
        old, new = old + shared, new + shared
        hunk = DiffHunk(old, new, edits[begin:end])
        yield hunk
        old, new, done = old + hunk.old_lines, new + hunk.new_lines, end


def _text(hunk: DiffHunk) -> str:
    return hunk.head + "\n" + "".join(map(_line, hunk.edits))


def _line(edit: LineEdit) -> str:
    line = _SIGNS[edit.kind] + edit.text
    return line if line.endswith("\n") else f"{line}\n{_NO_NEWLINE}"


def _file(hunks: Sequence[DiffHunk]) -> Json:
    kinds = [edit.kind for hunk in hunks for edit in hunk.edits]
    return {
        "from": OLD_NAME,
        "to": NEW_NAME,
        "additions": kinds.count("add"),
        "deletions": kinds.count("del"),
        "chunks": [_chunk(hunk) for hunk in hunks],
    }


def _chunk(hunk: DiffHunk) -> Json:
    old, new = hunk.old_start, hunk.new_start
    changes: list[Json] = []
    for edit in hunk.edits:
        content = _SIGNS[edit.kind] + edit.text.removesuffix("\n")
        match edit.kind:
            case "normal":
                place = {"ln1": old, "ln2": new}
                old, new = old + 1, new + 1
            case "del":
                place = {"ln": old}
                old += 1
            case "add":
                place = {"ln": new}
                new += 1
        changes.append({"type": edit.kind, edit.kind: True, **place, "content": content})
    return {
        "content": hunk.head,
        "changes": changes,
        "oldStart": hunk.old_start - (hunk.old_lines == 0),
        "oldLines": hunk.old_lines,
        "newStart": hunk.new_start - (hunk.new_lines == 0),
        "newLines": hunk.new_lines,
    }
