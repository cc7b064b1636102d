"""The lines of a PDF: headings by the size of their letters, items by their mark, tables by their places."""

import math
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from html import escape
from typing import Any, Literal

from pypdf import PageObject

from receiver.service.emulator.content.documents.markup import table
from receiver.service.emulator.content.documents.pdf_tables import PlacedText, tables_in

_LARGER = 1.15
"""How much larger than most text a heading is."""
_LONGEST_HEADING = 200
_MOST_LEVELS = 4
_BULLET = re.compile(r"[\u2022\u2023\u25aa\u25ab\u25cf\u25cb\u25e6\u2043\uf0b7]\s*")
_HASHES = re.compile(r"^#{1,6} ")
_SAME = re.compile(r"\s+")

LineKind = Literal["text", "heading", "item", "blank", "table"]
Rows = tuple[tuple[str, ...], ...]


@dataclass(frozen=True, slots=True)
class SizedLine:
    """One line as it stands on a page."""

    text: str
    """Without blanks around it."""
    size: float
    """The size of most of its letters, in points; 0 if nobody knows."""
    rows: Rows = ()
    """The cells of a table, which stands in place of its lines."""


@dataclass(frozen=True, slots=True)
class TextLine:
    """One line with its part in the text."""

    kind: LineKind
    """What it is."""
    text: str
    """Without a bullet."""
    level: int = 0
    """Of a heading: 1 is the largest."""
    rows: Rows = ()
    """Of a table: its cells. The first row is its heading."""


def lines_of(page: PageObject) -> list[SizedLine]:
    """Return the lines of a page with the sizes of their letters."""
    pieces: list[PlacedText] = []

    def visit(text: str, matrix: Any, placed: Any, _font: Any, size: Any) -> None:
        pieces.append(PlacedText(text, _size(placed, size), *_place(matrix, placed)))

    whole = page.extract_text(visitor_text=visit).strip()
    lines = list(_sized(pieces))
    if _SAME.sub("", "".join(line.text for line in lines)) == _SAME.sub("", whole):
        return list(_with_tables(pieces))
    return [SizedLine(line.strip(), 0.0) for line in whole.split("\n")]


def _with_tables(pieces: Sequence[PlacedText]) -> Iterator[SizedLine]:
    done = 0
    for found in tables_in(pieces):
        yield from _sized(pieces[done : found.first])
        size = pieces[found.first].size
        yield SizedLine(" ".join(text for row in found.rows for text in row), size, found.rows)
        done = found.after
    yield from _sized(pieces[done:])


def _place(matrix: Any, placed: Any) -> tuple[float, float, float]:
    """Return where a text begins on its page, and how the page is scaled there."""
    try:
        a, b, c, d, e, f = map(float, matrix)
        x, y = float(placed[4]), float(placed[5])
    except (TypeError, ValueError, IndexError, OverflowError):
        return 0.0, 0.0, 1.0
    return a * x + c * y + e, b * x + d * y + f, math.hypot(a, b)


def _size(placed: Any, size: Any) -> float:
    """Return the size of letters after the text is scaled to its place."""
    try:
        return round(abs(float(size)) * (abs(float(placed[2])) + abs(float(placed[3]))), 1)
    except (TypeError, ValueError, IndexError, OverflowError):
        return 0.0


def _sized(pieces: Iterable[PlacedText]) -> Iterator[SizedLine]:
    parts: list[str] = []
    sizes: Counter[float] = Counter()
    for piece in pieces:
        size = piece.size
        first, *rest = piece.text.split("\n")
        parts.append(first)
        sizes[size] += len(first.strip())
        for part in rest:
            yield _line(parts, sizes)
            parts, sizes = [part], Counter({size: len(part.strip())})
    yield _line(parts, sizes)


def _line(parts: list[str], sizes: "Counter[float]") -> SizedLine:
    return SizedLine("".join(parts).strip(), max(sizes, key=lambda size: sizes[size], default=0.0))


