"""The visible parts of a page that hold data: headings, tables, lists, and labelled pairs such as `Price: 9 €`.

A page of HTML is walked once without recursion, so its depth does not matter.
"""

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from selectolax.lexbor import LexborHTMLParser, LexborNode
from typing_extensions import override

from receiver.emulator.content.parsing import parse_html
from receiver.emulator.failures import ScrapeFailed

MAX_LINES = 50_000
"""Lines, cells and items of a page that are read."""
MAX_ROWS = 5_000
"""Rows of a table that are read."""
MAX_LINE = 2_000
"""Characters of a line that are kept."""
_LABEL = re.compile(r"([^\W_][^:\n]{0,59}?)\s*:\s+(\S.*)", re.DOTALL)
_NO_LABELS = ("http", "https", "mailto", "tel")


@dataclass(slots=True)
class PageTable:
    """A table of texts."""

    heading: str = ""
    """The heading before it, with its caption."""
    header: list[str] = field(default_factory=list)
    """The names of its columns; empty without names."""
    rows: list[list[str]] = field(default_factory=list)

    def find_names(self) -> None:
        """Take the names of columns from the first row, and transpose a table whose columns are things."""
        if not self.header and len(self.rows) > 1 and _names_columns(self.rows):
            self.header = self.rows.pop(0)
        if len(self.header) > 2 and not self.header[0]:
            rows = [["name", *self.header[1:]], *self.rows]
            width = min(len(row) for row in rows)
            if width == len(self.header):
                columns = [[row[at] for row in rows] for at in range(width)]
                self.header, self.rows = columns[0], columns[1:]

    def records(self) -> list[dict[str, str]]:
        """Return each row as `{column: cell}`; empty if the columns have no names."""
        names = self.header
        return [dict(zip(names, row, strict=False)) for row in self.rows] if names else []

    def pairs(self) -> list[tuple[str, str]]:
        """Return the rows of a table of two columns, the first of which names the second."""
        rows = ([self.header] if self.header else []) + self.rows
        has_two = all(len(row) <= 2 for row in rows)
        return [(row[0], row[1]) for row in rows if len(row) == 2 and row[0]] if has_two else []


def _names_columns(rows: Sequence[Sequence[str]]) -> bool:
    """Return whether the first row has only names, and the row below it has numbers."""
    first = rows[0]
    named = len(first) > 2 and all(cell and not any(map(str.isdigit, cell)) for cell in first)
    return named and any(any(map(str.isdigit, cell)) for cell in rows[1])


@dataclass(slots=True)
class PageBlocks:
    """The parts of one page, in order."""

    headings: list[tuple[int, str]] = field(default_factory=list)
    """Level and text."""
    tables: list[PageTable] = field(default_factory=list)
    """Including nested ones."""
    pairs: list[tuple[str, str]] = field(default_factory=list)
    lists: list[tuple[str, list[str]]] = field(default_factory=list)
    """The heading before a list, and its items."""
    sections: list[tuple[str, str]] = field(default_factory=list)
    """A heading, and the first line below it."""
    lines: list[str] = field(default_factory=list)
    count: int = 0

    @property
    def heading(self) -> str:
        """The last heading."""
        return self.headings[-1][1] if self.headings else ""

    def add_line(self, line: str) -> None:
        """Take a line, which may be a labelled pair. The first one below a heading is its section."""
        self.lines.append(line)
        if pair := labelled(line):
            self.pairs.append(pair)
        if self.headings and (not self.sections or self.sections[-1][0] != self.heading):
            self.sections.append((self.heading, line))

    def is_full(self) -> bool:
        """Count a line, and return whether there were too many."""
        self.count += 1
        return self.count > MAX_LINES


def labelled(line: str) -> tuple[str, str] | None:
    """Return the label and the value of a line such as `Price: 9 €`; None for other lines."""
    found = _LABEL.fullmatch(line[:MAX_LINE])
    if found is None or found[1].lower() in _NO_LABELS or len(found[1].split()) > 6:
        return None
    return found[1], found[2].strip()


def blocks_of_markdown(markdown: str) -> PageBlocks:
    """Return the parts of a text in Markdown, for pages that are not HTML."""
    blocks = PageBlocks()
    table: PageTable | None = None
    items: list[str] | None = None
    for raw in markdown.split("\n"):
        line = raw.strip()[:MAX_LINE]
        table = table if line.startswith("|") else None
        items = items if line.startswith(("- ", "* ")) else None
        if not line or blocks.is_full():
            continue
        if line.startswith("#"):
            text = line.lstrip("#")
            blocks.headings.append((len(line) - len(text), text.strip()))
        elif line.startswith("|"):
            if table is None:
                table = PageTable(blocks.heading)
                blocks.tables.append(table)
            _add_row(table, [cell.strip() for cell in line.strip("|").split("|")])
        elif line.startswith(("- ", "* ")):
            if items is None:
                items = []
                blocks.lists.append((blocks.heading, items))
            items.append(line[2:].strip())
            blocks.add_line(line[2:].strip())
        else:
            blocks.add_line(line)
    return blocks


def _add_row(table: PageTable, cells: list[str]) -> None:
    """Take a row of a Markdown table; the row above its divider is the header."""
    if all(cell.strip(":-") == "" and "-" in cell for cell in cells):
        if len(table.rows) == 1:
            table.header = table.rows.pop() if any(table.rows[0]) else []
    elif len(table.rows) < MAX_ROWS:
        table.rows.append(cells)


