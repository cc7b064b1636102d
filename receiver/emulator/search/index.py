"""The search index: the full text of pages in SQLite (FTS5), in the state database."""

import hashlib
import sqlite3
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from pathlib import PurePosixPath
from urllib.parse import unquote, urlunsplit

from typing_extensions import override

from receiver.core.clock import to_micros
from receiver.emulator.content.kinds import ContentKind, kind_of
from receiver.emulator.content.metadata import moment_of
from receiver.emulator.content.page import PageContent
from receiver.emulator.fetching.web_urls import host_of, is_route, split_web_url, url_key, without_credentials
from receiver.emulator.scrapes import FetchedPage
from receiver.emulator.scraping.answers import plain_blocks
from receiver.emulator.scraping.ports import PageIndex, WritePage
from receiver.emulator.search.queries import EVERY, host_names, indexed, mark, month_of, words_of_url

_MOST_BODY = 100_000
_MOST_HEADINGS = 5_000


@dataclass(frozen=True, slots=True)
class IndexedImage:
    """An image on a page, with its size in pixels if the page names it."""

    url: str
    title: str
    width: int | None
    height: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class PageEntry:
    """What the index keeps of a page, with texts made by `indexed`."""

    key: str
    """Equal for all spellings of its address."""
    url: str
    """Without fragment and credentials."""
    host: str
    title: str
    """Never empty."""
    place: str
    """The words of the address."""
    headings: str
    """One per line."""
    description: str
    body: str
    """Its text, one block per line."""
    marks: str
    """Words for its host, type and month."""
    dated_at: int
    """Its date of publication or change, or else of the fetch, in microseconds."""
    published: str
    """Its date of publication; empty if it names none."""
    is_news: bool
    picture: str
    """The address of the picture for it; possibly empty."""
    images: tuple[IndexedImage, ...] = ()

    @property
    def digest(self) -> bytes:
        """Equal for entries with the same content."""
        parts = (self.title, self.headings, self.description, self.body, self.published, repr(self.images))
        return hashlib.blake2b("\0".join(parts).encode("utf-8", "replace"), digest_size=16).digest()


def entry_of(page: FetchedPage, content: PageContent) -> PageEntry | None:
    """Return the entry of a page with an outline; None for an address that is not of the web."""
    url = without_credentials(page.url)
    parts = split_web_url(url)
    if parts is None or content.outline is None:
        return None
    outline = content.outline
    if not is_route(parts.fragment):
        url = urlunsplit(parts._replace(fragment=""))
    blocks = plain_blocks(str(outline.get("text") or ""))
    headings = [str(one) for one in outline.get("headings") or ()]
    published, modified = str(outline.get("published") or ""), str(outline.get("modified") or "")
    dated_at = moment_of(published) or moment_of(modified) or page.fetched_at
    is_news = bool(outline.get("isArticle"))
    host = host_of(parts)
    file = PurePosixPath(unquote(parts.path)).name
    names = (_text(content.metadata.get("title")), *headings[:1], file, *blocks[:1])
    title = next((name.strip()[:300] for name in names if name.strip()), "")
    return PageEntry(
        key=url_key(url),
        url=url,
        host=host,
        title=indexed(title or host),
        place=indexed(words_of_url(parts)),
        headings=indexed("\n".join(headings)[:_MOST_HEADINGS]),
        description=indexed(_text(content.metadata.get("description") or content.metadata.get("ogDescription"))),
        body=indexed("\n".join(blocks)[:_MOST_BODY]),
        marks=" ".join(_marks(page, host, dated_at, is_news=is_news)),
        dated_at=to_micros(dated_at),
        published=published,
        is_news=is_news,
        picture=str(outline.get("picture") or ""),
        images=tuple(
            IndexedImage(str(one["url"]), indexed(str(one["title"])), one["width"], one["height"])
            for one in outline.get("images") or ()
        ),
    )


def _text(value: object) -> str:
    if isinstance(value, list):
        value = value[0] if value else ""
    return " ".join(str(value or "").split())[:2_000]


def _marks(page: FetchedPage, host: str, dated_at: datetime, *, is_news: bool) -> Iterator[str]:
    yield mark(EVERY, "")
    for name in host_names(host):
        yield mark("host", name)
    kind = kind_of(page.body[:4096], page.content_type, page.url)
    is_named = kind not in (ContentKind.TEXT, ContentKind.OLD_OFFICE, ContentKind.UNSUPPORTED)
    yield mark("type", kind.value if is_named else "txt" if kind is ContentKind.TEXT else "html")
    if ending := PurePosixPath(page.url.partition("?")[0]).suffix.lower().lstrip("."):
        yield mark("type", ending)
    yield mark("month", month_of(dated_at))
    if is_news:
        yield mark("news", "")


