"""The difference of two scrapes of a page: of their lines, as a unified diff and as a tree, and of their values.

The shortest difference is that of E. W. Myers, "An O(ND) Difference Algorithm and Its Variations" (Algorithmica 1,
1986). Its time grows with the number of different lines, so very different texts are first cut at lines that both
have once.
"""

import bisect
import re
import unicodedata
from array import array
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

MAX_CHANGES = 1_000
"""The most different lines for the shortest difference. Its steps are at most about the square of this."""


class LineEdit(NamedTuple):
    """One line of a difference. In a run of changes the deleted lines precede the added ones."""

    kind: Literal["normal", "del", "add"]
    """In both texts, only in the old one, or only in the new one."""
    text: str
    """With its newline if it has one."""


@dataclass(slots=True)
class StepCount:
    """Counts the work of a comparison, whose growth a test measures."""

    steps: int = 0
    """Comparisons of two lines, and moves of the search."""


Json = dict[str, Any]
_Keys = Sequence[int]
_Move = tuple[int, int]
"""The numbers of deleted and added lines; (0, 0) for a line of both."""


def split_lines(text: str) -> list[str]:
    """Return the lines with their newlines; the last one has none if the text does not end with one."""
    parts = text.split("\n")
    return [part + "\n" for part in parts[:-1]] + ([parts[-1]] if parts[-1] else [])


def diff_lines(
    old: Sequence[str], new: Sequence[str], count: StepCount | None = None, *, most: int = MAX_CHANGES
) -> list[LineEdit]:
    """Return the lines of both texts in order: shared ones once, and the others as deleted or added.

    The difference is the shortest one if that has at most `most` changes.
    """
    numbers: dict[str, int] = {}
    before = [numbers.setdefault(line, len(numbers)) for line in old]
    after = [numbers.setdefault(line, len(numbers)) for line in new]
    edits: list[LineEdit] = []
    at_old = at_new = 0
    for deleted, added in _runs(_moves(before, after, count or StepCount(), most)):
        if not deleted and not added:
            edits.append(LineEdit("normal", new[at_new]))
            deleted = added = 1
        else:
            edits.extend(LineEdit("del", line) for line in old[at_old : at_old + deleted])
            edits.extend(LineEdit("add", line) for line in new[at_new : at_new + added])
        at_old, at_new = at_old + deleted, at_new + added
    return edits


def _runs(moves: Iterator[_Move]) -> Iterator[_Move]:
    deleted = added = 0
    for move in moves:
        if move != (0, 0):
            deleted, added = deleted + move[0], added + move[1]
            continue
        if deleted or added:
            yield deleted, added
            deleted = added = 0
        yield move
    if deleted or added:
        yield deleted, added


def _moves(old: _Keys, new: _Keys, count: StepCount, most: int) -> Iterator[_Move]:
    """Yield the moves through both texts: shared ends first, then the shortest way or one along shared lines."""
    head = _shared(old, new, count)
    old, new = old[head:], new[head:]
    tail = _shared(old[::-1], new[::-1], count)
    old, new = old[: len(old) - tail], new[: len(new) - tail]
    yield from [(0, 0)] * head
    shortest = _shortest(old, new, most, count)
    yield from shortest if shortest is not None else _between_anchors(old, new, count)
    yield from [(0, 0)] * tail


def _shared(old: _Keys, new: _Keys, count: StepCount) -> int:
    """Return the number of lines at the beginning that both share."""
    size = next((at for at, (one, other) in enumerate(zip(old, new, strict=False)) if one != other), None)
    size = min(len(old), len(new)) if size is None else size
    count.steps += size
    return size


def _shortest(old: _Keys, new: _Keys, most: int, count: StepCount) -> list[_Move] | None:
    """Return the moves with the fewest changes; None if that needs more than `most`."""
    if not old or not new:
        return [(len(old), len(new))] if old or new else []
    most = min(most, len(old) + len(new))
    furthest = array("q", [0]) * (2 * most + 3)
    trace: list[array[int]] = []
    for changes in range(most + 1):
        low, high = most + 1 - changes, most + 1 + changes
        trace.append(furthest[low - 1 : high + 2])
        for at in range(low, high + 1, 2):
            count.steps += 1
            down = at == low or (at != high and furthest[at - 1] < furthest[at + 1])
            x = furthest[at + 1] if down else furthest[at - 1] + 1
            y = x - (at - most - 1)
            while x < len(old) and y < len(new) and old[x] == new[y]:
                x, y = x + 1, y + 1
                count.steps += 1
            furthest[at] = x
            if x >= len(old) and y >= len(new):
                return _back(trace, len(old), len(new))
    return None


