"""What a page says of itself, ordered by how far it can be trusted: data for programs first, then what is shown."""

import itertools
import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice
from typing import Any
from urllib.parse import urljoin

from selectolax.lexbor import LexborHTMLParser

from receiver.emulator.extraction.coercion import MISSING
from receiver.emulator.extraction.marks import MarkReader
from receiver.emulator.extraction.names import iso_date, key_of, likeness, synonyms_of, words_of
from receiver.emulator.extraction.reading import BlockReader, PageBlocks, blocks_of_markdown, parse_page, walk
from receiver.emulator.extraction.source import ExtractionSource

# FOLDED: Sentences that say who wrote a page and when, and how to reach somebody: `By Person One`, `Ask
# a@example.com`.
MAX_LINES = 300
"""Lines that are looked at."""
MAX_LINE = 200
"""Characters of such a line."""
_NAME = r"([^\W\d_a-z][\w.'\u2019-]*(?:\s+[^\W\d_a-z][\w.'\u2019-]*){1,3})"
_BYLINE = re.compile(rf"(?:(?i:written by|by|von|par))\s+{_NAME}\s*(?:[|·•,\u2013\u2014-].*)?$")
_PUBLISHED = re.compile(
    r"(?i)\b(?:published|posted|veröffentlicht|erschienen|publié)e?\s*(?:on|am|le)?:?\s+(?P<rest>.{6,60})"
)
_MAIL = re.compile(r"(?<![\w.+@-])[\w.+-]{1,64}@(?!\dx\.)(?:[\w-]{1,63}\.){1,8}[^\W\d_]{2,24}(?![\w@-])")
_UPDATED = re.compile(r"(?i)\b(?:updated|aktualisiert|mis à jour)\s*(?:on|am|le)?:?\s+(?P<rest>.{6,60})")


def phrases(lines: Iterable[str]) -> dict[str, str]:
    """Return the author and the dates that lines of a page name."""
    found: dict[str, str] = {}
    for line in islice(lines, MAX_LINES):
        if len(line) <= MAX_LINE:
            for name, value in _of_line(line):
                found.setdefault(name, value)
    return found


def mail_address(lines: Iterable[str]) -> str | None:
    """Return the e-mail address that lines of a page show. If they show several, none of them is *the* address."""
    shown = (line for line in lines if "@" in line)
    found: dict[str, str] = {}
    for told in (told for line in islice(shown, MAX_LINES) for told in _MAIL.findall(line)):
        found.setdefault(told.lower(), told)
    return next(iter(found.values())) if len(found) == 1 else None


def _of_line(line: str) -> Iterator[tuple[str, str]]:
    if byline := _BYLINE.search(line):
        starts = byline.start() == 0 or _PUBLISHED.search(line[: byline.start()])
        if starts:
            yield "author", byline[1]
    for name, pattern in (("published", _PUBLISHED), ("updated", _UPDATED)):
        if (told := pattern.search(line)) and (day := iso_date(told["rest"])):
            yield name, day


# FOLDED: Data that pages carry for programs: JSON-LD, microdata, and the meta tags of OpenGraph.
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


MAX_VALUES = 5_000
"""Values of one record that are indexed."""
MAX_LABELS = 2_000
"""Labels of one record that are searched for words."""
MAX_ALIKE, MAX_WORDS = 20, 10
"""Labels with the same word, and words of a name, that are compared."""
MAX_RECORDS = 30
"""Things of a page in which single values are looked for. Lists are made of all of them."""
_DEEPEST = 4
_ABOUT_THE_SITE = frozenset(
    ["organization", "website", "webpage", "breadcrumblist", "imageobject", "localbusiness", "store", "person"]
)
"""Things that many pages describe although they are about something else."""


class Record:
    """Values by their names: a thing that the page describes, or all labelled pairs of the page."""

    def __init__(self, values: Mapping[str, Any], types: Sequence[str] = (), trust: int = 0) -> None:
        self.values = values
        self.trust = trust
        """0 is what a page says for programs, higher numbers what it shows and what its address tells."""
        self.types = frozenset(map(key_of, types))
        self._index: dict[str, list[Any]] | None = None
        self._labels: dict[str, list[str]] | None = None
        self._labelled: dict[str, Any] = {}

    def find(self, name: str, nearness: int) -> Iterator[Any]:
        """Yield the values whose names are as near to a name as `likeness` says: 3 is the same, 1 is alike."""
        if nearness == 1:
            for label in self._labels_with(words_of(name)):
                if likeness(name, label) == 1:
                    yield self._labelled[label]
            return
        keys = [key_of(name)] if nearness == 3 else sorted(synonyms_of(name) - {key_of(name)})
        for key in keys:
            yield from self._indexed().get(key, ())

    def _labels_with(self, words: Sequence[str]) -> list[str]:
        """Return the labels that share a word, some of them if there are many."""
        if self._labels is None:
            self._labels = {}
            self._labelled = dict(itertools.islice(_paths(self.values), MAX_LABELS))
            for label in self._labelled:
                for word in words_of(label):
                    self._labels.setdefault(word, []).append(label)
        found = [self._labels.get(word, ())[:MAX_ALIKE] for word in words[:MAX_WORDS]]
        return list(dict.fromkeys(itertools.chain.from_iterable(found)))

    def _indexed(self) -> dict[str, list[Any]]:
        """Return the values by the keys of their names, nested ones also by their paths; outer ones first."""
        if self._index is None:
            self._index = {}
            level: list[tuple[str, Mapping[str, Any]]] = [("", self.values)]
            count = 0
            for _ in range(_DEEPEST):
                deeper: list[tuple[str, Mapping[str, Any]]] = []
                for path, values in level:
                    for name, value in values.items():
                        count += 1
                        if count > MAX_VALUES:
                            return self._index
                        key = key_of(name)
                        for one in {key, path + key}:
                            self._index.setdefault(one, []).append(value)
                        if isinstance(value, Mapping):
                            deeper.append((path + key, value))
                level = deeper
        return self._index


