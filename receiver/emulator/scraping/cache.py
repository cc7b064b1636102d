"""The cache of pages, whose bytes can be read again in every format, and the documents of scrapes by id."""

import asyncio
import hashlib
import json
import sqlite3
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from urllib.parse import urlsplit, urlunsplit

from receiver.core.clock import Clock, from_micros, to_micros
from receiver.emulator.failures import ScrapeFailed
from receiver.emulator.json_text import to_json_beside
from receiver.emulator.scrapes import FetchedPage, ScrapedPage, ScrapePlan
from receiver.emulator.state.database import StateDatabase, pack, unpack

SCHEMA = """
CREATE TABLE IF NOT EXISTS page_cache (
    id INTEGER PRIMARY KEY,
    key TEXT NOT NULL,
    fetched_at INTEGER NOT NULL,
    url TEXT NOT NULL,
    status INTEGER NOT NULL,
    content_type TEXT NOT NULL,
    body BLOB NOT NULL
) STRICT;
CREATE INDEX IF NOT EXISTS page_cache_by_key ON page_cache (key, fetched_at, id);
CREATE INDEX IF NOT EXISTS page_cache_by_age ON page_cache (fetched_at, id);
"""

MAX_BYTES = 512 * 1024 * 1024
"""Compressed bytes in the cache; the oldest pages are removed first."""
MAX_COPIES = 20
"""Copies of one page."""
LONGEST_AGE = timedelta(days=730)
"""The age of the oldest page that a scrape in lockdown takes."""
_LONGEST_MILLISECONDS = LONGEST_AGE // timedelta(milliseconds=1)
_MANY_ERRORS = 3
"""After this many errors, an earlier page is no longer taken."""
_STEALTH = ("stealth", "enhanced")
_PORTS = {"http": 80, "https": 443}
_PDF_AS_USUAL = ({"type": "pdf"},)
_LOOK = "SELECT id, fetched_at, status FROM page_cache WHERE key = ? ORDER BY fetched_at DESC, id DESC LIMIT ?"
_TAKE = "SELECT fetched_at, url, status, content_type, body FROM page_cache WHERE id = ?"
_KEEP = "INSERT INTO page_cache (key, fetched_at, url, status, content_type, body) VALUES (?, ?, ?, ?, ?, ?)"
_PRUNE = """
DELETE FROM page_cache WHERE key = ? AND id NOT IN (
    SELECT id FROM page_cache WHERE key = ? ORDER BY fetched_at DESC, id DESC LIMIT ?)
"""
_SIZE = "SELECT COALESCE(sum(length(body)), 0) FROM page_cache"
_EVICT = "DELETE FROM page_cache WHERE id IN (SELECT id FROM page_cache ORDER BY fetched_at, id LIMIT 50)"


@dataclass(frozen=True, slots=True)
class CachedCopy:
    """A page as it is kept, with its body compressed."""

    key: str
    """See `key_of_page`."""
    page: FetchedPage
    """Without its body."""
    body: bytes
    """Empty for an error, which is only counted."""


class PageCache:
    """Keeps pages by URL and what else they depend on. Ages are those of the emulator's clock."""

    def __init__(self, database: StateDatabase, clock: Clock, *, max_bytes: int = MAX_BYTES) -> None:
        self._database = database
        self._clock = clock
        self._max_bytes = max_bytes
        self._bytes: int | None = None

    async def find(self, plan: ScrapePlan) -> FetchedPage | None:
        """Return the copy for a plan; None if the page has to be fetched.

        Raises ScrapeFailed if the plan allows only a copy, and there is no such copy.
        """
        now = self._clock.now()
        key = key_of_page(plan)
        row = await self._database.run(lambda connection: _newest(connection, key, plan, now))
        if row is not None:
            body = unpack(row["body"])
            return FetchedPage(
                source_url=plan.url,
                url=row["url"],
                status=row["status"],
                content_type=row["content_type"],
                body=body,
                fetched_at=from_micros(row["fetched_at"]),
            )
        if plan.lockdown:
            text = "There is no copy of this page in the cache, and lockdown allows no request to its site"
            raise ScrapeFailed("SCRAPE_LOCKDOWN_CACHE_MISS", text, credits=1)
        if plan.min_age is not None:
            text = "There is no copy of this page in the cache with an age between minAge and maxAge"
            raise ScrapeFailed("SCRAPE_NO_CACHED_DATA", text)
        return None

    def insert(self, connection: sqlite3.Connection, copy: CachedCopy) -> None:
        """Keep a copy in the caller's transaction, and remove the oldest ones above the limit."""
        page = copy.page
        at = to_micros(page.fetched_at)
        connection.execute(_KEEP, (copy.key, at, page.url, page.status, page.content_type, copy.body))
        connection.execute(_PRUNE, (copy.key, copy.key, MAX_COPIES))
        self._bytes = len(copy.body) + (self._bytes if self._bytes is not None else self._max_bytes)
        if self._bytes > self._max_bytes:
            self._bytes = connection.execute(_SIZE).fetchone()[0]
            while self._bytes > self._max_bytes:
                connection.execute(_EVICT)
                self._bytes = connection.execute(_SIZE).fetchone()[0]


def end_future(connection: sqlite3.Connection, now: datetime) -> None:
    """Give copies of the future the current time: the clock may have been ahead when the state was written."""
    connection.execute("UPDATE page_cache SET fetched_at = ?1 WHERE fetched_at > ?1", (to_micros(now),))


