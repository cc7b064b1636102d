"""What a page says of itself, ordered by how far it can be trusted: data for programs first, then what is shown."""

import itertools
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from receiver.service.emulator.extraction.blocks import PageBlocks, blocks_of_markdown
from receiver.service.emulator.extraction.coercion import MISSING
from receiver.service.emulator.extraction.marks import MarkReader
from receiver.service.emulator.extraction.names import key_of, likeness, synonyms_of, words_of
from receiver.service.emulator.extraction.phrases import mail_address, phrases
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
