"""The text of a PDF, page by page, with pypdf. A PDF of pictures has none: there is no OCR here.

A PDF has neither tables nor headings, only texts at places. Headings are recognized by the size of their letters,
items by their mark, and tables by rows of short texts that begin or end one below the other. What is not plainly a
table stays lines: cells of several lines, cells over several columns, columns of prose, and rows that a program has
written as one text.
"""

import math
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from html import escape
from io import BytesIO
from typing import Any, Literal

from pypdf import PageObject, PdfReader
from pypdf.errors import PyPdfError

from receiver.emulator.content.documents.markup import MAX_TEXT, DocumentText, UnreadableDocument, page_of, table_of

_FEWEST_ROWS = 3
_MOST_COLUMNS = 20
_LONGEST_CELL = 80
_LETTER = 0.5
"""The width of a letter as a part of its size: a guess, since only the font has it."""
_GAP = 0.7
"""The least distance of two cells as a part of the size; words of a sentence are closer."""
_MARK = re.compile(
    r"[\u2022\u2023\u25aa\u25ab\u25cf\u25cb\u25e6\u2043\uf0b7].*|[*-]|\(?(\d{1,3}|[a-z]|[ivx]{1,5})[.)]"
)
_NUMBER = re.compile(r"[^\w\s]{0,2}\s?\d[\d.,:'\s/%-]{0,14}[^\d\s]{0,3}")
_SAME_PLACE = 1.5
"""The most points between the beginnings of two texts that begin one below the other."""
_LEADER = re.compile(r"[.\s\u2026\u00b7_-]+")


@dataclass(frozen=True, slots=True)
class PlacedText:
    """A piece of text, with its place on the page."""

    text: str
    """As it was read, with its blanks."""
    size: float
    """The size of its letters before the page is scaled; 0 if it is unknown."""
    x: float
    """Of its beginning, from the left, in points."""
    y: float
    """From the bottom, in points."""
    scale: float = 1.0

    @property
    def height(self) -> float:
        """The size of its letters, in points."""
        return self.size * self.scale

    @property
    def end(self) -> float:
        """About where it ends, from the left, in points."""
        return self.x + len(self.text.strip()) * self.height * _LETTER


@dataclass(frozen=True, slots=True)
class FoundTable:
    """Pieces of text that are a table."""

    first: int
    """The place of its first piece in the page's pieces."""
    after: int
    rows: tuple[tuple[str, ...], ...]
    """Its cells, as many in each row; empty ones too."""


@dataclass(slots=True)
class _Cell:
    text: str
    x: float
    end: float


@dataclass(slots=True)
class _Row:
    first: int
    after: int
    cells: list[_Cell]


def tables_in(pieces: Sequence[PlacedText]) -> list[FoundTable]:
    """Return the tables among the pieces of a page, in order."""
    found: list[FoundTable] = []
    run: list[_Row] = []
    widest: _Row | None = None
    for row in [*_rows(pieces), None]:
        is_row = row is not None and _can_be_row(row)
        if row is not None and is_row and (widest is None or _fits(row, widest)):
            run.append(row)
            widest = row if widest is None or len(row.cells) > len(widest.cells) else widest
            continue
        if widest is not None and (table := _table(run, widest)) is not None:
            found.append(table)
        run, widest = ([row], row) if row is not None and is_row else ([], None)
    return found


def _rows(pieces: Sequence[PlacedText]) -> list[_Row]:
    """Return the rows: pieces that follow one another at one height, each further to the right."""
    rows: list[_Row] = []
    last: PlacedText | None = None
    for place, piece in enumerate(pieces):
        text = piece.text.strip()
        if not text:
            if rows:
                rows[-1].after = place + 1
            continue
        goes_on = last is not None and abs(piece.y - last.y) <= 0.2 * piece.height and piece.x > last.x
        if not goes_on or last is None:
            rows.append(_Row(place, place + 1, [_Cell(text, piece.x, piece.end)]))
        elif piece.x - last.end < _GAP * piece.height:
            cell = rows[-1].cells[-1]
            blank = " " if piece.text[:1].isspace() or last.text[-1:].isspace() else ""
            if len(cell.text) <= _LONGEST_CELL:  # longer texts are in no table
                cell.text = f"{cell.text}{blank}{text}"
            cell.end, rows[-1].after = piece.end, place + 1
        else:
            rows[-1].cells.append(_Cell(text, piece.x, piece.end))
            rows[-1].after = place + 1
        last = piece
    return rows


