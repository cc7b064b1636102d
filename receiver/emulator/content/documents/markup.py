"""The text of documents as HTML, and the archives of XML that many of them are."""

import re
import zipfile
import zlib
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from html import escape
from io import BytesIO
from itertools import groupby
from operator import itemgetter
from typing import Any
from xml.parsers import expat

MAX_TEXT = 20_000_000
"""Characters of a document's text; the rest is left out, with a warning."""


def words_of(text: str) -> frozenset[str]:
    """Return the words of a text as a set."""
    return frozenset(text.split())


class UnreadableDocument(Exception):
    """A document cannot be read. `code` is the service's."""

    def __init__(self, text: str, code: str = "SCRAPE_ALL_ENGINES_FAILED") -> None:
        super().__init__(text)
        self.code = code


@dataclass(slots=True)
class DocumentText:
    """The text of a document, as its process returns it."""

    html: str = ""
    pages: list[str] = field(default_factory=list)
    """Of a PDF: the text of each page that was read."""
    total: int = 0
    """Of a PDF: how many pages there are."""
    title: str = ""
    warnings: list[str] = field(default_factory=list)


MOST_ENTRIES = 5_000
MOST_BYTES = 200_000_000
DEEPEST = 300

Start = Callable[[str, dict[str, str]], Any]
End = Callable[[str], Any]
Text = Callable[[str], Any]


class Archive:
    """A zip archive of XML, within limits of entries, bytes and depth. Raises UnreadableDocument for others."""

    def __init__(self, body: bytes) -> None:
        try:
            self._zip = zipfile.ZipFile(BytesIO(body))
        except (zipfile.BadZipFile, ValueError, OSError) as error:
            raise UnreadableDocument("The file is not a whole zip archive.") from error
        entries = self._zip.infolist()
        # zipfile gives no more bytes of an entry than it declares, so the sum of these is a limit.
        if len(entries) > MOST_ENTRIES or sum(entry.file_size for entry in entries) > MOST_BYTES:
            raise UnreadableDocument("The file holds too much once it is unpacked.")
        if any(entry.flag_bits & 1 for entry in entries):
            raise UnreadableDocument("The file is encrypted.")
        self.names = tuple(entry.filename for entry in entries)

    def read(self, name: str) -> bytes:
        """Return an entry. Raises UnreadableDocument without it."""
        try:
            return self._zip.read(name)
        except (KeyError, zipfile.BadZipFile, zlib.error, EOFError, NotImplementedError, OSError) as error:
            raise UnreadableDocument(f"The file has no readable {name[:80]!r}.") from error

    def read_if_there(self, name: str) -> bytes:
        """Return an entry; empty without it."""
        return self.read(name) if name in self.names else b""

    def check_xml(self) -> None:
        """Raise UnreadableDocument if some XML declares entities or is nested too deep."""
        for name in self.names:
            if name.endswith((".xml", ".rels")):
                walk_xml(self.read(name))


def walk_xml(
    body: bytes,
    start: Start | None = None,
    end: End | None = None,
    text: Text | None = None,
    *,
    attributes_with_namespaces: bool = False,
) -> None:
    """Parse XML without entities; names come without their namespace. Raises UnreadableDocument for unsafe XML.

    Attributes can keep their namespace, before a blank: some differ in nothing else.
    """
    depth = 0

    def on_start(name: str, attributes: dict[str, str]) -> None:
        nonlocal depth
        depth += 1
        if depth > DEEPEST:
            raise UnreadableDocument("The XML in the file is nested too deep.")
        if start is not None:
            kept = attributes_with_namespaces
            start(_local(name), attributes if kept else {_local(key): value for key, value in attributes.items()})

    def on_end(name: str) -> None:
        nonlocal depth
        depth -= 1
        if end is not None:
            end(_local(name))

    def on_doctype(*_: object) -> None:
        raise UnreadableDocument("The XML in the file declares a document type.")

    parser = expat.ParserCreate(namespace_separator=" ")
    parser.buffer_text = True
    parser.StartElementHandler, parser.EndElementHandler = on_start, on_end
    parser.StartDoctypeDeclHandler = on_doctype
    if text is not None:
        parser.CharacterDataHandler = text
    try:
        parser.Parse(body, True)
    except expat.ExpatError as error:
        raise UnreadableDocument("The XML in the file is not well-formed.") from error


def _local(name: str) -> str:
    return name.rpartition(" ")[2]


def table_of(rows: Iterable[Sequence[str]]) -> str:
    """Return a table of texts; its first row is the heading."""
    return html_table([escape(value) for value in row] for row in rows)


def html_table(rows: Iterable[Sequence[str]]) -> str:
    """Return a table of cells that are HTML already; its first row is the heading."""
    lines = []
    for number, row in enumerate(rows):
        cell = "th" if number == 0 else "td"
        lines.append("<tr>" + "".join(f"<{cell}>{value}</{cell}>" for value in row) + "</tr>")
    return "<table>\n" + "\n".join(lines) + "\n</table>\n" if lines else ""