def _back(trace: Sequence[Sequence[int]], x: int, y: int) -> list[_Move]:
    """Return the moves of the search that ended at (x, y)."""
    moves: list[_Move] = []
    for changes in range(len(trace) - 1, -1, -1):
        furthest, diagonal = trace[changes], x - y
        at = diagonal + changes + 1  # the slice begins one diagonal below the lowest
        down = diagonal == -changes or (diagonal != changes and furthest[at - 1] < furthest[at + 1])
        from_x = furthest[at + 1] if down else furthest[at - 1]
        from_y = from_x - (diagonal + 1 if down else diagonal - 1)
        if changes == 0:
            from_x = from_y = 0
        start_x = from_x if down or changes == 0 else from_x + 1
        moves.extend([(0, 0)] * (x - start_x))
        if changes:
            moves.append((0, 1) if down else (1, 0))
        x, y = from_x, from_y
    return moves[::-1]


def _between_anchors(old: _Keys, new: _Keys, count: StepCount) -> Iterator[_Move]:
    """Yield moves along the lines that both texts have once, in so far as their order is the same."""
    at_old = at_new = 0
    for x, y in [*_anchors(old, new, count), (len(old), len(new))]:
        gap_old, gap_new = old[at_old:x], new[at_new:y]
        small = len(gap_old) + len(gap_new) <= _SMALL_GAP
        shortest = _shortest(gap_old, gap_new, _SMALL_GAP, count) if small else None
        yield from [(len(gap_old), len(gap_new))] if shortest is None else shortest
        if x < len(old) and y < len(new):
            yield 0, 0
        at_old, at_new = x + 1, y + 1


_SMALL_GAP = 32
"""Lines between two anchors that are still compared, which limits the steps per line."""


def _anchors(old: _Keys, new: _Keys, count: StepCount) -> list[tuple[int, int]]:
    """Return the longest rising chain of lines that are unique in both texts."""
    in_old, in_new = Counter(old), Counter(new)
    place = {key: y for y, key in enumerate(new) if in_new[key] == 1}
    pairs = [(x, place[key]) for x, key in enumerate(old) if in_old[key] == 1 and key in place]
    count.steps += len(old) + len(new)
    tops: list[int] = []
    ends: list[int] = []
    before: list[int] = []
    for number, (_, y) in enumerate(pairs):
        at = bisect.bisect_left(tops, y)
        before.append(ends[at - 1] if at else -1)
        tops[at : at + 1] = [y]
        ends[at : at + 1] = [number]
    chain: list[tuple[int, int]] = []
    number = ends[-1] if ends else -1
    while number >= 0:
        chain.append(pairs[number])
        number = before[number]
    return chain[::-1]


MAX_VALUE_CHANGES = 10_000
"""The most changed values of a comparison."""
_IFRAME = re.compile(r"\[iframe\]\([^)\n]*\)")


def is_same_text(old: str, new: str) -> bool:
    """Return whether two texts in Markdown count as equal: they have the same characters, each equally often.

    White space and embedded frames do not count, and neither does the order: text that only moved is the same.
    """
    return old == new or Counter(_essence(old)) == Counter(_essence(new))


def _essence(markdown: str) -> str:
    return "".join(_IFRAME.sub("", markdown).split())


def changed_keys(old: Any, new: Any) -> Json:
    """Return `{key: {previous, current}}` for the top-level keys of two extractions whose values differ."""
    before = old if isinstance(old, Mapping) else {}
    after = new if isinstance(new, Mapping) else {}
    return {
        key: {"previous": before.get(key), "current": after.get(key)}
        for key in dict.fromkeys((*before, *after))
        if not _is_equal(before.get(key), after.get(key))
    }


