"""Reads the blocks of an HTML page in one walk over its tree."""

from receiver.service.emulator.extraction.blocks import MAX_LINE, MAX_ROWS, PageBlocks, PageTable

_INLINE = frozenset(
    ["a", "abbr", "b", "bdi", "bdo", "cite", "code", "data", "del", "dfn", "em", "font", "i", "ins", "kbd", "mark"]
)
_INLINE |= {"q", "s", "samp", "small", "span", "strong", "sub", "sup", "time", "u", "var", "wbr"}
_HEADINGS = {f"h{level}": level for level in range(1, 7)}
_HOLDERS = frozenset({*_HEADINGS, "td", "th", "dt", "dd", "li", "caption"})


class BlockReader:
    """Hears a tree, and collects its blocks. A text belongs to the innermost element that holds texts."""

    def __init__(self) -> None:
        self.blocks = PageBlocks()
        self._run: list[str] = []
        self._holders: list[tuple[str, list[str]]] = []
        self._tables: list[tuple[PageTable, list[bool]]] = []
        self._rows: list[list[str]] = []
        self._lists: list[list[str]] = []
        self._term: str | None = None

    def begin(self, tag: str, attributes: dict[str, str | None]) -> None:
        """Hear that an element begins."""
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

    def text(self, text: str) -> None:
        """Hear a piece of text."""
        self._run.append(text)

    def end(self, tag: str) -> None:
        """Hear that an element ends."""
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
        """Give the text since the last border of a block to where it belongs."""
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
