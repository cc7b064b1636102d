"""Office files: Word with mammoth, PowerPoint, Excel with openpyxl, and CSV.

The process of a file loads the library of its format only.
"""

import csv
import posixpath
import re
from collections.abc import Iterable, Iterator, Sequence
from datetime import date, datetime
from html import escape
from io import BytesIO, StringIO
from itertools import islice
from typing import Any

from receiver.emulator.content.documents.markup import (
    MAX_TEXT,
    Archive,
    BlockWriter,
    DocumentText,
    UnreadableDocument,
    page_of,
    table_of,
    title_in,
    walk_xml,
)

_STYLES = """
p[style-name='Title'] => h1:fresh
p[style-name='Subtitle'] => h2:fresh
p[style-name='Quote'] => blockquote > p:fresh
p[style-name='Intense Quote'] => blockquote > p:fresh
p[style-name='HTML Preformatted'] => pre:separator('\\n')
p[style-name='List Bullet 2'] => ul|ol > li > ul > li:fresh
p[style-name='List Number 2'] => ul|ol > li > ol > li:fresh
p[style-name='List Bullet 3'] => ul|ol > li > ul|ol > li > ul > li:fresh
p[style-name='List Number 3'] => ul|ol > li > ul|ol > li > ol > li:fresh
"""
_FIRST_ROW = re.compile(r"<table>(<tr>.*?</tr>)", re.DOTALL)


def read_docx(body: bytes, _options: dict[str, Any]) -> DocumentText:
    """Return the text of a .docx file, without its pictures."""
    import mammoth

    archive = Archive(body)
    archive.check_xml()
    title = title_in(archive.read_if_there("docProps/core.xml"))
    without_pictures = mammoth.images.img_element(lambda _image: {"src": ""})
    result = mammoth.convert_to_html(BytesIO(body), convert_image=without_pictures, style_map=_STYLES)
    html = _FIRST_ROW.sub(_as_heading, result.value[:MAX_TEXT])
    return DocumentText(page_of(title, html), title=title)


def _as_heading(found: re.Match[str]) -> str:
    """Return the first row of a table as its heading, unless it has a table inside."""
    row = found[1]
    if "<table" in row:
        return found[0]
    return "<table>" + row.replace("<td", "<th").replace("</td>", "</th>")


_SLIDE = re.compile(r"ppt/slides/slide(\d{1,6})\.xml")
_PRESENTATION = "ppt/presentation.xml"
_TITLES = ("title", "ctrTitle")
_LISTED = ("", "body", "obj")
_AROUND = ("dt", "ftr", "hdr", "sldNum", "sldImg")


def read_pptx(body: bytes, _options: dict[str, Any]) -> DocumentText:
    """Return the slides of a .pptx file, in order, each with its notes."""
    archive = Archive(body)
    title = title_in(archive.read_if_there("docProps/core.xml"))
    parts = []
    for name in _ordered(archive):
        related = list(_relations(archive, name))
        links = {key: target for key, kind, target in related if kind.endswith("/hyperlink")}
        notes = next((_part(name, target) for _, kind, target in related if kind.endswith("/notesSlide")), "")
        parts.append(_Slide(archive.read(name), links).html())
        if notes in archive.names and (text := _Slide(archive.read(notes), {}, is_notes=True).html()):
            parts.append(f"<blockquote>{text}</blockquote>\n")
    return DocumentText(page_of(title, *parts), title=title)


def _ordered(archive: Archive) -> list[str]:
    """Return the names of the slides in the order of the presentation, or else of their numbers."""
    numbered = {name: int(found[1]) for name in archive.names if (found := _SLIDE.fullmatch(name))}
    ids: list[str] = []

    def start(name: str, attributes: dict[str, str]) -> None:
        if name == "sldId" and (target := targets.get(attributes.get(_RELATION, ""))):
            ids.append(target)

    targets = {key: _part(_PRESENTATION, target) for key, _, target in _relations(archive, _PRESENTATION)}
    if targets and _PRESENTATION in archive.names:
        walk_xml(archive.read(_PRESENTATION), start, attributes_with_namespaces=True)
    listed = [name for name in dict.fromkeys(ids) if name in numbered]
    return listed or sorted(numbered, key=lambda name: numbered[name])


_RELATION = "http://schemas.openxmlformats.org/officeDocument/2006/relationships id"


def _relations(archive: Archive, name: str) -> Iterator[tuple[str, str, str]]:
    """Yield the id, the kind and the target of each relation of a part."""
    found: list[tuple[str, str, str]] = []

    def start(element: str, attributes: dict[str, str]) -> None:
        if element == "Relationship":
            found.append((attributes.get("Id", ""), attributes.get("Type", ""), attributes.get("Target", "")))

    folder, file = posixpath.split(name)
    if body := archive.read_if_there(f"{folder}/_rels/{file}.rels"):
        walk_xml(body, start)
    yield from found


def _part(name: str, target: str) -> str:
    """Return the name of the part that is the target of a relation of another part."""
    path = target.lstrip("/") if target.startswith("/") else posixpath.join(posixpath.dirname(name), target)
    return posixpath.normpath(path)


