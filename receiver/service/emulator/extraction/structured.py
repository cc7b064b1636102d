"""Data that pages carry for programs: JSON-LD, microdata, and the meta tags of OpenGraph."""

import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urljoin

from selectolax.lexbor import LexborHTMLParser

MAX_SCRIPTS = 100
"""JSON-LD scripts of a page that are read."""
MAX_SCRIPT = 1_000_000
"""Characters of such a script; a longer one is not read."""
MAX_ITEMS = 2_000
"""Items of a page that are kept."""
_ADDRESSES = {
    "a": "href",
    "area": "href",
    "link": "href",
    "img": "src",
    "audio": "src",
    "video": "src",
    "source": "src",
}
_ADDRESSES |= {"iframe": "src", "embed": "src", "object": "data", "track": "src"}
_VALUES = {"meta": "content", "data": "value", "meter": "value", "time": "datetime"}


@dataclass(slots=True)
class DataItem:
    """A thing that a page describes for programs."""

    types: tuple[str, ...] = ()
    """Its types without their vocabulary, such as `Product`."""
    values: dict[str, Any] = field(default_factory=dict)
    """Its properties: texts, further objects, or lists of them."""


def json_ld_items(tree: LexborHTMLParser) -> list[DataItem]:
    """Return the objects of JSON-LD scripts, and those of their graphs. A broken script is left out."""
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


class MicrodataReader:
    """Hears a tree, and collects its microdata (HTML Living Standard, section 5)."""

    def __init__(self, url: str) -> None:
        self.items: list[DataItem] = []
        self._url = url
        self._open: list[DataItem] = []
        self._elements: list[_OpenElement] = []

    def begin(self, tag: str, attributes: dict[str, str | None]) -> None:
        """Hear that an element begins."""
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

    def text(self, text: str) -> None:
        """Hear a piece of text. It belongs to the innermost property around it."""
        for element in reversed(self._elements[-_NEAR:]):
            if element.parts is not None:
                element.parts.append(text)
                return

    def end(self, tag: str) -> None:
        """Hear that an element ends."""
        if not self._elements:
            return
        element = self._elements.pop()
        if element.is_item:
            self._open.pop()
        elif element.parts is not None and self._open:
            text = " ".join("".join(element.parts).split())
            self._set(self._open[-1], element.properties, element.fixed if element.fixed is not None else text)

    def _fixed_value(self, tag: str, attributes: dict[str, str | None]) -> str | None:
        """Return the value that an element has in an attribute; None if it is its text."""
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
"""Elements around a text that are asked whether they are a property."""


@dataclass(slots=True)
class _OpenElement:
    properties: list[str]
    """The names of properties that it gives a value to."""
    is_item: bool = False
    """Whether it describes a thing."""
    fixed: str | None = None
    """Its value, if that is in an attribute."""
    parts: list[str] | None = None
    """The texts in it; None unless it is a property."""


def _absolute(base: str, address: str) -> str:
    try:
        return urljoin(base, address.strip())
    except ValueError:
        return address
