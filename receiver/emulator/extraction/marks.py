"""What the markup of a page says: JSON-LD and microdata, and the names in classes, links and times."""

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import unquote, urljoin

from selectolax.lexbor import LexborHTMLParser
from typing_extensions import override

from receiver.emulator.extraction.reading import TreeListener, labelled

MAX_ELEMENTS = 100_000
"""Elements of a page that are read."""
MAX_FIELDS = 60
"""Values of one block."""
MAX_TEXT = 300
"""Characters of a value."""
MAX_GROUPS, MAX_ROWS = 200, 2_000
"""Groups of blocks that repeat, and blocks of one group."""
MAX_ANCHORS = 2_000
"""Links whose texts are kept."""
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


MAX_SCRIPTS = 100
"""JSON-LD scripts of a page that are read."""
MAX_SCRIPT = 1_000_000
"""Characters of such a script; a longer one is not read."""
MAX_ITEMS = 2_000
"""Items of a page that are kept."""
_ADDRESSES = {
    **dict.fromkeys(("a", "area", "link"), "href"),
    **dict.fromkeys(("img", "audio", "video", "source", "iframe", "embed", "track"), "src"),
    "object": "data",
}
_VALUES = {"meta": "content", "data": "value", "meter": "value", "time": "datetime"}


@dataclass(slots=True)
class DataItem:
    """A thing that a page describes for programs, with its properties."""

    types: tuple[str, ...] = ()
    """Its types without their vocabulary, such as `Product`."""
    values: dict[str, Any] = field(default_factory=dict)


def json_ld_items(tree: LexborHTMLParser) -> list[DataItem]:
    """Return the objects of JSON-LD scripts and of their graphs, without broken scripts."""
    items: list[DataItem] = []
    for script in tree.css('script[type="application/ld+json"]')[:MAX_SCRIPTS]:
        text = script.text(deep=True)
        if len(text) > MAX_SCRIPT:
            continue
        try:
            value = json.loads(text, strict=False)
        except (ValueError, RecursionError):
            continue
        items.extend(_objects(value))
    return items[:MAX_ITEMS]


def _objects(value: Any) -> Iterator[DataItem]:
    for one in value if isinstance(value, list) else [value]:
        if not isinstance(one, dict):
            continue
        graph = one.get("@graph")
        if isinstance(graph, list):
            yield from (_item(inner) for inner in graph if isinstance(inner, dict))
        else:
            yield _item(one)


def _item(value: dict[str, Any]) -> DataItem:
    kinds = value.get("@type")
    names = kinds if isinstance(kinds, list) else [kinds]
    return DataItem(
        tuple(_last_part(name) for name in names if isinstance(name, str)),
        {key: inner for key, inner in value.items() if not key.startswith("@")},
    )


def _last_part(name: str) -> str:
    return name.rstrip("/").rpartition("/")[2].rpartition("#")[2].rpartition(":")[2]


class MicrodataReader(TreeListener):
    """Collects the microdata of a tree (HTML Living Standard, section 5)."""

    def __init__(self, url: str) -> None:
        self.items: list[DataItem] = []
        self._url = url
        self._open: list[DataItem] = []
        self._elements: list[_OpenElement] = []

    @override
    def begin(self, tag: str, attributes: dict[str, str | None]) -> None:
        element = _OpenElement((attributes.get("itemprop") or "").split())
        if "itemscope" in attributes and len(self.items) < MAX_ITEMS:
            kinds = (attributes.get("itemtype") or "").split()
            item = DataItem(tuple(map(_last_part, kinds)))
            if element.properties and self._open:
                self._set(self._open[-1], element.properties, item.values)
            else:
                self.items.append(item)
            self._open.append(item)
            element.is_item = True
        elif element.properties and self._open:
            element.fixed = self._fixed_value(tag, attributes)
            element.parts = []
        self._elements.append(element)

    @override
    def text(self, text: str) -> None:
        """Take a text, which belongs to the innermost property around it."""
        for element in reversed(self._elements[-_NEAR:]):
            if element.parts is not None:
                element.parts.append(text)
                return

    @override
    def end(self, tag: str) -> None:
        if not self._elements:
            return
        element = self._elements.pop()
        if element.is_item:
            self._open.pop()
        elif element.parts is not None and self._open:
            text = " ".join("".join(element.parts).split())
            self._set(self._open[-1], element.properties, element.fixed if element.fixed is not None else text)

    def _fixed_value(self, tag: str, attributes: dict[str, str | None]) -> str | None:
        """Return the value of an element in an attribute; None if its text is the value."""
        if attributes.get("content") is not None:
            return attributes["content"]
        if tag in _ADDRESSES:
            return _absolute(self._url, attributes.get(_ADDRESSES[tag]) or "")
        return attributes.get(_VALUES[tag]) if tag in _VALUES else None

    def _set(self, item: DataItem, names: list[str], value: Any) -> None:
        for name in names:
            known = item.values.get(name)
            if known is None:
                item.values[name] = value
            elif isinstance(known, list):
                known.append(value)
            else:
                item.values[name] = [known, value]