def _paths(values: Mapping[str, Any], path: str = "", depth: int = 1) -> Iterator[tuple[str, Any]]:
    """Yield values with their names, nested ones with the names of what they are in; outer ones first."""
    for name, value in values.items():
        yield f"{path} {name}".strip(), value
    for name, value in values.items() if depth < _DEEPEST else ():
        if isinstance(value, Mapping):
            yield from _paths(value, f"{path} {name}".strip(), depth + 1)


@dataclass(slots=True)
class Evidence:
    """Everything that a page offers to the rules."""

    records: list[Record] = field(default_factory=list)
    """The most trusted ones first."""
    items: list[DataItem] = field(default_factory=list)
    """What the page describes for programs."""
    blocks: PageBlocks = field(default_factory=PageBlocks)
    """What it shows."""
    url: str = ""
    """Its address."""
    data: Any = None
    """The value of a JSON page."""
    repeated: list[tuple[str, list[Mapping[str, Any]]]] = field(default_factory=list)
    """Blocks that repeat, by what they are called."""
    anchors: list[tuple[str, str]] = field(default_factory=list)
    """The texts of links, and where they lead."""
    day_first: bool | None = None
    """Whether the language of the page writes the day before the month; None if that is not known."""

    def rows(self) -> Iterator[tuple[str, list[Mapping[str, Any]]]]:
        """Yield lists of like things, each with its name: items of one type, and tables."""
        by_type: dict[str, list[Mapping[str, Any]]] = {}
        for item in self.items:
            for name in item.types[:3]:
                by_type.setdefault(name, []).append(item.values)
        yield from by_type.items()
        for table in self.blocks.tables:
            if records := table.records():
                yield table.heading, list(records)
        yield from self.repeated
        questions = [
            {"question": heading, "answer": line} for heading, line in self.blocks.sections if heading.endswith("?")
        ]
        if questions:
            yield "questions faq", list(questions)


def values_for(name: str, records: Sequence[Record]) -> Iterator[Any]:
    """Yield the values that a name may have: the most trusted records first, and in them the nearest names."""
    for _, group in itertools.groupby(records, key=lambda record: record.trust):
        alike = list(group)
        for nearness in (3, 2):
            for record in alike:
                yield from record.find(name, nearness)
    for record in records:
        yield from record.find(name, 1)


def gather(source: ExtractionSource) -> Evidence:
    """Return what a page says of itself. The work is linear in its size, within the limits of each part."""
    items: list[DataItem] = []
    blocks, marks = PageBlocks(), MarkReader(source.url)
    tree = None if source.html is None else parse_page(source.html)
    if tree is not None:
        microdata, reader = MicrodataReader(source.url), BlockReader()
        walk(tree, (microdata, reader, marks))
        items, blocks = [*json_ld_items(tree), *microdata.items], reader.blocks
    elif source.data is None:
        blocks = blocks_of_markdown(source.markdown)
    return Evidence(
        _records(source, items, blocks, marks),
        items,
        blocks,
        source.url,
        source.data,
        marks.rows,
        marks.anchors,
        _day_first(source.metadata.get("language")),
    )


def _records(
    source: ExtractionSource, items: Sequence[DataItem], blocks: PageBlocks, marks: MarkReader
) -> list[Record]:
    """Return the things and the pairs of a page, the most trusted ones first."""
    things = [Record(item.values, item.types, _trust_of(item)) for item in items[:MAX_RECORDS]]
    records = sorted(things, key=lambda record: record.trust)
    if isinstance(source.data, Mapping):
        records.insert(0, Record(source.data))
    tags = {name: value for name, value in source.metadata.items() if value not in ("", None)}
    records += [
        Record(_pairs(blocks), trust=1),
        Record(phrases(blocks.lines), trust=2),
        Record({name: value for name, value in marks.fields.items() if name != "title"}, trust=3),
        Record({} if (mail := mail_address(blocks.lines)) is None else {"email": mail}, trust=4),
        Record(_own(source, blocks), trust=4),
        Record(tags, trust=5),
    ]
    return sorted(records, key=lambda record: record.trust)


def _trust_of(item: DataItem) -> int:
    return 4 if item.types and _ABOUT_THE_SITE.issuperset(map(key_of, item.types)) else 0


def _day_first(language: object) -> bool | None:
    """Tell how a language writes dates. English is written in both ways."""
    return None if not isinstance(language, str) or language.lower().startswith("en") else True


def _pairs(blocks: PageBlocks) -> dict[str, Any]:
    """Return the labelled pairs of a page; the first one of a label counts."""
    found: dict[str, Any] = {}
    pairs = [*blocks.pairs, *(pair for table in blocks.tables for pair in table.pairs())]
    for label, value in [*pairs, *blocks.sections]:
        if value:
            found.setdefault(label, value)
    return found


def _own(source: ExtractionSource, blocks: PageBlocks) -> dict[str, Any]:
    """Return what every page has."""
    first = next((text for level, text in blocks.headings if level == 1), None)
    title = source.metadata.get("ogTitle") or source.metadata.get("title")
    if first and isinstance(title, str) and first.casefold() in title.casefold():
        title = first  # the title of a page often has the name of its site, too
    own = {
        "title": title,
        "h1": first,
        "url": source.url,
        "headings": [text for _, text in blocks.headings],
        "links": list(source.links),
        "images": list(source.images),
        "content": source.markdown.strip(),
    }
    return {name: value for name, value in own.items() if value not in (None, "", [], MISSING)}
