"""What an extraction or an agent has found: the data of its pages put together, and what is missing."""

import itertools
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from receiver.core.text import first_of
from receiver.emulator.extraction.rules import MAX_LIST
from receiver.emulator.json_text import to_json
from receiver.emulator.research.table import ResearchedPage, ResearchResult
from receiver.emulator.wire.research import ResearchPlan

MAX_SOURCES = 2_000
"""Values whose sources are reported."""
_MAX_DEPTH = 60
_NAMING = ("id", "sku", "url", "link", "name", "title")
"""Properties by which two objects are the same thing, the surest first."""
_SHOWN = 10
_MAX_WARNINGS = 5
_NOTHING_ASKED = frozenset({"title", "description"})
"""What rules return for a page that has nothing that the prompt names."""
_PARTS = re.compile(r"(?=\bjson: )")
_OF_ONE_PAGE = ("json: the page has no value", "json: without a schema")


class MergedData:
    """Puts the data of pages together: the first value counts, lists are joined, and nothing is in them twice."""

    def __init__(self) -> None:
        self._value = _Merged(None)

    @property
    def value(self) -> Any:
        """The data; None if no page had any."""
        return self._value.plain()

    @property
    def sources(self) -> dict[str, list[str]]:
        """JSON path of each value to the URLs where it was found."""
        return dict(itertools.islice(self._value.sources(""), MAX_SOURCES))

    def add(self, url: str, data: Any) -> None:
        """Take the data of a page."""
        self._value.take(url, data, 0)

    def missing(self) -> list[str]:
        """Return the paths of values that are null."""
        return list(itertools.islice(null_paths(self.value, ""), MAX_SOURCES))


def null_paths(value: Any, path: str) -> Iterator[str]:
    """Yield the paths of nulls in a value; of the members of a list, only those that all of them lack."""
    if value is None:
        yield path
    elif isinstance(value, dict):
        for name, inner in value.items():
            yield from null_paths(inner, f"{path}.{name}" if path else name)
    elif isinstance(value, list) and value:
        common = set(null_paths(value[0], ""))
        for one in value[1:]:
            common &= set(null_paths(one, ""))
        yield from sorted(f"{path}[].{name}".rstrip(".") for name in common)


class _Merged:
    """A value that is put together, with the pages that it comes from."""

    __slots__ = ("_fields", "_index", "_members", "_urls", "_value")

    def __init__(self, value: Any) -> None:
        self._value = value
        self._fields: dict[str, _Merged] | None = None
        self._members: list[_Merged] | None = None
        self._index: dict[bytes, _Merged] = {}
        self._urls: list[str] = []

    def take(self, url: str, data: Any, depth: int) -> None:
        """Take another value for this place. A value of another kind than the first one is left out."""
        if data is None or depth > _MAX_DEPTH:
            return
        empty = self._value is None and self._fields is None and self._members is None
        if isinstance(data, dict) and (empty or self._fields is not None):
            self._fields = {} if self._fields is None else self._fields
            for name, value in data.items():
                self._fields.setdefault(name, _Merged(None)).take(url, value, depth + 1)
        elif isinstance(data, list) and (empty or self._members is not None):
            self._members = [] if self._members is None else self._members
            for value in data:
                self._take_member(url, value, depth)
        elif not isinstance(data, dict | list):
            if empty:
                self._value = data
            if self._value == data and url not in self._urls:
                self._urls.append(url)

    def plain(self) -> Any:
        """Return the value as JSON has it."""
        if self._fields is not None:
            return {name: inner.plain() for name, inner in self._fields.items()}
        if self._members is not None:
            return [inner.plain() for inner in self._members]
        return self._value

    def sources(self, path: str) -> Iterator[tuple[str, list[str]]]:
        """Yield the paths of values with the URLs where they were found."""
        for name, inner in (self._fields or {}).items():
            yield from inner.sources(f"{path}.{name}" if path else name)
        for number, inner in enumerate(self._members or ()):
            yield from inner.sources(f"{path}[{number}]")
        if self._value is not None:
            yield path or "value", self._urls

    def _take_member(self, url: str, value: Any, depth: int) -> None:
        if self._members is None or value is None:
            return
        keys = list(_keys_of(value))
        member = next((self._index[key] for key in keys if key in self._index), None)
        if member is None:
            if len(self._members) >= MAX_LIST:
                return
            member = _Merged(None)
            self._members.append(member)
        for key in keys:
            self._index.setdefault(key, member)
        member.take(url, value, depth + 1)


def _keys_of(value: Any) -> Iterator[bytes]:
    """Yield what distinguishes a member of a list: the whole value, and what names the thing."""
    yield to_json(value)
    if isinstance(value, Mapping):
        name = next((one for one in _NAMING if isinstance(value.get(one), str | int) and value[one] != ""), None)
        if name is not None:
            yield to_json([name, str(value[name]).casefold()])


def merged(pages: Iterable[tuple[str, Any]]) -> MergedData:
    """Return the data of pages put together."""
    together = MergedData()
    for url, data in pages:
        together.add(url, data)
    return together


@dataclass(frozen=True, slots=True)
class ResearchFindings:
    """The findings of a job so far."""

    plan: ResearchPlan
    pages: Sequence[ResearchedPage]
    """What became of its pages, the most trusted ones first."""

    @property
    def scraped(self) -> list[ResearchedPage]:
        """The pages that were scraped."""
        return [one for one in self.pages if one.error is None]

    def together(self) -> MergedData:
        """Return the data of all pages put together. Without a schema, pages that have what was asked for count."""
        pages = self.scraped
        if self.plan.schema is None:
            answers = [one for one in pages if _answers(one.data)]
            pages = answers or pages
        return merged((one.url, one.data) for one in pages)

    def is_satisfied(self) -> bool:
        """Return whether everything that was asked for is there."""
        if self.plan.schema is None:
            return any(_answers(one.data) for one in self.scraped)
        together = self.together()
        return together.value is not None and not together.missing()

    def missing_names(self, names: Iterable[str]) -> list[str]:
        """Return those of the properties, by their names, that no page has had so far."""
        together = self.together()
        if together.value is None:
            return list(names)
        missing = {path.rpartition(".")[2].removesuffix("[]") for path in together.missing()}
        return [name for name in names if name in missing]

    def result(self, *notes: str) -> ResearchResult:
        """Return the result, with warnings about what is missing and what went wrong."""
        together = self.together()
        data = together.value
        missing = [] if data is None else together.missing()
        warnings = list(notes)
        if self.plan.without_effect:
            warnings.append(
                f"The emulator has no models of the service: {', '.join(self.plan.without_effect)} had no effect."
            )
        if data is None and self.scraped:
            warnings.append("The pages have no value that was asked for.")
        elif missing:
            warnings.append(f"The pages have no value for {first_of(missing, _SHOWN)}.")
        warnings += [f"{one.url}: {one.error}" for one in self.pages if one.error is not None][:_MAX_WARNINGS]
        parts = [part.strip() for page in self.scraped for part in _PARTS.split(page.warning or "")]
        own = dict.fromkeys(part for part in parts if part and not part.startswith(_OF_ONE_PAGE))
        warnings += list(own)[:_MAX_WARNINGS]  # each once, without those about what one page lacks
        return ResearchResult(data, together.sources, " ".join(warnings) or None)


def _answers(data: Any) -> bool:
    """Return whether the data of a page without schema is more than its title."""
    return data is not None and not (isinstance(data, dict) and data.keys() <= _NOTHING_ASKED)
