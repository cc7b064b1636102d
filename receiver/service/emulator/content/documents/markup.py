"""Pieces of HTML for the text of documents."""

from collections.abc import Iterable, Sequence
from html import escape

from receiver.service.emulator.content.documents.archive import walk_xml


def paragraph(text: str) -> str:
    """Return a paragraph."""
    return f"<p>{escape(text)}</p>\n"


def table(rows: Iterable[Sequence[str]]) -> str:
    """Return a table; its first row is the heading."""
    return html_table([escape(value) for value in row] for row in rows)


def html_table(rows: Iterable[Sequence[str]]) -> str:
    """Return a table of cells that are HTML already; its first row is the heading."""
    lines = []
    for number, row in enumerate(rows):
        cell = "th" if number == 0 else "td"
        lines.append("<tr>" + "".join(f"<{cell}>{value}</{cell}>" for value in row) + "</tr>")
    return "<table>\n" + "\n".join(lines) + "\n</table>\n" if lines else ""


def page(title: str, *parts: str) -> str:
    """Return a whole page."""
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