_TOKENS = "tokenize = 'porter unicode61 remove_diacritics 2'"
_VIRTUAL = {
    "search_texts": "title, place, headings, description, body, marks",
    "search_heads": "title, place, headings, marks",
    "search_image_texts": "title, place, context, marks",
}
"""Full texts. Only the heads are searched for a word that is on too many pages to rank them all."""
_MADE = tuple(
    f"CREATE VIRTUAL TABLE IF NOT EXISTS {name} USING fts5({columns}, {_TOKENS})"
    for name, columns in _VIRTUAL.items()
)
SCHEMA = """
CREATE TABLE IF NOT EXISTS search_pages (
    id INTEGER PRIMARY KEY,
    key TEXT NOT NULL UNIQUE,
    url TEXT NOT NULL,
    host TEXT NOT NULL,
    dated_at INTEGER NOT NULL,
    published TEXT NOT NULL,
    is_news INTEGER NOT NULL,
    picture TEXT NOT NULL,
    digest BLOB NOT NULL
) STRICT;
CREATE INDEX IF NOT EXISTS search_pages_by_host ON search_pages (host);
CREATE TABLE IF NOT EXISTS search_images (
    id INTEGER PRIMARY KEY,
    page INTEGER NOT NULL,
    url TEXT NOT NULL,
    width INTEGER,
    height INTEGER
) STRICT;
CREATE INDEX IF NOT EXISTS search_images_by_page ON search_images (page);
""" + "".join(f"{made};\n" for made in _MADE)
_KNOWN = "SELECT id, digest FROM search_pages WHERE key = ?"
_INSERT = """
INSERT INTO search_pages (id, key, url, host, dated_at, published, is_news, picture, digest)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)
"""
_INSERT_TEXT = """
INSERT INTO search_texts (rowid, title, place, headings, description, body, marks) VALUES (?, ?, ?, ?, ?, ?, ?)
"""
_INSERT_HEAD = "INSERT INTO search_heads (rowid, title, place, headings, marks) VALUES (?, ?, ?, ?, ?)"
_INSERT_IMAGE = "INSERT INTO search_images (page, url, width, height) VALUES (?, ?, ?, ?)"
_INSERT_IMAGE_TEXT = "INSERT INTO search_image_texts (rowid, title, place, context, marks) VALUES (?, ?, ?, ?, ?)"
_FORGET = (
    "DELETE FROM search_image_texts WHERE rowid IN (SELECT id FROM search_images WHERE page = ?)",
    "DELETE FROM search_images WHERE page = ?",
    "DELETE FROM search_heads WHERE rowid = ?",
    "DELETE FROM search_texts WHERE rowid = ?",
    "DELETE FROM search_pages WHERE id = ?",
)


class FullTextIndex(PageIndex):
    """Keeps each address once."""

    @override
    def entry(self, page: FetchedPage, content: PageContent) -> WritePage:
        entry = entry_of(page, content)
        return lambda connection: None if entry is None else put(connection, entry)

    @override
    def removal(self, page: FetchedPage) -> WritePage:
        key = url_key(page.url)
        return lambda connection: remove(connection, key)


def put(connection: sqlite3.Connection, entry: PageEntry) -> None:
    """Write a page, replacing an earlier one at the same address. An equal one stays."""
    digest = entry.digest
    known = connection.execute(_KNOWN, (entry.key,)).fetchone()
    page: int | None = None
    if known is not None:
        page = known["id"]
        if known["digest"] == digest:
            return
        _forget(connection, known["id"])
    about = (entry.url, entry.host, entry.dated_at, entry.published, entry.is_news, entry.picture, digest)
    page = connection.execute(_INSERT, (page, entry.key, *about)).lastrowid
    texts = (entry.title, entry.place, entry.headings, entry.description, entry.body, entry.marks)
    connection.execute(_INSERT_TEXT, (page, *texts))
    connection.execute(_INSERT_HEAD, (page, entry.title, entry.place, entry.headings, entry.marks))
    context = f"{entry.title}\n{entry.headings}"[:1_000]
    for image in entry.images:
        row = connection.execute(_INSERT_IMAGE, (page, image.url, image.width, image.height)).lastrowid
        name = f"{image.url.rpartition('/')[2][:200]} {entry.place}"
        connection.execute(_INSERT_IMAGE_TEXT, (row, image.title, name, context, entry.marks))


def remove(connection: sqlite3.Connection, key: str) -> None:
    """Remove the page with a key if it exists."""
    known = connection.execute(_KNOWN, (key,)).fetchone()
    if known is not None:
        _forget(connection, known["id"])


def empty(connection: sqlite3.Connection) -> None:
    """Remove everything. Deleting row by row would take as long as writing."""
    for name in _VIRTUAL:
        connection.execute(f"DROP TABLE IF EXISTS {name}")
    for made in _MADE:
        connection.execute(made)
    connection.execute("DELETE FROM search_images")
    connection.execute("DELETE FROM search_pages")


def _forget(connection: sqlite3.Connection, page: int) -> None:
    for statement in _FORGET:
        connection.execute(statement, (page,))
