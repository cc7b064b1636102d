"""What a page says of itself, ordered by how far it can be trusted: data for programs first, then what is shown."""

import itertools
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from receiver.service.emulator.extraction.blocks import PageBlocks, blocks_of_markdown
from receiver.service.emulator.extraction.coercion import MISSING
from receiver.service.emulator.extraction.names import key_of, likeness, synonyms_of, words_of
from receiver.service.emulator.extraction.reading import BlockReader
from receiver.service.emulator.extraction.source import ExtractionSource
from receiver.service.emulator.extraction.structured import DataItem, MicrodataReader, json_ld_items
from receiver.service.emulator.extraction.walking import parse_page, walk

MAX_VALUES = 5_000
"""Values of one record that are indexed."""
MAX_LABELS = 2_000
"""Labels of one record that are searched for words."""
MAX_ALIKE, MAX_WORDS = 20, 10
"""Labels with the same word, and words of a name, that are compared."""
MAX_RECORDS = 30
"""Things of a page in which single values are looked for. Lists are made of all of them."""
_DEEPEST = 4


class Record:
    """Values by their names: a thing that the page describes, or all labelled pairs of the page."""

    def __init__(self, values: Mapping[str, Any], types: Sequence[str] = ()) -> None:
        self.values = values
        self.types = frozenset(map(key_of, types))
        self._index: dict[str, list[Any]] | None = None
        self._labels: dict[str, list[str]] | None = None

    def find(self, name: str, nearness: int) -> Iterator[Any]:
        """Yield the values whose names are as near to a name as `likeness` says: 3 is the same, 1 is alike."""
        if nearness == 1:
            for label in self._labels_with(words_of(name)):
                if likeness(name, label) == 1:
                    yield self.values[label]
            return
        keys = [key_of(name)] if nearness == 3 else sorted(synonyms_of(name) - {key_of(name)})
        for key in keys:
            yield from self._indexed().get(key, ())

    def _labels_with(self, words: Sequence[str]) -> list[str]:
        """Return the labels that share a word, some of them if there are many."""
        if self._labels is None:
            self._labels = {}
            for label in itertools.islice(self.values, MAX_LABELS):
                for word in words_of(label):
                    self._labels.setdefault(word, []).append(label)
        found = [self._labels.get(word, ())[:MAX_ALIKE] for word in words[:MAX_WORDS]]
        return list(dict.fromkeys(itertools.chain.from_iterable(found)))

    def _indexed(self) -> dict[str, list[Any]]:
        """Return the values by the keys of their names, also nested ones; outer ones first."""
        if self._index is None:
            self._index = {}
            level: list[Mapping[str, Any]] = [self.values]
            count = 0
            for _ in range(_DEEPEST):
                deeper: list[Mapping[str, Any]] = []
                for values in level:
                    for name, value in values.items():
                        count += 1
                        if count > MAX_VALUES:
                            return self._index
                        self._index.setdefault(key_of(name), []).append(value)
                        if isinstance(value, Mapping):
                            deeper.append(value)
                level = deeper
        return self._index


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


def values_for(name: str, records: Sequence[Record]) -> Iterator[Any]:
    """Yield the values that a name may have: the nearest names first, then the most trusted records."""
    for nearness in (3, 2, 1):
        for record in records:
            yield from record.find(name, nearness)


def gather(source: ExtractionSource) -> Evidence:
    """Return what a page says of itself. The work is linear in its size, within the limits of each part."""
    items: list[DataItem] = []
    blocks = PageBlocks()
    tree = None if source.html is None else parse_page(source.html)
    if tree is not None:
        microdata, reader = MicrodataReader(source.url), BlockReader()
        walk(tree, (microdata, reader))
        items, blocks = [*json_ld_items(tree), *microdata.items], reader.blocks
    elif source.data is None:
        blocks = blocks_of_markdown(source.markdown)
    records = [Record(item.values, item.types) for item in items[:MAX_RECORDS]]
    if isinstance(source.data, Mapping):
        records.insert(0, Record(source.data))
    records.append(Record(_pairs(blocks)))
    records.append(Record(_own(source, blocks)))
    records.append(Record({name: value for name, value in source.metadata.items() if value not in ("", None)}))
    return Evidence(records, items, blocks, source.url, source.data)


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
    own = {
        "title": source.metadata.get("ogTitle") or source.metadata.get("title"),
        "h1": first,
        "url": source.url,
        "headings": [text for _, text in blocks.headings],
        "links": list(source.links),
        "images": list(source.images),
        "content": source.markdown.strip(),
    }
    return {name: value for name, value in own.items() if value not in (None, "", [], MISSING)}