_INLINE = frozenset(
    ["a", "abbr", "b", "bdi", "bdo", "cite", "code", "data", "del", "dfn", "em", "font", "i", "ins", "kbd", "mark"]
)
_INLINE |= {"q", "s", "samp", "small", "span", "strong", "sub", "sup", "time", "u", "var", "wbr"}
_HEADINGS = {f"h{level}": level for level in range(1, 7)}
_HOLDERS = frozenset({*_HEADINGS, "td", "th", "dt", "dd", "li", "caption"})


class TreeListener(Protocol):
    """Gets the elements and texts of a page in their order."""

    def begin(self, tag: str, attributes: dict[str, str | None]) -> None:
        """Take the beginning of an element."""

    def text(self, text: str) -> None:
        """Take a piece of text."""

    def end(self, tag: str) -> None:
        """Take the end of an element."""


class BlockReader(TreeListener):
    """Collects the blocks of a tree. A text belongs to the innermost element that holds texts."""

    def __init__(self) -> None:
        self.blocks = PageBlocks()
        self._run: list[str] = []
        self._holders: list[tuple[str, list[str]]] = []
        self._tables: list[tuple[PageTable, list[bool]]] = []
        self._rows: list[list[str]] = []
        self._lists: list[list[str]] = []
        self._term: str | None = None

    @override
    def begin(self, tag: str, attributes: dict[str, str | None]) -> None:
        if tag in _INLINE:
            return
        self._flush()
        if tag in _HOLDERS:
            self._holders.append((tag, []))
        elif tag == "table":
            table = PageTable(self.blocks.heading)
            self.blocks.tables.append(table)
            self._tables.append((table, []))
        elif tag == "tr":
            self._rows.append([])
            if self._tables:
                self._tables[-1][1][:] = []
        elif tag in ("ul", "ol"):
            self._lists.append([])
            self.blocks.lists.append((self.blocks.heading, self._lists[-1]))

    @override
    def text(self, text: str) -> None:
        self._run.append(text)

    @override
    def end(self, tag: str) -> None:
        if tag in _INLINE:
            return
        self._flush()
        if tag in _HOLDERS:
            self._end_holder(tag)
        elif tag == "tr" and self._rows:
            self._end_row(self._rows.pop())
        elif tag == "table" and self._tables:
            self._tables.pop()[0].find_names()
        elif tag in ("ul", "ol") and self._lists:
            self._lists.pop()
        elif tag == "dl":
            self._term = None

    def _flush(self) -> None:
        """Add the text since the last border of a block to its holder."""
        line = " ".join("".join(self._run).split())[:MAX_LINE]
        self._run.clear()
        if not line or self.blocks.is_full():
            return
        if self._holders:
            self._holders[-1][1].append(line)
        if not self._holders or self._holders[-1][0] == "li":
            self.blocks.add_line(line)

    def _end_holder(self, tag: str) -> None:
        if not self._holders or self._holders[-1][0] != tag:
            return
        text = " ".join(self._holders.pop()[1])[:MAX_LINE]
        match tag:
            case "td" | "th" if self._rows and self._tables:
                self._rows[-1].append(text)
                self._tables[-1][1].append(tag == "th")
            case "caption" if self._tables:
                self._tables[-1][0].heading += f" {text}"
            case "dt":
                self._term = text
            case "dd" if self._term and text:
                self.blocks.pairs.append((self._term, text))
            case "li" if self._lists and text:
                self._lists[-1].append(text)
            case _ if tag in _HEADINGS and text:
                self.blocks.headings.append((_HEADINGS[tag], text))

    def _end_row(self, cells: list[str]) -> None:
        if not self._tables or not cells:
            return
        table, heads = self._tables[-1]
        if all(heads) and not table.rows and not table.header:
            table.header = cells
        elif len(table.rows) < MAX_ROWS:
            table.rows.append(cells)


MAX_HTML = 2_000_000
"""Characters of a page that are searched for data."""
_SKIPPED = frozenset({"script", "style", "noscript", "template", "textarea", "svg"})


def parse_page(html: str) -> LexborHTMLParser | None:
    """Return the tree of a page, or of its first part if it is huge; None if it is too much for any parser."""
    try:
        return parse_html(html[:MAX_HTML])
    except ScrapeFailed:
        return None


def walk(tree: LexborHTMLParser, listeners: Iterable[TreeListener]) -> None:
    """Call the listeners for each element and text of the body once, except for scripts and the like."""
    node = tree.body
    if node is None:
        return
    called = tuple(listeners)
    depth = 0
    while True:
        child = _begin(node, called)
        if child is not None:
            node, depth = child, depth + 1
            continue
        _end(node, called)
        while depth and (after := node.next) is None:
            parent = node.parent
            if parent is None:
                return
            node, depth = parent, depth - 1
            _end(node, called)
        if not depth or after is None:
            return
        node = after


def _begin(node: LexborNode, called: tuple[TreeListener, ...]) -> LexborNode | None:
    """Announce a node, and return its first child unless that is skipped."""
    tag = node.tag or ""
    if tag == "-text":
        text = node.text_content or ""
        for one in called:
            one.text(text)
        return None
    if tag.startswith(("-", "!", "#")) or tag in _SKIPPED:
        return None
    for one in called:
        one.begin(tag, node.attributes)
    return node.child


def _end(node: LexborNode, called: tuple[TreeListener, ...]) -> None:
    tag = node.tag or ""
    if tag and not tag.startswith(("-", "!", "#")) and tag not in _SKIPPED:
        for one in called:
            one.end(tag)