def _is_equal(one: Any, other: Any) -> bool:
    # In Python 1 == True == 1.0; in JSON only the numbers are equal.
    if isinstance(one, bool) is not isinstance(other, bool):
        return False
    match one, other:
        case Mapping(), Mapping():
            return one.keys() == other.keys() and all(_is_equal(one[key], other[key]) for key in one)
        case list(), list():
            return len(one) == len(other) and all(map(_is_equal, one, other))
    return bool(one == other)


def changed_paths(old: Any, new: Any) -> Json:
    """Return `{path: {previous, current}}` for the values of two extractions that differ, such as `jobs[1].pay`.

    Strings that differ only in white space or in the form of their Unicode are equal.
    """
    changes: Json = {}
    for path, before, after in _leaves(old, new):
        if len(changes) == MAX_VALUE_CHANGES:
            break
        changes[path] = {"previous": before, "current": after}
    return changes


def _leaves(old: Any, new: Any) -> Iterator[tuple[str, Any, Any]]:
    """Yield the differences in the order of the page, with a stack of its own for values of any depth."""
    stack: list[tuple[str, Any, Any]] = [("", old, new)]
    while stack:
        path, before, after = stack.pop()
        if isinstance(before, Mapping) and isinstance(after, Mapping):
            keys = dict.fromkeys((*before, *after))
            inner = [(f"{path}.{key}" if path else key, before.get(key), after.get(key)) for key in keys]
            stack.extend(reversed(inner))
        elif _is_list(before) and _is_list(after):
            size = max(len(before), len(after))
            stack.extend((f"{path}[{at}]", _item(before, at), _item(after, at)) for at in reversed(range(size)))
        elif not _is_equal(_folded(before), _folded(after)):
            yield path, before, after


def _is_list(value: Any) -> bool:
    return isinstance(value, Sequence) and not isinstance(value, str)


def _item(values: Sequence[Any], at: int) -> Any:
    return values[at] if at < len(values) else None


def _folded(value: Any) -> Any:
    return " ".join(unicodedata.normalize("NFC", value).split()) if isinstance(value, str) else value


OLD_NAME, NEW_NAME = "previous.md", "current.md"
CONTEXT = 3
"""Shared lines that are shown before and after a change."""
_HEAD = "=" * 67 + f"\n--- {OLD_NAME}\t\n+++ {NEW_NAME}\t\n"
_SIGNS = {"normal": " ", "del": "-", "add": "+"}
_NO_NEWLINE = "\\ No newline at end of file\n"


@dataclass(frozen=True, slots=True)
class PageDiff:
    """The changes of a page's Markdown."""

    text: str
    tree: Json
    """The same as `{files: [{from, to, additions, deletions, chunks}]}`."""


@dataclass(frozen=True, slots=True)
class DiffHunk:
    """Changes close together, and the shared lines around them."""

    old_start: int
    """Number of the first line in the old text, from 1."""
    new_start: int
    edits: Sequence[LineEdit]

    @property
    def old_lines(self) -> int:
        """Its number of lines of the old text."""
        return sum(edit.kind != "add" for edit in self.edits)

    @property
    def new_lines(self) -> int:
        """Its number of lines of the new text."""
        return sum(edit.kind != "del" for edit in self.edits)

    @property
    def head(self) -> str:
        """The `@@` line. The line before an empty range counts as its start, as in every unified diff."""
        old = self.old_start - (self.old_lines == 0)
        new = self.new_start - (self.new_lines == 0)
        return f"@@ -{old},{self.old_lines} +{new},{self.new_lines} @@"


def diff_pages(old: str, new: str, count: StepCount | None = None) -> PageDiff:
    """Return the difference of two texts in Markdown. The work is limited for any texts."""
    hunks = list(_hunks(diff_lines(split_lines(old), split_lines(new), count)))
    lines = (line for hunk in hunks for line in (f"{hunk.head}\n", *map(_line, hunk.edits)))
    return PageDiff(_HEAD + "".join(lines), {"files": [_file(hunks)]})


def compare_texts(old: str, new: str, with_diff: bool) -> Json | None:
    """Return the difference as `{text, tree}`, with nulls if it was not asked for; None for equal texts."""
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
