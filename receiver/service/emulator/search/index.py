"""The search index: full text of pages in SQLite (FTS5), in the state database."""

import sqlite3

from receiver.service.emulator.fetching.url_keys import url_key
from receiver.service.emulator.scrapes import FetchedPage
from receiver.service.emulator.scraping.ports import ReadContent, WritePage
from receiver.service.emulator.search.entries import PageEntry, entry_of

_TOKENS = "tokenize = 'porter unicode61 remove_diacritics 2'"
_VIRTUAL = {
    "search_texts": "title, place, headings, description, body, marks",
    "search_heads": "title, place, headings, marks",
    "search_image_texts": "title, place, context, marks",
}
"""Full texts. The heads are searched alone when a word is on so many pages that not all can be ranked."""
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


class FullTextIndex:
    """Takes pages in, and lets go of those that are gone. Every address is there once."""

    def entry(self, page: FetchedPage, content: ReadContent) -> WritePage:
        """Return what writes a page into the index, in the transaction of the caller."""
        entry = entry_of(page, content)
        return _nothing if entry is None else lambda connection: put(connection, entry)

    def removal(self, page: FetchedPage) -> WritePage:
        """Return what removes a page, in the transaction of the caller."""
        key = url_key(page.url)
        return lambda connection: remove(connection, key)


def put(connection: sqlite3.Connection, entry: PageEntry) -> None:
    """Write a page, in place of an earlier one at the same address. One that is the same as before stays."""
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
    """Remove the page with a key, if it is there."""
    known = connection.execute(_KNOWN, (key,)).fetchone()
    if known is not None:
        _forget(connection, known["id"])


def empty(connection: sqlite3.Connection) -> None:
    """Remove everything. Deleting row by row would take as long as writing did."""
    for name in _VIRTUAL:
        connection.execute(f"DROP TABLE IF EXISTS {name}")
    for made in _MADE:
        connection.execute(made)
    connection.execute("DELETE FROM search_images")
    connection.execute("DELETE FROM search_pages")


def _forget(connection: sqlite3.Connection, page: int) -> None:
    for statement in _FORGET:
        connection.execute(statement, (page,))


def _nothing(_connection: sqlite3.Connection) -> None:
    """Write nothing."""
