"""What a page says of itself, the most trustworthy first: data for programs, then what is shown."""

import itertools
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice
from typing import Any

from receiver.emulator.extraction.marks import DataItem, MarkReader, MicrodataReader, json_ld_items
from receiver.emulator.extraction.names import iso_date, key_of, likeness, synonyms_of, words_of
from receiver.emulator.extraction.reading import BlockReader, PageBlocks, blocks_of_markdown, parse_page, walk

MAX_LINES = 300
"""Lines that are searched for sentences with authors, dates and addresses."""
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
    """Return the author and the dates that lines of a page name: `By Person One`, `Published on 3 May 2024`."""
    found: dict[str, str] = {}
    for line in islice(lines, MAX_LINES):
        if len(line) <= MAX_LINE:
            for name, value in _of_line(line):
                found.setdefault(name, value)
    return found


def mail_address(lines: Iterable[str]) -> str | None:
    """Return the only e-mail address that lines of a page show; None if they show several."""
    shown = (line for line in lines if "@" in line)
    found: dict[str, str] = {}
    for address in (address for line in islice(shown, MAX_LINES) for address in _MAIL.findall(line)):
        found.setdefault(address.lower(), address)
    return next(iter(found.values())) if len(found) == 1 else None


def _of_line(line: str) -> Iterator[tuple[str, str]]:
    if byline := _BYLINE.search(line):
        starts = byline.start() == 0 or _PUBLISHED.search(line[: byline.start()])
        if starts:
            yield "author", byline[1]
    for name, pattern in (("published", _PUBLISHED), ("updated", _UPDATED)):
        if (match := pattern.search(line)) and (day := iso_date(match["rest"])):
            yield name, day


@dataclass(frozen=True, slots=True, kw_only=True)
class ExtractionSource:
    """What an extraction needs of one page."""

    url: str
    """After redirects."""
    markdown: str = ""
    html: str | None = None
    """The page as it was sent; None if it is not HTML."""
    data: Any = None
    """The value of a JSON page; None for other pages."""
    metadata: Mapping[str, Any] = field(default_factory=dict)
    links: Sequence[str] = ()
    images: Sequence[str] = ()


MAX_VALUES = 5_000
"""Values of one record that are indexed."""
MAX_LABELS = 2_000
"""Labels of one record that are searched for words."""
MAX_ALIKE, MAX_WORDS = 20, 10
"""Labels with the same word, and words of a name, that are compared."""
MAX_RECORDS = 30
"""Things of a page that are searched for single values. Lists are made of all of them."""
_DEEPEST = 4
_ABOUT_THE_SITE = frozenset(
    ["organization", "website", "webpage", "breadcrumblist", "imageobject", "localbusiness", "store", "person"]
)
"""Types of things that pages about something else describe too."""


