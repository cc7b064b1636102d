"""The pages that crawls of monitors have found. Every function is a part of the caller's transaction."""

import sqlite3
from collections.abc import Iterable

from receiver.service.emulator.jobs.records import WaitingPage
from receiver.service.emulator.jobs.table import FoundLink, choose_new

SCHEMA = """
CREATE TABLE IF NOT EXISTS site_crawls (
    id TEXT PRIMARY KEY,
    page_limit INTEGER NOT NULL,
    found INTEGER NOT NULL DEFAULT 0,
    failed INTEGER NOT NULL DEFAULT 0,
    sitemap_read INTEGER NOT NULL DEFAULT 0
) STRICT, WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS site_crawl_pages (
    crawl TEXT NOT NULL,
    number INTEGER NOT NULL,
    url TEXT NOT NULL,
    depth INTEGER NOT NULL,
    waiting INTEGER NOT NULL DEFAULT 1,
    PRIMARY KEY (crawl, number)
) STRICT, WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS site_crawl_keys (
    crawl TEXT NOT NULL,
    key TEXT NOT NULL,
    PRIMARY KEY (crawl, key)
) STRICT, WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS crawl_origins (
    crawl TEXT PRIMARY KEY,
    url TEXT NOT NULL
) STRICT, WITHOUT ROWID;
"""


def begin_crawl(connection: sqlite3.Connection, crawl: str, seed: FoundLink, limit: int) -> bool:
    """Begin a crawl with its first page, unless it was begun; tell whether its sitemaps are still to be read."""
    begun = connection.execute("INSERT OR IGNORE INTO site_crawls (id, page_limit) VALUES (?, ?)", (crawl, limit))
    if begun.rowcount == 1:
        add_links(connection, crawl, [seed], 0)
        return True
    row = connection.execute("SELECT sitemap_read FROM site_crawls WHERE id = ?", (crawl,)).fetchone()
    return not row[0]


def add_links(connection: sqlite3.Connection, crawl: str, links: Iterable[FoundLink], depth: int) -> int:
    """Take up the links that are new, first come, first served, and return how many were looked at.

    Those behind have found no place: the crawl is at its limit.
    """
    row = connection.execute("SELECT found, failed, page_limit FROM site_crawls WHERE id = ?", (crawl,)).fetchone()
    if row is None:  # a reset has forgotten the crawl
        return 0
    taken, looked_at = choose_new(links, row, lambda key: take_key(connection, crawl, key))
    connection.executemany(
        "INSERT INTO site_crawl_pages (crawl, number, url, depth) VALUES (?, ?, ?, ?)",
        ((crawl, number, link.url, depth) for number, link in enumerate(taken, start=row["found"] + 1)),
    )
    connection.execute("UPDATE site_crawls SET found = found + ? WHERE id = ?", (len(taken), crawl))
    return looked_at


def take_key(connection: sqlite3.Connection, crawl: str, key: str) -> bool:
    """Note that a crawl has a page with this key; False if it had one before."""
    return connection.execute("INSERT OR IGNORE INTO site_crawl_keys VALUES (?, ?)", (crawl, key)).rowcount == 1


def note_sitemap(connection: sqlite3.Connection, crawl: str) -> None:
    """Note that the sitemaps of the site are read."""
    connection.execute("UPDATE site_crawls SET sitemap_read = 1 WHERE id = ?", (crawl,))


def next_page(connection: sqlite3.Connection, crawl: str) -> WaitingPage | None:
    """Return the page that was found first and that nobody has scraped."""
    row = connection.execute(
        "SELECT number, url, depth FROM site_crawl_pages WHERE crawl = ? AND waiting ORDER BY number LIMIT 1",
        (crawl,),
    ).fetchone()
    return None if row is None else WaitingPage(*row)


def end_page(connection: sqlite3.Connection, crawl: str, number: int) -> bool:
    """Note that a page waits no more; False if it did not."""
    ended = connection.execute(
        "UPDATE site_crawl_pages SET waiting = 0 WHERE crawl = ? AND number = ? AND waiting", (crawl, number)
    )
    return ended.rowcount == 1


def give_place_back(connection: sqlite3.Connection, crawl: str) -> None:
    """Count a page that is no result: another one takes its place."""
    connection.execute("UPDATE site_crawls SET failed = failed + 1 WHERE id = ?", (crawl,))


def keep_origin(connection: sqlite3.Connection, crawl: str, origin: str | None) -> None:
    """Keep where a crawl, or a crawl job, has moved to; None changes nothing."""
    if origin is not None:
        connection.execute("INSERT OR REPLACE INTO crawl_origins VALUES (?, ?)", (crawl, origin))


def origin_of(connection: sqlite3.Connection, crawl: str) -> str | None:
    """Return where a crawl has moved to; None if it is where it began."""
    row = connection.execute("SELECT url FROM crawl_origins WHERE crawl = ?", (crawl,)).fetchone()
    return None if row is None else str(row[0])


def delete_crawl(connection: sqlite3.Connection, crawl: str) -> None:
    """Forget a crawl."""
    connection.execute("DELETE FROM site_crawls WHERE id = ?", (crawl,))
    for name in ("site_crawl_pages", "site_crawl_keys", "crawl_origins"):
        connection.execute(f"DELETE FROM {name} WHERE crawl = ?", (crawl,))  # noqa: S608 - constants


def forget_origins(connection: sqlite3.Connection) -> None:
    """Forget the origins of crawls that have ended."""
    connection.execute(
        "DELETE FROM crawl_origins WHERE crawl NOT IN (SELECT id FROM jobs WHERE ended_at IS NULL)"
        " AND crawl NOT IN (SELECT id FROM site_crawls)"
    )
