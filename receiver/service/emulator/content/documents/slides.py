"""PowerPoint files: the text of each slide, with its tables."""

import re
from typing import Any

from receiver.service.emulator.content.documents import markup
from receiver.service.emulator.content.documents.archive import Archive, walk_xml
from receiver.service.emulator.content.documents.words import DocumentText

_SLIDE = re.compile(r"ppt/slides/slide(\d{1,6})\.xml")


def read_pptx(body: bytes, _options: dict[str, Any]) -> DocumentText:
    """Return the slides of a .pptx file, in the order of their numbers."""
    archive = Archive(body)
    title = markup.title_in(archive.read_if_there("docProps/core.xml"))
    numbers = sorted(int(found[1]) for name in archive.names if (found := _SLIDE.fullmatch(name)))
    slides = (_Slide(archive.read(f"ppt/slides/slide{number}.xml")).html() for number in numbers)
    return DocumentText(markup.page(title, *slides), title=title)


class _Slide:
    """Collects the text of one slide: a title, paragraphs and tables."""

    def __init__(self, body: bytes) -> None:
        self._parts: list[str] = []
        self._line: list[str] = []
        self._in_text = self._is_title = False
        self._rows: list[list[str]] | None = None
        walk_xml(body, self._start, self._end, self._text)

    def html(self) -> str:
        return "".join(self._parts)

    def _start(self, name: str, attributes: dict[str, str]) -> None:
        if name == "t":
            self._in_text = True
        elif name == "br":
            self._line.append(" ")
        elif name == "ph":
            self._is_title = attributes.get("type") in {"title", "ctrTitle"}
        elif name == "sp":
            self._is_title = False
        elif name == "tbl":
            self._rows = []
        elif name == "tr" and self._rows is not None:
            self._rows.append([])
        elif name == "tc" and self._rows:
            self._rows[-1].append("")

    def _end(self, name: str) -> None:
        if name == "t":
            self._in_text = False
        elif name == "p":
            self._end_paragraph()
        elif name == "tbl" and self._rows is not None:
            self._parts.append(markup.table(self._rows))
            self._rows = None

    def _end_paragraph(self) -> None:
        text = "".join(self._line).strip()
        self._line.clear()
        if self._rows is not None:
            if self._rows and self._rows[-1]:
                self._rows[-1][-1] = f"{self._rows[-1][-1]} {text}".strip()
        elif text:
            html = markup.paragraph(text)
            self._parts.append(html.replace("<p>", "<h2>").replace("</p>", "</h2>") if self._is_title else html)

    def _text(self, data: str) -> None:
        if self._in_text:
            self._line.append(data)
