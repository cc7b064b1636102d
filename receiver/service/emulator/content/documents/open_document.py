"""OpenDocument files: text, spreadsheets and presentations have the same elements."""

from html import escape
from typing import Any

from receiver.service.emulator.content.documents import markup
from receiver.service.emulator.content.documents.archive import Archive, walk_xml
from receiver.service.emulator.content.documents.words import DocumentText

_SIMPLE = {
    "p": "p",
    "list": "ul",
    "list-item": "li",
    "table": "table",
    "table-row": "tr",
    "table-cell": "td",
    "table-header-rows": "thead",
}
_SKIPPED = {"tracked-changes", "annotation", "note-citation", "binary-data", "scripts", "font-face-decls"}
_MOST_SPACES = 100
_MOST_REPEATED = 100


def read_odt(body: bytes, _options: dict[str, Any]) -> DocumentText:
    """Return the text of an .odt, .ods or .odp file."""
    archive = Archive(body)
    title = markup.title_in(archive.read_if_there("meta.xml"))
    return DocumentText(markup.page(title, _Content(archive.read("content.xml")).html()), title=title)


class _Content:
    """Turns the elements of `content.xml` into HTML."""

    def __init__(self, body: bytes) -> None:
        self._parts: list[str] = []
        self._closing: list[str] = []
        self._skipping = 0
        self._repeated = 0
        walk_xml(body, self._start, self._end, self._text)

    def html(self) -> str:
        return "".join(self._parts)

    def _start(self, name: str, attributes: dict[str, str]) -> None:
        opening, closing = self._tags(name, attributes)
        self._closing.append(closing)
        if name in _SKIPPED:
            self._skipping += 1
        if not self._skipping:
            self._parts.append(opening)

    def _tags(self, name: str, attributes: dict[str, str]) -> tuple[str, str]:
        if name == "h":
            level = attributes.get("outline-level", "1")
            tag = f"h{level}" if level in {"1", "2", "3", "4", "5", "6"} else "h6"
            return f"<{tag}>", f"</{tag}>\n"
        if name == "a":
            return f'<a href="{escape(attributes.get("href", ""))}">', "</a>"
        if name == "s":
            return " " * min(int(attributes.get("c", "1")), _MOST_SPACES), ""
        if name in {"tab", "line-break"}:
            return {"tab": " ", "line-break": "<br>"}[name], ""
        if name == "table-cell":
            # Cells that repeat an empty one fill the whole width of a sheet: they say nothing.
            more = int(attributes.get("number-columns-repeated", "1")) - 1
            return "<td>", "</td>" + "<td></td>" * (more if more < _MOST_REPEATED else 0)
        tag = _SIMPLE.get(name, "")
        return (f"<{tag}>", f"</{tag}>") if tag else ("", "")

    def _end(self, name: str) -> None:
        closing = self._closing.pop()
        if not self._skipping:
            self._parts.append(closing)
        if name in _SKIPPED:
            self._skipping -= 1

    def _text(self, data: str) -> None:
        if not self._skipping:
            self._parts.append(escape(data))
