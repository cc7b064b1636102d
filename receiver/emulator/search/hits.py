"""Hits: pages and images that were found, put into their final order, with the passage that shows why."""

import re
import sqlite3
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache

from receiver.emulator.search.finding import FoundRow
from receiver.emulator.search.queries import SearchQuery, folded, shown, words_in

PASSAGE = 240
"""Characters of a passage."""
_SHORT = 40
"""Characters: a shorter line is rather a menu than a sentence."""
_LOOKED_AT = 30_000
_MOST_LINES = 2_000
_PAGES = """
SELECT p.id, p.url, p.dated_at, p.published, p.picture, t.title, t.headings, t.description, t.body
FROM search_pages AS p JOIN search_texts AS t ON t.rowid = p.id WHERE p.id IN ({})
"""
_IMAGES = """
SELECT i.id, p.url, i.url AS image, i.width, i.height, x.title, x.context
FROM search_images AS i JOIN search_pages AS p ON p.id = i.page JOIN search_image_texts AS x ON x.rowid = i.id
WHERE i.id IN ({})
"""


@dataclass(slots=True, kw_only=True)
class PageHit:
    """A page that was found."""

    url: str
    """Its address."""
    title: str
    """Its title."""
    passage: str
    """What it says about the query, or of itself."""
    published: str = ""
    """When it says it was published, in ISO 8601; empty if it does not."""
    picture: str = ""
    """The address of the picture that stands for it; it may be empty."""
    dated_at: int = 0
    """Its date for the order by date, in microseconds."""


@dataclass(slots=True, kw_only=True)
class PictureHit:
    """An image that was found."""

    url: str
    """The page that shows it."""
    title: str
    """What the page says of it, or the page's title."""
    image: str
    """Its address."""
    width: int | None = None
    """In pixels, if the page says so."""
    height: int | None = None
    """In pixels, if the page says so."""


def load_pages(connection: sqlite3.Connection, found: Sequence[FoundRow]) -> list[tuple[FoundRow, sqlite3.Row]]:
    """Return the rows of pages, in the order of what was found."""
    return _load(connection, _PAGES, found)


def load_images(connection: sqlite3.Connection, found: Sequence[FoundRow]) -> list[tuple[FoundRow, sqlite3.Row]]:
    """Return the rows of images, in the order of what was found."""
    return _load(connection, _IMAGES, found)


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
    """Return the hits, each image once, although many pages may show it."""
    hits: dict[str, PictureHit] = {}
    for _, row in loaded:
        title = shown(row["title"]) or shown(row["context"]).partition("\n")[0]
        hit = PictureHit(url=row["url"], title=title, image=row["image"], width=row["width"], height=row["height"])
        hits.setdefault(hit.image, hit)
    return list(hits.values())[:most]


def _page_score(found: FoundRow, row: sqlite3.Row, words: Sequence[str]) -> float:
    """Return the score with what the index does not weigh: missing words, and words that stand together."""
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
    """Tell whether the page has what stands in quotes, as it is written: the index has only stems."""
    phrases = [group for group in query.groups if all(term.is_exact for term in group)]
    if not phrases:
        return True
    whole = folded("\n".join(row[name] for name in ("title", "headings", "description", "body", "url")))
    return all(any(_phrase_pattern(term.text).search(whole) for term in group) for group in phrases)


@lru_cache(maxsize=256)
def _phrase_pattern(text: str) -> re.Pattern[str]:
    return re.compile(r"(?<![^\W_])" + r"[\W_]+".join(map(re.escape, words_in(text))) + r"(?![^\W_])")


def _stem(word: str) -> str:
    """Return the beginning that the forms of a word share, more or less."""
    return word[: max(4, len(word) - 2)] if len(word) > 4 else word.removesuffix("s") if len(word) > 3 else word


def _passage(row: sqlite3.Row, words: Sequence[str]) -> str:
    """Return the passage of a page with most of the words; what the page says of itself if that has as many."""
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
