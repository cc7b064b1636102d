"""Looks queries up in the index. The work for a query is bounded, however many pages have its words."""

import sqlite3
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from datetime import datetime

from receiver.core.clock import to_micros
from receiver.emulator.search.queries import (
    EVERY,
    SearchQuery,
    SearchTerm,
    SitePart,
    any_of,
    mark,
    months_between,
    quoted,
    words_in,
)

RANKED = 10_000
"""The most pages that are ranked by their whole text. Of more, those with the words in the title come first."""
CANDIDATES = 200
"""The most pages that are looked at more closely."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SearchScope:
    """Which pages count, beside the words of the query."""

    sites: Sequence[SitePart] = ()
    """Pages of these; without any, of every host."""
    other_sites: Sequence[SitePart] = ()
    """Pages of none of these."""
    kinds: Sequence[SearchQuery] = ()
    """Pages that fit the sites and file types of one of these; without any, all."""
    since: datetime | None = None
    """Pages that are not older."""
    until: datetime | None = None
    """Pages that are not newer."""
    only_news: bool = False
    """Only articles with a date."""


@dataclass(frozen=True, slots=True)
class FoundRow:
    """A page or an image that has the words of a query."""

    id: int
    """Its number in the index."""
    score: float
    """How well it fits: more is better."""


@dataclass(frozen=True, slots=True)
class _TextTable:
    """One full text of the index."""

    name: str
    """The table."""
    weights: tuple[float, ...]
    """How much each column counts; what stands before its last one, the marks."""
    columns: dict[str, str] = field(default_factory=dict)
    """The column that stands for `title`, `place` and `body`; what is missing cannot be asked for."""


_TEXTS = _TextTable(
    "search_texts", (10.0, 5.0, 4.0, 3.0, 1.0, 0.0), {"title": "title", "place": "place", "body": "body"}
)
_HEADS = _TextTable("search_heads", (10.0, 5.0, 4.0, 0.0), {"title": "title", "place": "place"})
_IMAGES = _TextTable(
    "search_image_texts", (10.0, 3.0, 2.0, 0.0), {"title": "title", "place": "place", "body": "context"}
)
_PAGE_OF = "CROSS JOIN search_pages AS p ON p.id = t.rowid"
_IMAGE_OF = "CROSS JOIN search_images AS i ON i.id = t.rowid CROSS JOIN search_pages AS p ON p.id = i.page"


def find_pages(
    connection: sqlite3.Connection, query: SearchQuery, scope: SearchScope, *, limit: int, most: int
) -> list[FoundRow]:
    """Return up to `most` pages, the best first: those with all words, and others if these are below `limit`."""
    rest = _Condition.of(query, scope)
    look = _Lookup(connection, rest, most)
    found = look.best(_Groups.all_of(query), (_TEXTS, _HEADS), _PAGE_OF)
    if len(found) < limit and len(query.optional) > 1:
        found = _merged(found, look.best(look.rarest(_Groups.some_of(query)), (_TEXTS, _HEADS), _PAGE_OF))
    return found[:most]


def find_images(
    connection: sqlite3.Connection, query: SearchQuery, scope: SearchScope, *, limit: int, most: int
) -> list[FoundRow]:
    """Return up to `most` images by what pages say of them, as `find_pages` does it with pages."""
    rest = _Condition.of(query, scope)
    rest.add_sizes(query)
    look = _Lookup(connection, rest, most)
    found = look.best(_Groups.all_of(query), (_IMAGES,), _IMAGE_OF)
    if len(found) < limit and len(query.optional) > 1:
        found = _merged(found, look.best(_Groups.some_of(query), (_IMAGES,), _IMAGE_OF))
    return found[:most]


@dataclass(frozen=True, slots=True)
class _Groups:
    """The words that are looked for in one go."""

    needed: Sequence[tuple[SearchTerm, ...]]
    """A page has a term of each of these."""
    some: Sequence[SearchTerm]
    """And one of these, if there are any."""
    excluded: Sequence[SearchTerm]
    """And none of these."""

    @property
    def phrases(self) -> list[list[str]]:
        """The words of each phrase: they have to stand next to each other."""
        found = [words_in(term.text) for group in self.needed for term in group]
        return [words for words in found if len(words) > 1]

    @classmethod
    def all_of(cls, query: SearchQuery) -> "_Groups":
        return cls(query.groups, (), query.excluded)

    @classmethod
    def some_of(cls, query: SearchQuery) -> "_Groups":
        optional = query.optional
        needed = [group for group in query.groups if group not in optional]
        return cls(needed, tuple(term for group in optional for term in group), query.excluded)

    def expression(self, columns: dict[str, str], marks: "_Condition") -> str | None:
        """Return the query in the language of FTS5; None if the table lacks a column that it needs."""
        groups = [*self.needed, *([tuple(self.some)] if self.some else [])]
        try:
            parts = ["(" + " OR ".join(_phrase(term, columns) for term in group) + ")" for group in groups]
            without = [_phrase(term, columns) for term in self.excluded if (term.column or "title") in columns]
        except KeyError:
            return None
        wanted = marks.wanted if marks.wanted or parts else [any_of([mark(EVERY, "")])]
        text = " AND ".join([*parts, *(f"marks : {one}" for one in wanted)])
        unwanted = [*without, *(f"marks : {quoted(word)}" for word in marks.unwanted)]
        return f"({text}) NOT ({' OR '.join(unwanted)})" if unwanted else text


def _phrase(term: SearchTerm, columns: dict[str, str]) -> str:
    return quoted(term.text) if term.column is None else f"{columns[term.column]} : {quoted(term.text)}"


@dataclass(slots=True)
class _Condition:
    """What a page has to be, as far as it is no word: marks in the full text, and conditions in SQL."""

    wanted: list[str] = field(default_factory=list)
    """Each is a choice of marks; a page has one of each."""
    unwanted: list[str] = field(default_factory=list)
    """Marks that a page does not have."""
    sql: list[str] = field(default_factory=list)
    """Conditions on the row."""
    values: list[object] = field(default_factory=list)
    """Their values."""

    @classmethod
    def of(cls, query: SearchQuery, scope: SearchScope) -> "_Condition":
        made = cls()
        for sites in (query.sites, scope.sites):
            made._add_sites(sites)
        for part in (*query.other_sites, *scope.other_sites):
            if part.path:
                made._add_sql("instr(p.url, ?) = 0", f"{part.host}{part.path}")
            else:
                made.unwanted.append(mark("host", part.host))
        if query.file_types:
            made.wanted.append(any_of(mark("type", one) for one in query.file_types))
        made.unwanted += [mark("type", one) for one in query.other_file_types]
        if scope.kinds:
            made.wanted.append(any_of(word for kind in scope.kinds for word in _marks_of(kind)))
        if scope.only_news:
            made.wanted.append(any_of([mark("news", "")]))
        made._add_dates(scope.since, scope.until)
        return made

    def add_sizes(self, query: SearchQuery) -> None:
        """Let only images of a size count."""
        if query.image_size is not None:
            self._add_sql("i.width = ? AND i.height = ?", *query.image_size)
        if query.larger_than is not None:
            self._add_sql("i.width > ? AND i.height > ?", *query.larger_than)

    def _add_sites(self, sites: Iterable[SitePart]) -> None:
        sites = list(sites)[:50]
        if not sites:
            return
        self.wanted.append(any_of(mark("host", part.host) for part in sites))
        if any(part.path for part in sites):
            places = [f"{part.host}{part.path}" for part in sites]
            self._add_sql(" OR ".join(["instr(p.url, ?) > 0"] * len(places)), *places)

    def _add_dates(self, since: datetime | None, until: datetime | None) -> None:
        if since is not None and until is not None and (months := months_between(since, until)) is not None:
            self.wanted.append(any_of(mark("month", month) for month in months))
        if since is not None:
            self._add_sql("p.dated_at >= ?", to_micros(since))
        if until is not None:
            self._add_sql("p.dated_at <= ?", to_micros(until))

    def _add_sql(self, text: str, *values: object) -> None:
        self.sql.append(f"({text})")
        self.values += values


def _marks_of(kind: SearchQuery) -> list[str]:
    return [mark("host", part.host) for part in kind.sites] + [mark("type", one) for one in kind.file_types]


class _Lookup:
    """Looks into the full texts for one query."""

    def __init__(self, connection: sqlite3.Connection, rest: _Condition, most: int) -> None:
        self._connection = connection
        self._rest = rest
        self._most = most

    def best(self, groups: _Groups, tables: Sequence[_TextTable], joined: str) -> list[FoundRow]:
        """Return the best rows of the first table. If it has too many to be ranked, the others come before it."""
        first, *others = tables
        if self._is_costly(groups):
            return _merged(self._of_others(groups, others, joined), self._some(groups, first, joined))
        if not others or not self._is_many(groups, first):
            return self._ranked(groups, first, joined, RANKED)
        found = self._of_others(groups, others, joined)
        if len(found) < self._most:
            found = _merged(found, self._ranked(groups, first, joined, RANKED))
        return found

    def _of_others(self, groups: _Groups, tables: Sequence[_TextTable], joined: str) -> list[FoundRow]:
        found: list[FoundRow] = []
        for table in tables:
            found = _merged(found, self._ranked(groups, table, joined, RANKED))
        return found

    def _is_costly(self, groups: _Groups) -> bool:
        """Tell whether a phrase has frequent words alone: each look at all pages with it takes long."""
        return any(
            all(self._is_many(_Groups((), (SearchTerm(word),), ()), _TEXTS) for word in words)
            for words in groups.phrases
        )

    def _some(self, groups: _Groups, table: _TextTable, joined: str) -> list[FoundRow]:
        """Return the first rows that fit, as if they fitted equally well."""
        return self._selected(groups, table, joined, "SELECT t.rowid, -1.0", "LIMIT ?", (self._most,))

    def rarest(self, groups: _Groups) -> _Groups:
        """Return the same with the rare ones of its words alone, if there are any: frequent ones tell nothing."""
        some = [
            term
            for term in groups.some
            if not self._is_many(_Groups((*groups.needed, (term,)), (), groups.excluded), _TEXTS)
        ]
        return _Groups(groups.needed, some, groups.excluded) if some else groups

    def _is_many(self, groups: _Groups, table: _TextTable) -> bool:
        """Tell whether more rows have the words than can be ranked. Dates and paths do not count."""
        expression = groups.expression(table.columns, self._rest)
        statement = f"SELECT count(*) FROM (SELECT 1 FROM {table.name} WHERE {table.name} MATCH ? LIMIT ?)"  # noqa: S608
        row = self._connection.execute(statement, (expression, RANKED + 1)).fetchone()
        return int(row[0]) > RANKED

    def _ranked(self, groups: _Groups, table: _TextTable, joined: str, bound: int) -> list[FoundRow]:
        """Return the best of the first rows that fit."""
        weights = ", ".join(map(str, table.weights))
        score = f"bm25({table.name}, {weights})"
        columns = f"SELECT id, score FROM (SELECT t.rowid AS id, {score} AS score"  # noqa: S608 - constants
        return self._selected(
            groups, table, joined, columns, "LIMIT ?) ORDER BY score, id LIMIT ?", (bound, self._most)
        )

    def _selected(
        self, groups: _Groups, table: _TextTable, joined: str, columns: str, end: str, bounds: Sequence[int]
    ) -> list[FoundRow]:
        expression = groups.expression(table.columns, self._rest)
        if expression is None:
            return []
        join = joined if self._rest.sql else ""
        conditions = "".join(f" AND {one}" for one in self._rest.sql)
        rows = f"FROM {table.name} AS t {join} WHERE {table.name} MATCH ?{conditions}"
        statement = f"{columns} {rows} {end}"
        values = (expression, *self._rest.values, *bounds)
        return [FoundRow(row[0], -row[1]) for row in self._connection.execute(statement, values)]


def _merged(first: Sequence[FoundRow], then: Iterable[FoundRow]) -> list[FoundRow]:
    """Return each row once, with the score that it has where it comes first."""
    found = {row.id: row for row in first}
    for row in then:
        found.setdefault(row.id, row)
    return list(found.values())