class Record:
    """Values by name: of a thing that the page describes, or all labelled pairs of the page."""

    def __init__(self, values: Mapping[str, Any], types: Sequence[str] = (), trust: int = 0) -> None:
        self.values = values
        self.trust = trust
        """0 for data for programs; higher numbers for what the page shows and for its address."""
        self.types = frozenset(map(key_of, types))
        self._index: dict[str, list[Any]] | None = None
        self._labels: dict[str, list[str]] | None = None
        self._labelled: dict[str, Any] = {}

    def find(self, name: str, nearness: int) -> Iterator[Any]:
        """Yield the values whose names are as close as `likeness` says, from 1 (similar) to 3 (the same)."""
        if nearness == 1:
            for label in self._labels_with(words_of(name)):
                if likeness(name, label) == 1:
                    yield self._labelled[label]
            return
        keys = [key_of(name)] if nearness == 3 else sorted(synonyms_of(name) - {key_of(name)})
        for key in keys:
            yield from self._indexed().get(key, ())

    def _labels_with(self, words: Sequence[str]) -> list[str]:
        """Return labels that share a word, not all if there are many."""
        if self._labels is None:
            self._labels = {}
            self._labelled = dict(itertools.islice(_paths(self.values), MAX_LABELS))
            for label in self._labelled:
                for word in words_of(label):
                    self._labels.setdefault(word, []).append(label)
        found = [self._labels.get(word, ())[:MAX_ALIKE] for word in words[:MAX_WORDS]]
        return list(dict.fromkeys(itertools.chain.from_iterable(found)))

    def _indexed(self) -> dict[str, list[Any]]:
        """Return the values by key, nested ones also by their path; outer ones first."""
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
    """Yield values with their names, nested ones with those around them; outer ones first."""
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
    blocks: PageBlocks = field(default_factory=PageBlocks)
    url: str = ""
    data: Any = None
    repeated: list[tuple[str, list[Mapping[str, Any]]]] = field(default_factory=list)
    """Blocks that repeat, each group with its name."""
    anchors: list[tuple[str, str]] = field(default_factory=list)
    """The texts and the targets of links."""
    day_first: bool | None = None
    """The language of the page writes the day before the month; None if that is unknown."""

    def rows(self) -> Iterator[tuple[str, list[Mapping[str, Any]]]]:
        """Yield lists of similar things with their names: items of one type, tables, blocks that repeat."""
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
    """Yield the possible values of a name: the most trusted records first, and the closest names within them."""
    for _, group in itertools.groupby(records, key=lambda record: record.trust):
        alike = list(group)
        for nearness in (3, 2):
            for record in alike:
                yield from record.find(name, nearness)
    for record in records:
        yield from record.find(name, 1)


def gather(source: ExtractionSource) -> Evidence:
    """Return the evidence of a page. The work is linear in its size, within the limits of each part."""
    items: list[DataItem] = []
    blocks, marks = PageBlocks(), MarkReader(source.url)
    tree = None if source.html is None else parse_page(source.html)
    if tree is not None:
        microdata, reader = MicrodataReader(source.url), BlockReader()
        walk(tree, (microdata, reader, marks))
        items, blocks = [*json_ld_items(tree), *microdata.items], reader.blocks
    elif source.data is None:
        blocks = blocks_of_markdown(source.markdown)
    language = source.metadata.get("language")
    return Evidence(
        _records(source, items, blocks, marks),
        items,
        blocks,
        source.url,
        source.data,
        marks.rows,
        marks.anchors,
        # English writes dates in both ways.
        None if not isinstance(language, str) or language.lower().startswith("en") else True,
    )


def _records(
    source: ExtractionSource, items: Sequence[DataItem], blocks: PageBlocks, marks: MarkReader
) -> list[Record]:
    """Return the things and the pairs of a page, the most trusted ones first."""
    records = []
    for item in items[:MAX_RECORDS]:
        is_of_site = item.types and _ABOUT_THE_SITE.issuperset(map(key_of, item.types))
        records.append(Record(item.values, item.types, 4 if is_of_site else 0))
    records.sort(key=lambda record: record.trust)
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


def _pairs(blocks: PageBlocks) -> dict[str, Any]:
    """Return the labelled pairs of a page; the first of a label counts."""
    found: dict[str, Any] = {}
    pairs = [*blocks.pairs, *(pair for table in blocks.tables for pair in table.pairs())]
    for label, value in [*pairs, *blocks.sections]:
        if value:
            found.setdefault(label, value)
    return found


def _own(source: ExtractionSource, blocks: PageBlocks) -> dict[str, Any]:
    first = next((text for level, text in blocks.headings if level == 1), None)
    title = source.metadata.get("ogTitle") or source.metadata.get("title")
    if first and isinstance(title, str) and first.casefold() in title.casefold():
        title = first  # titles often contain the name of the site too
    own = {
        "title": title,
        "h1": first,
        "url": source.url,
        "headings": [text for _, text in blocks.headings],
        "links": list(source.links),
        "images": list(source.images),
        "content": source.markdown.strip(),
    }
    return {name: value for name, value in own.items() if value not in (None, "", [])}