_NEAR = 64
"""Elements around a text that may be its property."""


@dataclass(slots=True)
class _OpenElement:
    properties: list[str]
    """The names of the properties whose value it has."""
    is_item: bool = False
    fixed: str | None = None
    """A value in an attribute."""
    parts: list[str] | None = None
    """The texts in it; None unless it is a property."""


@dataclass(slots=True)
class _OpenBlock:
    tag: str
    heading: str = ""
    """The last heading before it."""
    names: tuple[str, ...] = ()
    """The names in its classes."""
    signature: str = ""
    """Equal for blocks of the same kind."""
    text: list[str] = field(default_factory=list)
    """The beginning of its text, in parts."""
    size: int = 0
    """Characters of these parts."""
    own_text: bool = False
    """It has text beside its elements."""
    inline: bool = True
    """Everything in it is part of a line."""
    children: list[tuple[str, str]] = field(default_factory=list)
    """Tags and texts of its first elements; no tag for those that have elements themselves."""
    fields: dict[str, Any] = field(default_factory=dict)
    groups: dict[str, list[dict[str, Any]]] = field(default_factory=dict)
    """The values of blocks in it that may repeat, by their signature."""
    href: str | None = None
    moment: str | None = None


class MarkReader(TreeListener):
    """Collects what the markup of a tree names. A block that repeats is a row, and not a part of the page."""

    def __init__(self, url: str) -> None:
        self.fields: dict[str, Any] = {}
        """The named values of the page itself."""
        self.rows: list[tuple[str, list[Mapping[str, Any]]]] = []
        """Groups of similar blocks with their names."""
        self.anchors: list[tuple[str, str]] = []
        """The texts and the targets of links."""
        self._url = url
        self._open: list[_OpenBlock] = []
        self._count = 0
        self._heading = ""

    @override
    def begin(self, tag: str, attributes: dict[str, str | None]) -> None:
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

    @override
    def text(self, text: str) -> None:
        if self._open and not any(one.tag in _STRUCK for one in self._open[-3:]):
            block = self._open[-1]
            if text.strip():
                block.own_text = True
            if block.size < MAX_TEXT:
                block.text.append(text[:MAX_TEXT])
                block.size += len(text)

    @override
    def end(self, tag: str) -> None:
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
        """Name the values that the block itself is."""
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
            if (pair := labelled(text)) is not None:
                block.fields.setdefault(*pair)
                block.fields |= dict.fromkeys(block.names, pair[1])
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
        """Give the parent what the block has; a block that may repeat is kept with others of its kind."""
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
        """Make rows of the blocks in a block that repeat; a single one is a part of it."""
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
    """Return label and value of a block that consists of two texts."""
    if block.tag not in _PAIRED or block.own_text or len(block.children) != 2:
        return None
    (first, label), (second, value) = block.children
    plain = {first, second} <= {"span", "div", "b", "strong", "p", "em", "small"}
    if not plain or len(label) > 40 or len(value) > 200 or label[-1:] in "?.!" or label[:1].isdigit():
        return None
    return label.rstrip(": "), value


def _names_in(one: str) -> Iterator[str]:
    """Yield the names in a class: `card__price--big` means a price and the price of a card."""
    block, _, element = one.partition("--")[0][:60].rpartition("__")
    yield element
    if block:
        yield f"{block} {element}"


def _absolute(base: str, address: str) -> str:
    try:
        return urljoin(base, address.strip())
    except ValueError:
        return address