def _can_be_row(row: _Row) -> bool:
    texts = [cell.text for cell in row.cells]
    return (
        2 <= len(texts) <= _MOST_COLUMNS
        and not any("\n" in text or len(text) > _LONGEST_CELL or _LEADER.fullmatch(text) for text in texts[1:])
        and not ("\n" in texts[0] or len(texts[0]) > _LONGEST_CELL or _MARK.fullmatch(texts[0]))
    )


def _fits(row: _Row, widest: _Row) -> bool:
    """Return whether each cell of a row is below one cell of the other row, which is the widest so far."""
    few, many = sorted((row, widest), key=lambda one: len(one.cells))
    return _places(few, many) is not None


def _places(row: _Row, columns: _Row) -> list[int] | None:
    """Return the column of each cell; None if a cell has none or shares one."""
    if len(row.cells) == len(columns.cells):
        return list(range(len(row.cells)))  # the words of a heading need not be above what they name
    found: list[int] = []
    for cell in row.cells:
        overlaps = [min(cell.end, one.end) - max(cell.x, one.x) for one in columns.cells]
        best = max(range(len(overlaps)), key=lambda at: overlaps[at])
        if overlaps[best] <= 0 or (found and best <= found[-1]):
            return None
        found.append(best)
    return found


def _table(run: Sequence[_Row], widest: _Row) -> FoundTable | None:
    if len(run) < _FEWEST_ROWS:
        return None
    columns: list[dict[int, _Cell]] = [{} for _ in widest.cells]
    for number, row in enumerate(run):
        places = _places(row, widest)
        if places is None:
            return None
        for place, cell in zip(places, row.cells, strict=True):
            columns[place][number] = cell
    if not all(map(_is_column, columns)):
        return None
    rows = [tuple(column[at].text if at in column else "" for column in columns) for at in range(len(run))]
    if sum(1 for row in rows if all(row)) * 2 < len(rows):
        return None  # most rows have holes: the texts are below one another by chance
    return FoundTable(run[0].first, run[-1].after, tuple(rows))


def _is_column(cells: dict[int, _Cell]) -> bool:
    """Return whether the cells below the first row begin at one place, or are numbers."""
    below = [cell for number, cell in cells.items() if number > 0]
    if not below:
        return False
    places = [cell.x for cell in below]
    return max(places) - min(places) <= _SAME_PLACE or all(_NUMBER.fullmatch(cell.text) for cell in below)


_LARGER = 1.15
"""How much larger a heading is than most text, at least."""
_LONGEST_HEADING = 200
_MOST_LEVELS = 4
_BULLET = re.compile(r"[\u2022\u2023\u25aa\u25ab\u25cf\u25cb\u25e6\u2043\uf0b7]\s*")
_HASHES = re.compile(r"^#{1,6} ")
_SAME = re.compile(r"\s+")

LineKind = Literal["text", "heading", "item", "blank", "table"]
Rows = tuple[tuple[str, ...], ...]


@dataclass(frozen=True, slots=True)
class SizedLine:
    """One line of a page."""

    text: str
    size: float
    """The size of most of its letters, in points; 0 if it is unknown."""
    rows: Rows = ()
    """The cells of a table, which replaces its lines."""


@dataclass(frozen=True, slots=True)
class TextLine:
    """One line with its role in the text."""

    kind: LineKind
    text: str
    """Without a bullet."""
    level: int = 0
    """Of a heading: 1 for the largest."""
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
    """Return the place of a text on its page, and the scale of the page there."""
    try:
        a, b, c, d, e, f = map(float, matrix)
        x, y = float(placed[4]), float(placed[5])
    except (TypeError, ValueError, IndexError, OverflowError):
        return 0.0, 0.0, 1.0
    return a * x + c * y + e, b * x + d * y + f, math.hypot(a, b)


def _size(placed: Any, size: Any) -> float:
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
    """Return the lines of all pages with their kinds, which depend on the whole document."""
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
    """Return the lines, with headings and items of several lines joined."""
    found: list[TextLine] = []
    for line in lines:
        last = found[-1] if found else None
        if last is not None and last.kind == line.kind == "heading" and last.level == line.level:
            found[-1] = TextLine("heading", f"{last.text} {line.text}"[:1000], line.level)
        elif last is not None and last.kind == "item" and line.kind == "text" and _continues(last.text, line.text):
            found[-1] = TextLine("item", f"{last.text} {line.text}".lstrip()[:5000])
        else:
            found.append(line)
    return found


