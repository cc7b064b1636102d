"""Reads the given sites into the index in the background, without scrapes."""

import asyncio
import sqlite3
from datetime import datetime, timedelta
from functools import partial
from itertools import islice

import httpx

from receiver.core.clock import Clock
from receiver.emulator.activity import Activity
from receiver.emulator.content.kinds import ContentKind, kind_of
from receiver.emulator.failures import ScrapeFailed
from receiver.emulator.fetching.robots import MAX_ROBOTS_BYTES, RobotsRules
from receiver.emulator.fetching.sites import GivenSites
from receiver.emulator.fetching.web_urls import request_url, url_key
from receiver.emulator.scrapes import FetchedPage, ScrapePlan
from receiver.emulator.scraping.ports import ReadPage, WritePage
from receiver.emulator.search.index import FullTextIndex, remove
from receiver.emulator.state.database import StateDatabase
from receiver.runtime.log_lines import event_log

log = event_log(__name__)

MOST_PAGES = 2_000
"""The most pages of one site that are read; others are indexed when they are scraped."""
STALE_AFTER = timedelta(minutes=10)
"""The files may change: a later search starts another reading, and does not wait for it."""
_AT_ONCE = 4
_TOGETHER = 25
_PLAN_MS = 60_000
"""The time-out of a page: enough on a busy machine, and the end of a document that loops."""
_INDEXED = "SELECT url FROM search_pages WHERE url = ? OR url LIKE ? ESCAPE '!' LIMIT ?"


class SiteReader:
    """Reads all given sites at the first request."""

    def __init__(
        self,
        *,
        sites: GivenSites,
        read: ReadPage,
        index: FullTextIndex,
        state: StateDatabase,
        clock: Clock,
        activity: Activity,
        max_bytes: int,
    ) -> None:
        self._sites = sites
        self._read = read
        self._index = index
        self._state = state
        self._clock = clock
        self._activity = activity
        self._max_bytes = max_bytes
        self._task: asyncio.Task[None] | None = None
        self._read_at: datetime | None = None

    async def ready(self, seconds: float) -> bool:
        """Return whether all sites have been read. For the first reading this waits, at most for `seconds`."""
        now = self._clock.now()
        is_stale = self._read_at is None or abs(now - self._read_at) >= STALE_AFTER
        if self._task is None or (self._task.done() and is_stale):
            self._task = asyncio.create_task(self._read_all())
        if self._read_at is not None:
            return True
        done, _ = await asyncio.wait([self._task], timeout=seconds)
        return bool(done)

    async def close(self) -> None:
        """Stop reading, and forget that the sites were read."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)
        self._task = self._read_at = None

    async def _read_all(self) -> None:
        with self._activity.running():
            for origin in self._sites.origins:
                try:
                    await self._read_site(origin)
                except Exception:
                    # A site that cannot be listed is not searched; the others are.
                    log.exception("site_not_indexed", extra={"url": origin})
            self._read_at = self._clock.now()

    async def _read_site(self, origin: str) -> None:
        listed = await asyncio.to_thread(self._listed, origin)
        turns = asyncio.Semaphore(_AT_ONCE)

        async def one(url: str) -> WritePage | None:
            async with turns:
                return await self._page(url)

        for at in range(0, len(listed), _TOGETHER):
            made = await asyncio.gather(*(one(url) for url in listed[at : at + _TOGETHER]))
            writes = [write for write in made if write is not None]
            await self._state.run(partial(_write_all, writes=writes))
        await self._let_go(origin, {url_key(url) for url in listed})

    def _listed(self, origin: str) -> list[str]:
        """Return the addresses of the pages and documents of a site that its robots.txt allows."""
        rules = RobotsRules()
        made = request_url(f"{origin}/robots.txt")
        answer = None if made is None else self._sites.answer(made, MAX_ROBOTS_BYTES)
        if answer is not None and answer.status == httpx.codes.OK:
            rules = RobotsRules(answer.body()[:MAX_ROBOTS_BYTES].decode("utf-8-sig", "replace"))
        urls = (url for url in dict.fromkeys(self._sites.document_urls(origin)) if rules.allows(url))
        return list(islice(urls, MOST_PAGES))

    async def _page(self, url: str) -> WritePage | None:
        """Return the write of a page into the index; None for what is not a page."""
        made = request_url(url)
        answer = None if made is None else await asyncio.to_thread(self._sites.answer, made, self._max_bytes)
        if answer is None or answer.status != httpx.codes.OK or answer.location:
            return None
        body = answer.body()
        if len(body) > self._max_bytes or kind_of(body, answer.content_type, url) is ContentKind.UNSUPPORTED:
            return None
        page = FetchedPage(
            source_url=url,
            url=url,
            status=answer.status,
            content_type=answer.content_type,
            body=body,
            fetched_at=self._clock.now(),
        )
        try:
            content = await self._read(page, ScrapePlan(url=url, is_indexed=True, timeout=_PLAN_MS))
        except ScrapeFailed:
            return None
        return await asyncio.to_thread(self._index.entry, page, content)

    async def _let_go(self, origin: str, listed: set[str]) -> None:
        """Remove the pages that a site no longer has."""

        def known(connection: sqlite3.Connection) -> list[str]:
            escaped = origin.replace("!", "!!").replace("%", "!%").replace("_", "!_")
            rows = connection.execute(_INDEXED, (origin, f"{escaped}/%", 2 * MOST_PAGES))
            return [str(row[0]) for row in rows]

        for url in await self._state.run(known):
            made = request_url(url)
            if url_key(url) in listed or made is None:
                continue
            answer = await asyncio.to_thread(self._sites.answer, made, self._max_bytes)
            if answer is None or answer.status >= httpx.codes.BAD_REQUEST:
                await self._state.run(partial(remove, key=url_key(url)))


def _write_all(connection: sqlite3.Connection, writes: list[WritePage]) -> None:
    for write in writes:
        write(connection)
