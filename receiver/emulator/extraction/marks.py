"""What the markup of a page calls its parts: classes, links, times, and blocks that repeat."""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import unquote, urljoin

from receiver.emulator.extraction.reading import labelled

MAX_ELEMENTS = 100_000
"""Elements of a page that are looked at."""
MAX_FIELDS = 60
"""Values that one block has."""
MAX_TEXT = 300
"""Characters of a value."""
MAX_GROUPS, MAX_ROWS = 200, 2_000
"""Groups of blocks that repeat, and blocks of one group."""
MAX_ANCHORS = 2_000
"""Links whose texts are remembered."""
_HEADINGS = frozenset({"h1", "h2", "h3", "h4", "h5", "h6"})
_INLINE = frozenset(
    ["a", "abbr", "b", "bdi", "bdo", "cite", "code", "data", "em", "font", "i", "ins", "kbd", "mark", "q", "small"]
)
_INLINE |= {"span", "strong", "sub", "sup", "time", "u", "var", "wbr", "br", "meta", "link"}
_STRUCK = frozenset({"del", "s", "strike"})
_APART = frozenset({"nav", "footer", "aside", "form", "header"})
_BLOCKS = frozenset({"li", "article", "div", "section", "a"})
_PAIRED = frozenset({"div", "li", "p", "section"})
_UTILITY = re.compile(
    r"\d|^(?:text|font|bg|m[trblxy]?|p[trblxy]?|flex|grid|col|row|btn|button|w|h|justify|items|self|d|is|has|js|icon"
    r"|fa|wp|clearfix|container|wrapper|inner|main|active|hidden|sr|visually|label|value|card|box|item)(?:-|$)"
)


@dataclass(slots=True)
class _OpenBlock:
    """An element that is open."""

    tag: str
    """Its tag."""
    heading: str = ""
    """The last heading before it."""
    names: tuple[str, ...] = ()
    """What its classes call it."""
    signature: str = ""
    """What blocks of the same kind have in common."""
    text: list[str] = field(default_factory=list)
    """The beginning of its text, in parts."""
    size: int = 0
    """Characters of these parts."""
    own_text: bool = False
    """Whether it has text beside its elements."""
    inline: bool = True
    """Whether all in it is part of a line."""
    children: list[tuple[str, str]] = field(default_factory=list)
    """Tags and texts of its first elements; no tag for those that have elements themselves."""
    fields: dict[str, Any] = field(default_factory=dict)
    """The named values in it."""
    groups: dict[str, list[dict[str, Any]]] = field(default_factory=dict)
    """The values of blocks in it that may repeat, by their signature."""
    href: str | None = None
    """Where it leads."""
    moment: str | None = None
    """The time that it names for programs."""


