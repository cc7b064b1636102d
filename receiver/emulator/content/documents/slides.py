"""PowerPoint files: the text of each slide, with its lists, links, tables and notes."""

import posixpath
import re
from typing import Any

from receiver.emulator.content.documents import markup
from receiver.emulator.content.documents.markup import (
    Archive,
    BlockWriter,
    DocumentText,
    UnreadableDocument,
    walk_xml,
)

_SLIDE = re.compile(r"ppt/slides/slide(\d{1,6})\.xml")
_PRESENTATION = "ppt/presentation.xml"
_TITLES = ("title", "ctrTitle")
_LISTED = ("", "body", "obj")
_AROUND = ("dt", "ftr", "hdr", "sldNum", "sldImg")


def read_pptx(body: bytes, _options: dict[str, Any]) -> DocumentText:
    """Return the slides of a .pptx file, in their order, each with what its notes say."""
    archive = Archive(body)
    title = markup.title_in(archive.read_if_there("docProps/core.xml"))
    parts = []
    for name in _ordered(archive):
        links, notes = _relations(archive, name)
        parts.append(_Slide(archive.read(name), links).html())
        if notes in archive.names and (text := _Slide(archive.read(notes), {}, is_notes=True).html()):
            parts.append(f"<blockquote>{text}</blockquote>\n")
    return DocumentText(markup.page(title, *parts), title=title)


def _ordered(archive: Archive) -> list[str]:
    """Return the names of the slides, in the order of the presentation, or else of their numbers."""
    numbered = {name: int(found[1]) for name in archive.names if (found := _SLIDE.fullmatch(name))}
    ids: list[str] = []

    def start(name: str, attributes: dict[str, str]) -> None:
        if name == "sldId" and (target := targets.get(attributes.get(_RELATION, ""))):
            ids.append(target)

    targets = _targets(archive, _PRESENTATION)
    if targets and _PRESENTATION in archive.names:
        walk_xml(archive.read(_PRESENTATION), start, attributes_with_namespaces=True)
    listed = [name for name in dict.fromkeys(ids) if name in numbered]
    return listed or sorted(numbered, key=lambda name: numbered[name])


_RELATION = "http://schemas.openxmlformats.org/officeDocument/2006/relationships id"


def _relations(archive: Archive, name: str) -> tuple[dict[str, str], str]:
    """Return the links of a slide by their ids, and the name of its notes."""
    links: dict[str, str] = {}
    notes = ""

    def start(element: str, attributes: dict[str, str]) -> None:
        nonlocal notes
        kind, target = attributes.get("Type", ""), attributes.get("Target", "")
        if element == "Relationship" and kind.endswith("/hyperlink"):
            links[attributes.get("Id", "")] = target
        elif element == "Relationship" and kind.endswith("/notesSlide"):
            notes = posixpath.normpath(posixpath.join(posixpath.dirname(name), target))

    if body := archive.read_if_there(_relations_name(name)):
        walk_xml(body, start)
    return links, notes


def _targets(archive: Archive, name: str) -> dict[str, str]:
    """Return the names of the parts that a part relates to, by their ids."""
    targets: dict[str, str] = {}

    def start(element: str, attributes: dict[str, str]) -> None:
        if element == "Relationship":
            target = attributes.get("Target", "")
            path = target.lstrip("/") if target.startswith("/") else posixpath.join(posixpath.dirname(name), target)
            targets[attributes.get("Id", "")] = posixpath.normpath(path)

    if body := archive.read_if_there(_relations_name(name)):
        walk_xml(body, start)
    return targets


def _relations_name(name: str) -> str:
    folder, file = posixpath.split(name)
    return f"{folder}/_rels/{file}.rels"


class _Slide:
    """Collects the text of one slide, or of its notes."""

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
        if self._in_table:
            self._blocks.break_cell()
        elif self._place in _TITLES:
            self._blocks.end_heading(2)
        elif self._is_listed(bullet):
            self._blocks.end_item(level, is_ordered=bullet == "buAutoNum")
        else:
            self._blocks.end_paragraph()

    def _is_listed(self, bullet: str | None) -> bool:
        """Tell whether a paragraph is an item: those in the body of a slide are, unless they say otherwise."""
        if bullet is not None:
            return bullet != "buNone"
        return self._place in _LISTED and not self._is_notes

    def _text(self, data: str) -> None:
        if self._in_text and self._place not in _AROUND:
            self._blocks.add(data, bold=self._bold, italic=self._italic, href=self._href)
