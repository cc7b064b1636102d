"""OpenDocument files, whose texts, spreadsheets and presentations have the same elements, and books in EPUB."""

import posixpath
import re
from typing import Any
from urllib.parse import unquote

from receiver.emulator.content.documents.markup import (
    Archive,
    BlockWriter,
    DocumentText,
    UnreadableDocument,
    page_of,
    title_in,
    walk_xml,
    words_of,
)

_SKIPPED = words_of(
    "tracked-changes annotation note-citation binary-data scripts font-face-decls notes automatic-styles styles"
    " master-styles settings meta forms sequence-decls"
)
_MOST_SPACES = 100
_MOST_REPEATED = 100
_BY_STYLE = {"Title": 1, "Subtitle": 2}
_MOST_STYLES = 20_000


def read_odt(body: bytes, _options: dict[str, Any]) -> DocumentText:
    """Return the text of an .odt, .ods or .odp file."""
    archive = Archive(body)
    title = title_in(archive.read_if_there("meta.xml"))
    styles = _Styles()
    content = archive.read("content.xml")
    for part in (archive.read_if_there("styles.xml"), content):
        if part:
            styles.read(part)
    return DocumentText(page_of(title, _Content(content, styles).html()), title=title)


class _Styles:
    """The meaning of styles for the format of a text."""

    def __init__(self) -> None:
        self.bold: set[str] = set()
        self.italic: set[str] = set()
        self.headings: dict[str, int] = dict(_BY_STYLE)
        self.ordered: set[tuple[str, int]] = set()
        self._name = self._list = ""

    def read(self, body: bytes) -> None:
        """Take the styles of one part of the file."""
        walk_xml(body, self._start)

    def _start(self, name: str, attributes: dict[str, str]) -> None:
        if len(self.bold) + len(self.italic) + len(self.headings) + len(self.ordered) > _MOST_STYLES:
            return
        if name == "style":
            self._name = attributes.get("name", "")
            parent = attributes.get("parent-style-name", "")
            if parent in self.headings:
                self.headings.setdefault(self._name, self.headings[parent])
        elif name == "text-properties":
            if attributes.get("font-weight") in ("bold", "700", "800", "900"):
                self.bold.add(self._name)
            if attributes.get("font-style") in ("italic", "oblique"):
                self.italic.add(self._name)
        elif name == "list-style":
            self._list = attributes.get("name", "")
        elif name == "list-level-style-number" and attributes.get("num-format"):
            self.ordered.add((self._list, _number(attributes.get("level"), 1)))