class MarkReader:
    """Hears a tree, and collects what its markup names. A block that repeats is a row, and no part of the page."""

    def __init__(self, url: str) -> None:
        self.fields: dict[str, Any] = {}
        """The named values of the page itself."""
        self.rows: list[tuple[str, list[Mapping[str, Any]]]] = []
        """Groups of like blocks, each with its name."""
        self.anchors: list[tuple[str, str]] = []
        """The texts of links, and where they lead."""
        self._url = url
        self._open: list[_OpenBlock] = []
        self._count = 0
        self._heading = ""

    def begin(self, tag: str, attributes: dict[str, str | None]) -> None:
        """Hear that an element begins."""
        self._count += 1
        block = _OpenBlock(tag, self._heading)
        if self._count <= MAX_ELEMENTS:
            classes = (attributes.get("class") or "")[:500].split()
            named = (name for one in classes if not _UTILITY.search(one.lower()) for name in _names_in(one))
            block.names = tuple(dict.fromkeys(named))[:8]
            block.signature = f"{tag}.{'.'.join(classes[:3])}"
            if tag == "a":
                block.href = attributes.get("href")
            elif tag == "time":
                block.moment = attributes.get("datetime")
            elif tag == "img" and (source := attributes.get("src")):
                block.fields["image"] = _absolute(self._url, source)
        self._open.append(block)

    def text(self, text: str) -> None:
        """Hear a piece of text."""
        if self._open and not any(one.tag in _STRUCK for one in self._open[-3:]):
            block = self._open[-1]
            if text.strip():
                block.own_text = True
            if block.size < MAX_TEXT:
                block.text.append(text[:MAX_TEXT])
                block.size += len(text)

    def end(self, tag: str) -> None:
        """Hear that an element ends."""
        if not self._open:
            return
        block = self._open.pop()
        if self._count > MAX_ELEMENTS:
            return
        text = " ".join("".join(block.text).split())[:MAX_TEXT]
        self._take_group(block)
        self._name(block, text)
        if not self._open:
            self.fields |= block.fields
            return
        self._give(block, text, self._open[-1])

    def _name(self, block: _OpenBlock, text: str) -> None:
        """Give the block the values that it is itself."""
        if block.tag in _HEADINGS and text:
            self._heading = text
            block.fields.setdefault("title", text)
        if block.href:
            self._take_link(block, text)
        if block.moment:
            block.fields.setdefault("date", block.moment)
        if block.tag == "address" and text:
            block.fields.setdefault("address", text)
        if pair := _pair(block):
            block.fields = {pair[0]: pair[1]}
        elif block.inline and text:
            if (told := labelled(text)) is not None:
                block.fields.setdefault(*told)
                block.fields |= dict.fromkeys(block.names, told[1])
            else:
                for name in block.names:
                    block.fields.setdefault(name, block.moment or text)

    def _take_link(self, block: _OpenBlock, text: str) -> None:
        href = (block.href or "").strip()
        kind, _, rest = href.partition(":")
        if kind in ("tel", "mailto"):
            shown = text if text and (kind == "tel" or "@" in text) else unquote(rest.partition("?")[0])
            block.fields.setdefault("phone" if kind == "tel" else "email", shown)
            return
        if not href or href.startswith(("#", "javascript:")):
            return
        address = _absolute(self._url, href)
        block.fields.setdefault("url", address)
        if text and len(self.anchors) < MAX_ANCHORS:
            self.anchors.append((text, address))

    def _give(self, block: _OpenBlock, text: str, parent: _OpenBlock) -> None:
        """Let the parent have what the block has; a block that may repeat waits for its like."""
        if block.tag not in _STRUCK and parent.size < MAX_TEXT:
            parent.text.append(f"{text} " if block.tag not in _INLINE else "".join(block.text))
            parent.size += len(text) + 1
        parent.inline = parent.inline and block.tag in _INLINE | _STRUCK and block.inline
        if text and len(parent.children) < 3:
            parent.children.append((block.tag if not block.children else "", text))
        if block.tag in _APART or block.tag == "table":
            return
        if block.tag in _BLOCKS and len(block.fields) > 1 and len(parent.groups) < MAX_GROUPS:
            rows = parent.groups.setdefault(block.signature, [])
            if len(rows) < MAX_ROWS:
                rows.append(block.fields)
            return
        _merge(parent, block.fields)

    def _take_group(self, block: _OpenBlock) -> None:
        """Make rows of the blocks in a block that repeat; one that stands alone is a part of it."""
        for signature, rows in block.groups.items():
            if len(rows) == 1:
                _merge(block, rows[0])
            elif len(self.rows) < MAX_GROUPS:
                names = " ".join((*block.names[:2], signature.partition(".")[2].replace(".", " ")))
                self.rows.append((f"{block.heading} {names}".strip(), list(rows)))


def _merge(parent: _OpenBlock, fields: dict[str, Any]) -> None:
    if not parent.fields:
        parent.fields = fields
        return
    for name, value in fields.items():
        if len(parent.fields) >= MAX_FIELDS:
            return
        parent.fields.setdefault(name, value)


def _pair(block: _OpenBlock) -> tuple[str, str] | None:
    """Return label and value of a block that is just two texts side by side."""
    if block.tag not in _PAIRED or block.own_text or len(block.children) != 2:
        return None
    (first, label), (second, value) = block.children
    plain = {first, second} <= {"span", "div", "b", "strong", "p", "em", "small"}
    if not plain or len(label) > 40 or len(value) > 200 or label[-1:] in "?.!" or label[:1].isdigit():
        return None
    return label.rstrip(": "), value


def _names_in(one: str) -> Iterator[str]:
    """Yield the names in a class: `card__price--big` is a price, and the price of a card."""
    block, _, element = one.partition("--")[0][:60].rpartition("__")
    yield element
    if block:
        yield f"{block} {element}"


def _absolute(base: str, address: str) -> str:
    try:
        return urljoin(base, address.strip())
    except ValueError:
        return address