class _Slide:
    def __init__(self, body: bytes, links: dict[str, str], *, is_notes: bool = False) -> None:
        self._links = links
        self._is_notes = is_notes
        self._blocks = BlockWriter()
        self._in_text = self._in_table = False
        self._place: str | None = None
        self._bold = self._italic = False
        self._href = ""
        self._level = 0
        self._bullet: str | None = None
        try:
            walk_xml(body, self._start, self._end, self._text, attributes_with_namespaces=True)
        except UnreadableDocument:
            if not is_notes:  # a slide is worth more than its notes
                raise

    def html(self) -> str:
        """Return the blocks."""
        return self._blocks.html()

    def _start(self, name: str, attributes: dict[str, str]) -> None:
        match name:
            case "t":
                self._in_text = True
            case "br" | "tab":
                self._blocks.add("\n" if name == "br" else " ")
            case "sp":
                self._place = None
            case "ph":
                self._place = attributes.get("type", "")
            case "pPr":
                level = attributes.get("lvl", "0")
                self._level = int(level) if level.isascii() and level.isdigit() and len(level) < 3 else 0
            case "buNone" | "buChar" | "buAutoNum":
                self._bullet = name
            case "tbl":
                self._in_table = True
            case _:
                self._start_run(name, attributes)

    def _start_run(self, name: str, attributes: dict[str, str]) -> None:
        if name == "r":
            self._bold = self._italic = False
            self._href = ""
        elif name == "rPr":
            self._bold, self._italic = attributes.get("b") == "1", attributes.get("i") == "1"
        elif name == "hlinkClick":
            self._href = self._links.get(attributes.get(_RELATION, ""), "")

    def _end(self, name: str) -> None:
        match name:
            case "t":
                self._in_text = False
            case "p":
                self._end_paragraph()
            case "tc" if self._in_table:
                self._blocks.end_cell()
            case "tr" if self._in_table:
                self._blocks.end_row()
            case "tbl":
                self._in_table = False
                self._blocks.end_table()

    def _end_paragraph(self) -> None:
        bullet, level = self._bullet, self._level
        self._bullet, self._level, self._href = None, 0, ""
        self._bold = self._italic = False
        is_in_body = (
            self._place in _LISTED and not self._is_notes
        )  # where texts are items unless they say otherwise
        if self._in_table:
            self._blocks.break_cell()
        elif self._place in _TITLES:
            self._blocks.end_heading(2)
        elif bullet not in (None, "buNone") or (bullet is None and is_in_body):
            self._blocks.end_item(level, is_ordered=bullet == "buAutoNum")
        else:
            self._blocks.end_paragraph()

    def _text(self, data: str) -> None:
        if self._in_text and self._place not in _AROUND:
            self._blocks.add(data, bold=self._bold, italic=self._italic, href=self._href)


MOST_ROWS = 20_000
MOST_COLUMNS = 500
MOST_SHEETS = 100
_LONGEST_FIELD = 1_000_000


def read_xlsx(body: bytes, _options: dict[str, Any]) -> DocumentText:
    """Return each sheet of an .xlsx file as a table; formulas as the values that were saved with them."""
    from openpyxl import load_workbook

    archive = Archive(body)
    archive.check_xml()
    found = DocumentText(title=title_in(archive.read_if_there("docProps/core.xml")))
    workbook = load_workbook(BytesIO(body), read_only=True, data_only=True, keep_links=False)
    parts = []
    for sheet in workbook.worksheets[:MOST_SHEETS]:
        if sheet.max_row is not None and sheet.max_row > MOST_ROWS:
            found.warnings.append(f"Only the first {MOST_ROWS:,} rows of a sheet were taken.")
        rows = sheet.iter_rows(max_row=MOST_ROWS, max_col=MOST_COLUMNS, values_only=True)
        parts.append(
            f"<h2>{escape(sheet.title)}</h2>\n{table_of(_trimmed([_cell(value) for value in row] for row in rows))}"
        )
    found.html = page_of(found.title, *parts)
    return found


def read_csv(body: bytes, options: dict[str, Any]) -> DocumentText:
    """Return a CSV file as a table. Its delimiter is the most frequent one in the first line."""
    text = body.decode(options.get("codec", "utf-8"), "replace").removeprefix("\ufeff").replace("\0", "")
    first = text.partition("\n")[0]
    delimiter = max(",;\t|", key=first.count)
    csv.field_size_limit(_LONGEST_FIELD)
    rows = islice(csv.reader(StringIO(text, newline=""), delimiter=delimiter), MOST_ROWS)
    found = DocumentText(html=page_of("", table_of(_trimmed(row[:MOST_COLUMNS] for row in rows))))
    if text.count("\n") > MOST_ROWS:
        found.warnings.append(f"Only the first {MOST_ROWS:,} rows were taken.")
    return found


def _cell(value: object) -> str:
    if value is None:
        return ""
    if isinstance(value, bool):
        return str(value).upper()
    if isinstance(value, datetime):
        return value.isoformat(sep=" ") if value.time().isoformat() != "00:00:00" else value.date().isoformat()
    if isinstance(value, date):
        return value.isoformat()
    if isinstance(value, float) and value.is_integer():
        return str(int(value))
    return str(value)


def _trimmed(rows: Iterable[Sequence[str]]) -> Iterator[list[str]]:
    """Yield the rows that are not empty, all as wide as the widest of them."""
    kept = []
    width = 0
    for row in rows:
        used = len(row)
        while used and not row[used - 1]:
            used -= 1
        if used:
            kept.append(list(row[:used]))
            width = max(width, used)
    for one in kept:
        yield one + [""] * (width - len(one))
