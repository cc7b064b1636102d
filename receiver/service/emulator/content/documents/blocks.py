"""Blocks of a document as HTML, written one after the other: paragraphs, headings, lists, tables."""

import re
from html import escape
from itertools import groupby
from operator import itemgetter

from receiver.service.emulator.content.documents import markup

_DEEPEST_LIST = 9
_EDGES = re.compile(r"\A(?:\s|<br>)+|(?:\s|<br>)++\Z")


class BlockWriter:
    """Collects runs of text, and makes a block of them when its kind is known."""

    def __init__(self) -> None:
        self._parts: list[str] = []
        self._runs: list[tuple[str, bool, bool, str]] = []
        self._lists: list[str] = []
        self._rows: list[list[str]] = []
        self._cells: list[str] = []

    def add(self, text: str, *, bold: bool = False, italic: bool = False, href: str = "") -> None:
        """Add a run of text. Runs of the same form become one."""
        self._runs.append((text, bold, italic, href))

    def end_paragraph(self) -> None:
        """Make a paragraph of what was added; nothing of blanks."""
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
        """Make an item of a list, which begins if there is none; level 0 is the outermost."""
        html = self._taken()
        if not html:
            return
        self._end_table()
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
        """Note that a paragraph inside of a cell ends."""
        if self._runs:
            self.add(" ")

    def end_cell(self, times: int = 1) -> None:
        """Make a cell of the row that is being written, or some equal ones."""
        self._cells += [self._taken()] * times

    def end_row(self) -> None:
        """Make a row of a table, which begins if there is none."""
        if any(self._cells):
            self._end_lists()
            self._rows.append(self._cells)
        self._cells = []

    def end_table(self) -> None:
        """Write the table; the next row begins another."""
        self._end_table()

    def html(self) -> str:
        """Return all blocks. What was not ended is a paragraph."""
        self.end_row()
        self.end_paragraph()
        self._close()
        return "".join(self._parts)

    def _close(self) -> None:
        self._end_lists()
        self._end_table()

    def _end_lists(self) -> None:
        while self._lists:
            self._parts.append(f"</li></{self._lists.pop()}>\n")

    def _end_table(self) -> None:
        if self._rows:
            widths = [max((at for at, cell in enumerate(row, 1) if cell), default=0) for row in self._rows]
            width = max(widths)
            self._parts.append(markup.html_table([*row[:width], *[""] * (width - len(row))] for row in self._rows))
            self._rows = []

    def _taken(self) -> str:
        """Return what was added as HTML, and begin anew."""
        runs, self._runs = self._runs, []
        forms = groupby(runs, key=itemgetter(1, 2, 3))
        html = "".join(_run("".join(run[0] for run in same), *form) for form, same in forms)
        return _EDGES.sub("", html)


def _run(text: str, bold: bool, italic: bool, href: str) -> str:
    html = escape(text, quote=False).replace("\n", "<br>")
    if not text.strip():
        return html
    lead, core, trail = _around(html)
    if href:
        core = f'<a href="{escape(href)}">{core}</a>'
    if italic:
        core = f"<em>{core}</em>"
    if bold:
        core = f"<strong>{core}</strong>"
    return f"{lead}{core}{trail}"


def _around(html: str) -> tuple[str, str, str]:
    """Return the blanks before, the text, and the blanks behind: emphasis has none inside."""
    core = html.strip()
    at = html.index(core)
    return html[:at], core, html[at + len(core) :]