def page_of(title: str, *parts: str) -> str:
    """Return a whole page of parts that are HTML already."""
    return f"<!DOCTYPE html><html><head><title>{escape(title)}</title></head><body>{''.join(parts)}</body></html>"


def title_in(core: bytes) -> str:
    """Return the title in the properties of an office document; empty without one."""
    found: list[str] = []
    inside = False

    def start(name: str, _attributes: dict[str, str]) -> None:
        nonlocal inside
        inside = name == "title"

    def end(_name: str) -> None:
        nonlocal inside
        inside = False

    def text(data: str) -> None:
        if inside:
            found.append(data)

    if core:
        walk_xml(core, start, end, text)
    return "".join(found).strip()


_DEEPEST_LIST = 9
_EDGES = re.compile(r"\A(?:\s|<br>)+|(?:\s|<br>)++\Z")


class BlockWriter:
    """Collects runs of text, and makes a block of HTML of them once its kind is known."""

    def __init__(self) -> None:
        self._parts: list[str] = []
        self._runs: list[tuple[str, bool, bool, str]] = []
        self._lists: list[str] = []
        self._rows: list[list[str]] = []
        self._cells: list[str] = []

    def add(self, text: str, *, bold: bool = False, italic: bool = False, href: str = "") -> None:
        """Add a run of text; neighbours of the same form become one."""
        self._runs.append((text, bold, italic, href))

    def end_paragraph(self) -> None:
        """Make a paragraph of what was added, unless that is blank."""
        if html := self._taken():
            self._close()
            self._parts.append(f"<p>{html}</p>\n")

    def end_heading(self, level: int) -> None:
        """Make a heading, without emphasis."""
        self._runs = [(text, False, False, href) for text, _, _, href in self._runs]
        if html := self._taken():
            self._close()
            level = min(max(level, 1), 6)
            self._parts.append(f"<h{level}>{html}</h{level}>\n")

    def end_item(self, level: int, *, is_ordered: bool) -> None:
        """Make an item of a list, beginning one if necessary; level 0 is the outermost."""
        html = self._taken()
        if not html:
            return
        self.end_table()
        tag = "ol" if is_ordered else "ul"
        depth = min(max(level, 0), _DEEPEST_LIST, len(self._lists)) + 1
        while len(self._lists) > depth or (len(self._lists) == depth and self._lists[-1] != tag):
            self._parts.append(f"</li></{self._lists.pop()}>\n")
        if len(self._lists) < depth:
            self._lists.append(tag)
            self._parts.append(f"<{tag}><li>{html}")
        else:
            self._parts.append(f"</li><li>{html}")

    def break_cell(self) -> None:
        """End a paragraph inside a cell."""
        if self._runs:
            self.add(" ")

    def end_cell(self, times: int = 1) -> None:
        """Add a cell to the row that is being written, or some equal ones."""
        self._cells += [self._taken()] * times

    def end_row(self) -> None:
        """Add a row to the table, beginning one if necessary."""
        if any(self._cells):
            self._end_lists()
            self._rows.append(self._cells)
        self._cells = []

    def html(self) -> str:
        """Return all blocks; text that was not ended is a paragraph."""
        self.end_row()
        self.end_paragraph()
        self._close()
        return "".join(self._parts)

    def _close(self) -> None:
        self._end_lists()
        self.end_table()

    def _end_lists(self) -> None:
        while self._lists:
            self._parts.append(f"</li></{self._lists.pop()}>\n")

    def end_table(self) -> None:
        """Write the table; the next row begins another."""
        if self._rows:
            widths = [max((at for at, cell in enumerate(row, 1) if cell), default=0) for row in self._rows]
            width = max(widths)
            self._parts.append(html_table([*row[:width], *[""] * (width - len(row))] for row in self._rows))
            self._rows = []

    def _taken(self) -> str:
        """Return what was added as HTML, and forget it."""
        runs, self._runs = self._runs, []
        forms = groupby(runs, key=itemgetter(1, 2, 3))
        html = "".join(_run("".join(run[0] for run in same), *form) for form, same in forms)
        return _EDGES.sub("", html)


def _run(text: str, bold: bool, italic: bool, href: str) -> str:
    html = escape(text, quote=False).replace("\n", "<br>")
    if not text.strip():
        return html
    core = html.strip()  # emphasis has no blanks inside
    lead, _, trail = html.partition(core)
    if href:
        core = f'<a href="{escape(href)}">{core}</a>'
    if italic:
        core = f"<em>{core}</em>"
    if bold:
        core = f"<strong>{core}</strong>"
    return f"{lead}{core}{trail}"