def looks_up(plan: ScrapePlan, *, has_browser: bool = False) -> bool:
    """Return whether a plan may be answered from the cache.

    A page that depends on headers of the request is not; nor is a page compared with an older copy of itself,
    unless only a copy is allowed. No picture can be taken of a copy.
    """
    if plan.lockdown or plan.min_age is not None:
        return True
    if has_browser and plan.format("screenshot") is not None:
        return False
    return plan.max_age > 0 and not plan.headers and not plan.actions and plan.format("changeTracking") is None


def is_kept(plan: ScrapePlan, *, has_browser: bool = False) -> bool:
    """Return whether the page of a plan goes into the cache: not if it was loaded for a picture."""
    if has_browser and plan.format("screenshot") is not None:
        return False
    own = plan.headers or plan.actions or plan.zero_data_retention or tuple(plan.parsers) != _PDF_AS_USUAL
    return plan.store_in_cache and not own


def copy_of(plan: ScrapePlan, page: FetchedPage) -> CachedCopy:
    """Return a page as it is kept. Compressing it takes a while."""
    body = pack(page.body) if 200 <= page.status < 300 else b""
    return CachedCopy(key_of_page(plan), replace(page, body=b""), body)


def key_of_page(plan: ScrapePlan) -> str:
    """Return the key of a plan's page, equal for plans that get the same page: URL, device, place, languages."""
    parts: tuple[object, ...] = (
        _normal(plan.url),
        plan.mobile,
        plan.block_ads,
        plan.proxy in _STEALTH,
        plan.country,
        list(plan.languages),
    )
    if plan.wait_for:
        parts += (plan.wait_for,)  # the browser has run the scripts of such a page
    return hashlib.sha256(json.dumps(parts).encode("utf-8", "backslashreplace")).hexdigest()


def _normal(url: str) -> str:
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError:
        return url
    host = (parts.hostname or "").lower()
    if port is not None and port != _PORTS.get(parts.scheme.lower()):
        host += f":{port}"
    fragment = parts.fragment if parts.fragment.startswith(("/", "!/")) else ""
    return urlunsplit((parts.scheme.lower(), host, parts.path or "/", parts.query, fragment))


def _newest(connection: sqlite3.Connection, key: str, plan: ScrapePlan, now: datetime) -> sqlite3.Row | None:
    """Return the newest page of the right age, unless its site has answered with several errors since."""
    longest = _LONGEST_MILLISECONDS if plan.lockdown else min(plan.max_age, _LONGEST_MILLISECONDS)
    oldest = to_micros(now) - 1000 * longest
    youngest = to_micros(now) - 1000 * min(plan.min_age or 0, _LONGEST_MILLISECONDS)
    errors = 0
    for row in connection.execute(_LOOK, (key, MAX_COPIES)).fetchall():
        if not 200 <= row["status"] < 300:
            errors += 1
        elif errors >= _MANY_ERRORS or row["fetched_at"] < oldest:
            return None
        elif row["fetched_at"] <= youngest:
            found: sqlite3.Row = connection.execute(_TAKE, (row["id"],)).fetchone()
            return found
    return None


KEPT_SCHEMA = """
CREATE TABLE IF NOT EXISTS kept_scrapes (
    id TEXT PRIMARY KEY,
    team TEXT NOT NULL,
    expires_at INTEGER NOT NULL,
    document BLOB NOT NULL
) STRICT;
CREATE INDEX IF NOT EXISTS kept_scrapes_by_age ON kept_scrapes (expires_at);
"""

KEPT_FOR = timedelta(hours=24)
"""The time in which a document can be requested by its id."""
_REMEMBERED = timedelta(hours=24)
"""The time after that in which it is known to have expired."""
_KEEP_SCRAPE = "INSERT OR REPLACE INTO kept_scrapes (id, team, expires_at, document) VALUES (?, ?, ?, ?)"
_FIND_SCRAPE = "SELECT expires_at, document FROM kept_scrapes WHERE id = ? AND team = ?"
_FORGET = "DELETE FROM kept_scrapes WHERE expires_at < ?"


class ScrapeExpired(LookupError):
    """The document was kept, and has expired."""


class KeptScrapes:
    """Keeps the documents of scrapes for their team."""

    def __init__(self, database: StateDatabase, clock: Clock) -> None:
        self._database = database
        self._clock = clock

    async def put(self, team: str, page: ScrapedPage) -> None:
        """Keep the document of a scrape, and remove those that expired a day ago."""
        now = self._clock.now()
        document = await asyncio.to_thread(pack, await to_json_beside(page.document))
        values = (page.scrape_id, team, to_micros(now + KEPT_FOR), document)

        def write(connection: sqlite3.Connection) -> None:
            connection.execute(_KEEP_SCRAPE, values)
            connection.execute(_FORGET, (to_micros(now - _REMEMBERED),))

        await self._database.run(write)

    async def find(self, team: str, scrape_id: str) -> bytes | None:
        """Return the document as JSON; None if the team has no such scrape. Raises ScrapeExpired if it had one."""
        row = await self._database.run(
            lambda connection: connection.execute(_FIND_SCRAPE, (scrape_id, team)).fetchone()
        )
        if row is None:
            return None
        if row["expires_at"] <= to_micros(self._clock.now()):
            raise ScrapeExpired
        return await asyncio.to_thread(unpack, row["document"])