def with_kinds(pages: Sequence[Sequence[SizedLine]]) -> list[list[TextLine]]:
    """Return the lines of all pages with their kinds, which the whole document decides."""
    counts: Counter[float] = Counter()
    for page in pages:
        for line in page:
            counts[line.size] += len(line.text)
    usual = max(counts, key=lambda size: counts[size], default=0.0)
    larger = sorted({line.size for page in pages for line in page if _is_heading(line, usual)}, reverse=True)
    levels = {size: min(at, _MOST_LEVELS) for at, size in enumerate(larger, 1)}
    return [_joined(_kind(line, usual, levels) for line in page) for page in pages]


def _is_heading(line: SizedLine, usual: float) -> bool:
    if line.rows:
        return False
    has_letters = any(character.isalpha() for character in line.text)
    return 0 < usual * _LARGER <= line.size and len(line.text) <= _LONGEST_HEADING and has_letters


def _kind(line: SizedLine, usual: float, levels: dict[float, int]) -> TextLine:
    if line.rows:
        return TextLine("table", line.text, rows=line.rows)
    if not line.text:
        return TextLine("blank", "")
    if bullet := _BULLET.match(line.text):
        return TextLine("item", line.text[bullet.end() :])
    if _is_heading(line, usual):
        return TextLine("heading", line.text, levels[line.size])
    return TextLine("text", line.text)


def _joined(lines: Iterable[TextLine]) -> list[TextLine]:
    """Return the lines; headings and items that go over some lines are one."""
    found: list[TextLine] = []
    for line in lines:
        last = found[-1] if found else None
        if last is not None and last.kind == line.kind == "heading" and last.level == line.level:
            found[-1] = TextLine("heading", f"{last.text} {line.text}"[:1000], line.level)
        elif last is not None and last.kind == "item" and line.kind == "text" and _goes_on(last.text, line.text):
            found[-1] = TextLine("item", f"{last.text} {line.text}".lstrip()[:5000])
        else:
            found.append(line)
    return found


def _goes_on(item: str, line: str) -> bool:
    """Tell whether a line belongs to the item before it."""
    return not item or (line[0].islower() and not item.endswith((".", ":", "!", "?", ";")))


def markdown_of(lines: Iterable[TextLine]) -> str:
    """Return the Markdown of a page."""
    parts: list[str] = []
    before: LineKind = "blank"
    for line in lines:
        if {"heading", "table"} & {line.kind, before} or (line.kind == "item") != (before == "item"):
            parts.append("")
        mark = "#" * line.level + " " if line.kind == "heading" else "- " if line.kind == "item" else ""
        parts.append(_table(line.rows) if line.rows else f"{mark}{_HASHES.sub(_escaped, line.text)}")
        before = line.kind
    return re.sub(r"\n{3,}", "\n\n", "\n".join(parts)).strip()


def _table(rows: Rows) -> str:
    head, *others = ["| " + " | ".join(text.replace("|", "\\|") for text in row) + " |" for row in rows]
    return "\n".join([head, "|" + " --- |" * len(rows[0]), *others])


def _escaped(found: re.Match[str]) -> str:
    return f"\\{found[0]}"


def html_of(lines: Iterable[TextLine]) -> str:
    """Return the HTML of a page."""
    parts: list[str] = []
    paragraph: list[str] = []
    is_listed = False
    for line in [*lines, TextLine("blank", "")]:
        if line.kind != "text" and paragraph:
            parts.append(f"<p>{escape(chr(10).join(paragraph))}</p>\n")
            paragraph = []
        if is_listed != (line.kind == "item"):
            is_listed = not is_listed
            parts.append("<ul>" if is_listed else "</ul>\n")
        if line.kind == "text":
            paragraph.append(line.text)
        elif line.kind == "item":
            parts.append(f"<li>{escape(line.text)}</li>")
        elif line.kind == "table":
            parts.append(table(line.rows))
        elif line.kind == "heading":
            parts.append(f"<h{line.level}>{escape(line.text)}</h{line.level}>\n")
    return "".join(parts)