def _continues(item: str, line: str) -> bool:
    return not item or (line[0].islower() and not item.endswith((".", ":", "!", "?", ";")))


def markdown_of(lines: Iterable[TextLine]) -> str:
    """Return the Markdown of a page."""
    parts: list[str] = []
    before: LineKind = "blank"
    for line in lines:
        if {"heading", "table"} & {line.kind, before} or (line.kind == "item") != (before == "item"):
            parts.append("")
        mark = "#" * line.level + " " if line.kind == "heading" else "- " if line.kind == "item" else ""
        parts.append(_written_table(line.rows) if line.rows else mark + _HASHES.sub(r"\\\g<0>", line.text))
        before = line.kind
    return re.sub(r"\n{3,}", "\n\n", "\n".join(parts)).strip()


def _written_table(rows: Rows) -> str:
    head, *others = ["| " + " | ".join(text.replace("|", "\\|") for text in row) + " |" for row in rows]
    return "\n".join([head, "|" + " --- |" * len(rows[0]), *others])


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
            parts.append(table_of(line.rows))
        elif line.kind == "heading":
            parts.append(f"<h{line.level}>{escape(line.text)}</h{line.level}>\n")
    return "".join(parts)


_MOST_PAGES = 10_000
_MOST_LINKS = 5_000


def read_pdf(body: bytes, options: dict[str, Any]) -> DocumentText:
    """Return the text of a PDF. In the mode `fast`, a PDF without text raises UnreadableDocument."""
    try:
        reader = PdfReader(BytesIO(body))
        if reader.is_encrypted and not reader.decrypt(""):
            raise UnreadableDocument("The PDF is encrypted.")
        total = len(reader.pages)
    except (PyPdfError, OSError, NotImplementedError) as error:
        raise UnreadableDocument(f"The PDF cannot be read: {type(error).__name__}.") from error
    most = min(int(options.get("maxPages") or _MOST_PAGES), _MOST_PAGES)
    found = DocumentText(total=total, title=_title(reader))
    links: dict[str, None] = {}
    size = 0
    pages: list[list[SizedLine]] = []
    for page in reader.pages[:most]:
        lines = [] if size > MAX_TEXT else lines_of(page)
        size += sum(len(line.text) for line in lines)
        pages.append(lines)
        for link in _links(page):
            if len(links) < _MOST_LINKS:
                links.setdefault(link)
    lines_of_pages = with_kinds(pages)
    found.pages = [markdown_of(lines) for lines in lines_of_pages]
    _judge(found, options, size)
    anchors = [f'<p><a href="{escape(link)}">{escape(link)}</a></p>\n' for link in links]
    found.html = page_of(found.title, *map(html_of, lines_of_pages), *anchors)
    return found


def _judge(found: DocumentText, options: dict[str, Any], size: int) -> None:
    if not any(found.pages):
        # The service reads the pictures, but not in this mode.
        if options.get("mode") == "fast":
            raise UnreadableDocument("The PDF has no text. It would need OCR.", "SCRAPE_PDF_OCR_REQUIRED")
        found.warnings.append("The PDF has no text, only pictures: the emulator has no OCR to read them.")
        return
    if not all(found.pages):
        found.warnings.append("Some pages of the PDF have no text; they would need OCR, which is not here.")
    if size > MAX_TEXT:
        found.warnings.append("The text of the PDF is too long; not all of it was taken.")
    if options.get("mode") == "ocr":
        found.warnings.append("parsers: the mode ocr has no effect here; the text of the PDF was taken.")


def _title(reader: PdfReader) -> str:
    try:
        return str((reader.metadata.title if reader.metadata else None) or "").strip()
    except (PyPdfError, ValueError, TypeError, AttributeError):
        return ""


def _links(page: PageObject) -> Iterator[str]:
    try:
        annotations: list[Any] = list(page.annotations or [])
        for one in annotations:
            action = one.get_object().get("/A")
            address = action.get_object().get("/URI") if action is not None else None
            if isinstance(address, str) and address.startswith(("http://", "https://")):
                yield str(address)
    except (PyPdfError, ValueError, TypeError, AttributeError):
        return
