"""One result from the data of several pages: the first value counts, lists are put together, nothing is twice."""

import itertools
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from receiver.service.emulator.extraction.rules import MAX_LIST
from receiver.service.emulator.json_text import to_json

MAX_SOURCES = 2_000
"""Values whose sources are told."""
_MAX_DEPTH = 60
_NAMING = ("id", "sku", "url", "link", "name", "title")
"""Properties by which two objects are the same thing, the surest first."""


class MergedData:
    """Takes the data of pages one by one. `value` is the result so far, `sources` says where values were found."""

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
    """Yield what tells a member of a list from others: the whole value, and what names the thing."""
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