class _Content:
    def __init__(self, body: bytes, styles: _Styles) -> None:
        self._styles = styles
        self._blocks = BlockWriter()
        self._skipping = self._tables = self._pages = 0
        self._lists: list[str] = []
        self._forms = [(False, False, "")]
        self._open: list[bool] = []
        self._is_title = self._is_sheet = False
        self._level: int | None = None
        self._cells = 1
        walk_xml(body, self._start, self._end, self._text)

    def html(self) -> str:
        return self._blocks.html()

    def _start(self, name: str, attributes: dict[str, str]) -> None:
        if name in _SKIPPED:
            self._skipping += 1
        if self._skipping:
            return
        begin = getattr(self, f"_begin_{name.replace('-', '_')}", None)
        if begin is not None:
            begin(attributes)

    def _end(self, name: str) -> None:
        if not self._skipping:
            end = getattr(self, f"_end_{name.replace('-', '_')}", None)
            if end is not None:
                end()
        if name in _SKIPPED:
            self._skipping -= 1

    def _text(self, data: str) -> None:
        if not self._skipping and self._open:
            self._add(data)

    def _add(self, text: str) -> None:
        bold, italic, href = self._forms[-1]
        self._blocks.add(text, bold=bold, italic=italic, href=href)

    def _begin_spreadsheet(self, _attributes: dict[str, str]) -> None:
        self._is_sheet = True

    def _begin_frame(self, attributes: dict[str, str]) -> None:
        self._is_title = attributes.get("class") in ("title", "subtitle")

    def _end_frame(self) -> None:
        self._is_title = False

    def _begin_h(self, attributes: dict[str, str]) -> None:
        self._open.append(True)
        self._level = _number(attributes.get("outline-level"), 1)

    def _end_h(self) -> None:
        self._end_p()
        self._level = None

    def _begin_p(self, attributes: dict[str, str]) -> None:
        self._open.append(True)
        style = attributes.get("style-name", "")
        self._level = 2 if self._is_title else self._styles.headings.get(style)
        form = (style in self._styles.bold, style in self._styles.italic, "")
        if self._level is None and any(form):
            self._forms[0] = form

    def _end_p(self) -> None:
        if self._open:
            self._open.pop()
        self._forms[0] = (False, False, "")
        if self._open:  # a paragraph in a note or a frame of another one
            self._add(" ")
        elif self._tables:
            self._blocks.break_cell()
        elif self._lists:
            self._add("\n")
        elif self._level is not None:
            self._blocks.end_heading(self._level)
        else:
            self._blocks.end_paragraph()
        self._level = None

    def _begin_a(self, attributes: dict[str, str]) -> None:
        bold, italic, _ = self._forms[-1]
        self._forms.append((bold, italic, attributes.get("href", "")))

    def _begin_span(self, attributes: dict[str, str]) -> None:
        bold, italic, href = self._forms[-1]
        style = attributes.get("style-name", "")
        self._forms.append((bold or style in self._styles.bold, italic or style in self._styles.italic, href))

    def _end_a(self) -> None:
        if len(self._forms) > 1:
            self._forms.pop()

    _end_span = _end_a

    def _begin_s(self, attributes: dict[str, str]) -> None:
        self._add(" " * min(_number(attributes.get("c"), 1), _MOST_SPACES))

    def _begin_tab(self, _attributes: dict[str, str]) -> None:
        self._add(" ")

    def _begin_line_break(self, _attributes: dict[str, str]) -> None:
        self._add("\n")

    def _begin_list(self, attributes: dict[str, str]) -> None:
        self._end_item()
        outer = self._lists[-1] if self._lists else ""
        self._lists.append(attributes.get("style-name", outer))

    def _end_list(self) -> None:
        self._end_item()
        self._lists.pop()

    def _end_item(self) -> None:
        if self._lists and not self._tables:
            level = len(self._lists)
            self._blocks.end_item(level - 1, is_ordered=(self._lists[-1], level) in self._styles.ordered)

    _end_list_item = _end_item

    def _begin_table(self, attributes: dict[str, str]) -> None:
        self._tables += 1
        if self._tables == 1:
            self._end_item()
            if self._is_sheet and attributes.get("name"):
                self._blocks.add(attributes["name"])
                self._blocks.end_heading(2)

    def _end_table(self) -> None:
        self._tables -= 1
        if not self._tables:
            self._blocks.end_table()

    def _begin_table_cell(self, attributes: dict[str, str]) -> None:
        if self._tables == 1:
            # Repeated empty cells fill the whole width of a sheet: they have no meaning.
            self._cells = _number(attributes.get("number-columns-repeated"), 1)

    def _end_table_cell(self) -> None:
        if self._tables == 1:
            self._blocks.end_cell(self._cells if self._cells < _MOST_REPEATED else 1)

    def _end_covered_table_cell(self) -> None:
        if self._tables == 1:
            self._blocks.end_cell()

    def _end_table_row(self) -> None:
        if self._tables == 1:
            self._blocks.end_row()


def _number(text: str | None, otherwise: int) -> int:
    return int(text) if text is not None and text.isascii() and text.isdigit() and len(text) < 7 else otherwise


_CONTAINER = "META-INF/container.xml"
_BODY = re.compile(r"<body[^>]*>(.*)</body\s*>", re.DOTALL | re.IGNORECASE)


def read_epub(body: bytes, _options: dict[str, Any]) -> DocumentText:
    """Return the chapters of an .epub file as one page."""
    archive = Archive(body)
    package = _package_name(archive.read(_CONTAINER))
    items, spine, title = _package(archive.read(package))
    folder = posixpath.dirname(package)
    chapters = []
    for name in dict.fromkeys(items[key] for key in spine if key in items):
        path = posixpath.normpath(posixpath.join(folder, unquote(name)))
        text = archive.read_if_there(path).decode("utf-8", "replace")
        found = _BODY.search(text)
        chapters.append(found[1] if found else text)
    return DocumentText(page_of(title, *chapters), title=title)


def _package_name(container: bytes) -> str:
    found: list[str] = []

    def start(name: str, attributes: dict[str, str]) -> None:
        if name == "rootfile" and attributes.get("full-path"):
            found.append(attributes["full-path"])

    walk_xml(container, start)
    if not found:
        raise UnreadableDocument("The book names no package file.")
    return found[0]


def _package(body: bytes) -> tuple[dict[str, str], list[str], str]:
    """Return the files by id, the ids in reading order, and the title."""
    items: dict[str, str] = {}
    spine: list[str] = []

    def start(name: str, attributes: dict[str, str]) -> None:
        if name == "item":
            items[attributes.get("id", "")] = attributes.get("href", "")
        elif name == "itemref":
            spine.append(attributes.get("idref", ""))

    walk_xml(body, start)
    return items, spine, title_in(body)
