"""Finds the pages and images of a query in the index, and makes hits of them in their final order.

The work for a query is limited, however many pages have its words.
"""

import re
import sqlite3
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from functools import lru_cache

from receiver.core.clock import to_micros
from receiver.emulator.search.queries import (
    EVERY,
    SearchQuery,
    SearchTerm,
    SitePart,
    any_of,
    folded,
    mark,
    months_between,
    quoted,
    shown,
    words_in,
)

RANKED = 10_000
"""The most pages that are ranked by their whole text. If there are more, titles with the words come first."""
CANDIDATES = 200
"""The most pages that are examined more closely."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SearchScope:
    """The pages that count, beside the words of the query."""

    sites: Sequence[SitePart] = ()
    """Empty for every host."""
    other_sites: Sequence[SitePart] = ()
    kinds: Sequence[SearchQuery] = ()
    """Pages with the sites and file types of one of these; empty for all."""
    since: datetime | None = None
    until: datetime | None = None
    only_news: bool = False
    """Only articles with a date."""


@dataclass(frozen=True, slots=True)
class FoundRow:
    """A page or an image with the words of a query."""

    id: int
    score: float


@dataclass(frozen=True, slots=True)
class _TextTable:
    name: str
    weights: tuple[float, ...]
    """Of each column; the last one has the marks."""
    columns: dict[str, str] = field(default_factory=dict)
    """The columns for `title`, `place` and `body`; a missing one cannot be searched."""


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
    """Return up to `most` pages, the best first: those with all words, then others up to `limit`."""
    rest = _Condition.of(query, scope)
    look = _Lookup(connection, rest, most)
    found = look.best(_Groups.all_of(query), (_TEXTS, _HEADS), _PAGE_OF)
    if len(found) < limit and len(query.optional) > 1:
        found = _merged(found, look.best(look.rarest(_Groups.some_of(query)), (_TEXTS, _HEADS), _PAGE_OF))
    return found[:most]


def find_images(
    connection: sqlite3.Connection, query: SearchQuery, scope: SearchScope, *, limit: int, most: int
) -> list[FoundRow]:
    """Return up to `most` images by what pages say of them, as `find_pages` does for pages."""
    rest = _Condition.of(query, scope)
    rest.add_sizes(query)
    look = _Lookup(connection, rest, most)
    found = look.best(_Groups.all_of(query), (_IMAGES,), _IMAGE_OF)
    if len(found) < limit and len(query.optional) > 1:
        found = _merged(found, look.best(_Groups.some_of(query), (_IMAGES,), _IMAGE_OF))
    return found[:most]


@dataclass(frozen=True, slots=True)
class _Groups:
    needed: Sequence[tuple[SearchTerm, ...]]
    """A page has a term of each of these."""
    some: Sequence[SearchTerm]
    """And one of these, if there are any."""
    excluded: Sequence[SearchTerm]
    """And no term of these."""

    @property
    def phrases(self) -> list[list[str]]:
        """The words of each phrase, which have to be next to each other."""
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
    """The conditions that are not words: marks in the full text, and conditions in SQL."""

    wanted: list[str] = field(default_factory=list)
    """Each is a choice of marks; a page has one of each."""
    unwanted: list[str] = field(default_factory=list)
    """Marks that a page must not have."""
    sql: list[str] = field(default_factory=list)
    values: list[object] = field(default_factory=list)

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
            hosts = [mark("host", part.host) for kind in scope.kinds for part in kind.sites]
            made.wanted.append(
                any_of(hosts + [mark("type", one) for kind in scope.kinds for one in kind.file_types])
            )
        if scope.only_news:
            made.wanted.append(any_of([mark("news", "")]))
        made._add_dates(scope.since, scope.until)
        return made

    def add_sizes(self, query: SearchQuery) -> None:
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


class _Lookup:
    def __init__(self, connection: sqlite3.Connection, rest: _Condition, most: int) -> None:
        self._connection = connection
        self._rest = rest
        self._most = most

    def best(self, groups: _Groups, tables: Sequence[_TextTable], joined: str) -> list[FoundRow]:
        """Return the best rows of the first table. If it has too many to rank, those of the others come first."""
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
        """Return whether a phrase has only frequent words: each search of all pages with it takes long."""
        return any(
            all(self._is_many(_Groups((), (SearchTerm(word),), ()), _TEXTS) for word in words)
            for words in groups.phrases
        )

    def _some(self, groups: _Groups, table: _TextTable, joined: str) -> list[FoundRow]:
        """Return the first rows that match, with equal scores."""
        return self._selected(groups, table, joined, "SELECT t.rowid, -1.0", "LIMIT ?", (self._most,))

    def rarest(self, groups: _Groups) -> _Groups:
        """Return the same with only the rare ones of its words, if there are any: frequent ones say nothing."""
        some = [
            term
            for term in groups.some
            if not self._is_many(_Groups((*groups.needed, (term,)), (), groups.excluded), _TEXTS)
        ]
        return _Groups(groups.needed, some, groups.excluded) if some else groups

    def _is_many(self, groups: _Groups, table: _TextTable) -> bool:
        """Return whether more rows have the words than can be ranked. Dates and paths do not count."""
        expression = groups.expression(table.columns, self._rest)
        statement = f"SELECT count(*) FROM (SELECT 1 FROM {table.name} WHERE {table.name} MATCH ? LIMIT ?)"  # noqa: S608
        row = self._connection.execute(statement, (expression, RANKED + 1)).fetchone()
        return int(row[0]) > RANKED

    def _ranked(self, groups: _Groups, table: _TextTable, joined: str, bound: int) -> list[FoundRow]:
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
    found = {row.id: row for row in first}
    for row in then:
        found.setdefault(row.id, row)
    return list(found.values())


PASSAGE = 240
"""Characters of a passage."""
_SHORT = 40
"""Characters: a shorter line is more likely a menu than a sentence."""
_LOOKED_AT = 30_000
_MOST_LINES = 2_000
_PAGE_ROWS = """
SELECT p.id, p.url, p.dated_at, p.published, p.picture, t.title, t.headings, t.description, t.body
FROM search_pages AS p JOIN search_texts AS t ON t.rowid = p.id WHERE p.id IN ({})
"""
_IMAGE_ROWS = """
SELECT i.id, p.url, i.url AS image, i.width, i.height, x.title, x.context
FROM search_images AS i JOIN search_pages AS p ON p.id = i.page JOIN search_image_texts AS x ON x.rowid = i.id
WHERE i.id IN ({})
"""


@dataclass(slots=True, kw_only=True)
class PageHit:
    """A page as a result."""

    url: str
    title: str
    passage: str
    """About the query, or about the page."""
    published: str = ""
    """Its date in ISO 8601; empty if it names none."""
    picture: str = ""
    """The address of the picture for it; possibly empty."""
    dated_at: int = 0
    """Microseconds, for the order by date."""


@dataclass(slots=True, kw_only=True)
class PictureHit:
    """An image as a result, with its size in pixels if the page names it."""

    url: str
    """The page that shows it."""
    title: str
    image: str
    width: int | None = None
    height: int | None = None


def load_pages(connection: sqlite3.Connection, found: Sequence[FoundRow]) -> list[tuple[FoundRow, sqlite3.Row]]:
    """Return the rows of pages in the order of `found`."""
    return _load(connection, _PAGE_ROWS, found)


def load_images(connection: sqlite3.Connection, found: Sequence[FoundRow]) -> list[tuple[FoundRow, sqlite3.Row]]:
    """Return the rows of images in the order of `found`."""
    return _load(connection, _IMAGE_ROWS, found)


def _load(
    connection: sqlite3.Connection, statement: str, found: Sequence[FoundRow]
) -> list[tuple[FoundRow, sqlite3.Row]]:
    rows: dict[int, sqlite3.Row] = {}
    for at in range(0, len(found), 100):
        ids = [one.id for one in found[at : at + 100]]
        marks = ", ".join("?" * len(ids))
        rows |= {row["id"]: row for row in connection.execute(statement.format(marks), ids)}
    return [(one, rows[one.id]) for one in found if one.id in rows]


def page_hits(
    loaded: Iterable[tuple[FoundRow, sqlite3.Row]], query: SearchQuery, most: int, *, by_date: bool
) -> list[PageHit]:
    """Return the hits in their final order. This takes a while."""
    words = query.words
    scored = [(_page_score(one, row, words), row) for one, row in loaded if _has_phrases(row, query)]
    scored.sort(key=lambda pair: (-pair[0], pair[1]["id"]))
    rows = [row for _, row in scored]
    if by_date:
        rows.sort(key=lambda row: -int(row["dated_at"]))
    return [
        PageHit(
            url=row["url"],
            title=shown(row["title"]),
            passage=_passage(row, words),
            published=row["published"],
            picture=row["picture"],
            dated_at=row["dated_at"],
        )
        for row in rows[:most]
    ]


def image_hits(loaded: Iterable[tuple[FoundRow, sqlite3.Row]], most: int) -> list[PictureHit]:
    """Return the hits, with each image once, although many pages may show it."""
    hits: dict[str, PictureHit] = {}
    for _, row in loaded:
        title = shown(row["title"]) or shown(row["context"]).partition("\n")[0]
        hit = PictureHit(url=row["url"], title=title, image=row["image"], width=row["width"], height=row["height"])
        hits.setdefault(hit.image, hit)
    return list(hits.values())[:most]


def _page_score(found: FoundRow, row: sqlite3.Row, words: Sequence[str]) -> float:
    """Return the score with what the index does not weigh: missing words, and words next to each other."""
    path = str(row["url"]).partition("://")[2].partition("?")[0].rstrip("/")
    depth = 1 + 0.02 * path.count("/")
    if not words:
        return 1 / (depth + len(path) / 10_000)
    title = folded(row["title"])
    text = folded(f"{row['headings']}\n{row['description']}\n{row['body'][:_LOOKED_AT]}")
    stems = [_stem(word) for word in words]
    in_title = sum(stem in title for stem in stems) / len(stems)
    anywhere = sum(stem in title or stem in text for stem in stems) / len(stems)
    together = " ".join(words)
    bonus = 0.5 * in_title
    if len(words) > 1:
        bonus += 0.5 * (together in title) + 0.25 * (together in text)
    return (found.score + 1e-6) * (1 + bonus) * (0.25 + anywhere**2) / depth


def _has_phrases(row: sqlite3.Row, query: SearchQuery) -> bool:
    """Return whether the page has the quoted phrases as they are written: the index has only stems."""
    phrases = [group for group in query.groups if all(term.is_exact for term in group)]
    if not phrases:
        return True
    whole = folded("\n".join(row[name] for name in ("title", "headings", "description", "body", "url")))
    return all(any(_phrase_pattern(term.text).search(whole) for term in group) for group in phrases)


@lru_cache(maxsize=256)
def _phrase_pattern(text: str) -> re.Pattern[str]:
    return re.compile(r"(?<![^\W_])" + r"[\W_]+".join(map(re.escape, words_in(text))) + r"(?![^\W_])")


def _stem(word: str) -> str:
    """Return the beginning that the forms of a word roughly share."""
    return word[: max(4, len(word) - 2)] if len(word) > 4 else word.removesuffix("s") if len(word) > 3 else word


def _passage(row: sqlite3.Row, words: Sequence[str]) -> str:
    """Return the passage of a page with most of the words, or its description if that has as many."""
    titles = {shown(row["title"]), *shown(row["headings"]).split("\n")}
    body = shown(row["body"][:_LOOKED_AT]).split("\n")[:_MOST_LINES]
    description = shown(row["description"])
    lines = [description, *(line for line in body if line not in titles)]
    stems = [_stem(word) for word in words]
    counts = [sum(stem in line for stem in stems) for line in map(folded, lines)]
    best = max(range(len(lines)), key=lambda at: (counts[at], len(lines[at]) > _SHORT, -at))
    if not counts[best]:
        return _cut(next((line for line in (*lines, *body) if line), ""), 0)
    line = lines[best]
    low = folded(line)
    first = min((at for stem in stems if (at := low.find(stem)) >= 0), default=0)
    return _cut(line, first if len(low) == len(line) else 0)


def _cut(text: str, at: int) -> str:
    """Return a part of a text around a place, in whole words."""
    if len(text) <= PASSAGE:
        return text
    begin = max(0, min(at - PASSAGE // 3, len(text) - PASSAGE))
    begin = text.rfind(" ", 0, begin) + 1
    end = begin + PASSAGE
    cut = text[begin:end]
    if end < len(text):
        cut = cut[: cut.rfind(" ")] if " " in cut[PASSAGE // 2 :] else cut
        cut = f"{cut.rstrip(' ,;:')}…"
    return f"…{cut}" if begin else cut
