"""Crawls of monitors: they are no jobs, so they have no results to ask for and no events of a crawl."""

import sqlite3
from collections.abc import AsyncGenerator, Iterable
from contextlib import aclosing
from datetime import timedelta
from functools import partial

from typing_extensions import override

from receiver.emulator.activity import Rest
from receiver.emulator.failures import ScrapeFailed
from receiver.emulator.jobs.crawls import CrawlContext
from receiver.emulator.jobs.records import PageFailed, PageOutcome, PageScraped, WaitingPage
from receiver.emulator.jobs.sites import NO_LINKS, ChosenLinks, LinkFollower, SiteRules
from receiver.emulator.jobs.table import FoundLink, choose_new
from receiver.emulator.monitors.findings import SiteCrawler, SitePage
from receiver.emulator.scrapes import ScrapedPage
from receiver.emulator.wire.plans import CrawlPlan

SCHEMA = """
CREATE TABLE IF NOT EXISTS site_crawls (
    id TEXT PRIMARY KEY,
    page_limit INTEGER NOT NULL,
    found INTEGER NOT NULL DEFAULT 0,
    failed INTEGER NOT NULL DEFAULT 0,
    sitemap_read INTEGER NOT NULL DEFAULT 0,
    origin TEXT
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
"""


def _begin(connection: sqlite3.Connection, crawl: str, seed: FoundLink, limit: int) -> tuple[bool, str | None]:
    """Begin a crawl with its first page, unless it was begun.

    Return whether its sitemaps were read, and where it has moved to; None if it is where it began.
    """
    begun = connection.execute("INSERT OR IGNORE INTO site_crawls (id, page_limit) VALUES (?, ?)", (crawl, limit))
    if begun.rowcount == 1:
        add_links(connection, crawl, [seed], 0)
    row = connection.execute("SELECT sitemap_read, origin FROM site_crawls WHERE id = ?", (crawl,)).fetchone()
    return bool(row[0]), row[1]


def add_links(connection: sqlite3.Connection, crawl: str, links: Iterable[FoundLink], depth: int) -> int:
    """Take up the links that are new, first come, first served, and return how many were looked at.

    There was no place for the others: the crawl is at its limit.
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


def next_page(connection: sqlite3.Connection, crawl: str) -> WaitingPage | None:
    """Return the first page that still waits."""
    row = connection.execute(
        "SELECT number, url, depth FROM site_crawl_pages WHERE crawl = ? AND waiting ORDER BY number LIMIT 1",
        (crawl,),
    ).fetchone()
    return None if row is None else WaitingPage(*row)


def end_page(connection: sqlite3.Connection, crawl: str, number: int) -> bool:
    """Note that a page no longer waits; False if it did not wait."""
    ended = connection.execute(
        "UPDATE site_crawl_pages SET waiting = 0 WHERE crawl = ? AND number = ? AND waiting", (crawl, number)
    )
    return ended.rowcount == 1


class QuietCrawler(SiteCrawler):
    """Crawls sites for monitors. Pages of one site are scraped one after the other."""

    def __init__(self, context: CrawlContext) -> None:
        self._context = context

    @override
    async def pages(self, plan: CrawlPlan, *, team: str, crawl_id: str) -> AsyncGenerator[SitePage, None]:
        """Yield the pages of a site as they are scraped; the next one when this one is noted.

        At most as many as the plan's limit are scraped; one that fails gives its place back.
        """
        rules = await self._context.open_site(plan)
        follower = LinkFollower(plan, rules)
        seed, state = FoundLink(plan.url, follower.seed_key()), self._context.state
        is_read, origin = await state.run(partial(_begin, crawl=crawl_id, seed=seed, limit=plan.limit))
        if origin is not None:
            await follower.move_to(origin)
        if not is_read:
            await self._read_sitemaps(plan, rules, follower, crawl_id)
        is_first = True
        while (page := await state.run(partial(next_page, crawl=crawl_id))) is not None:
            if plan.delay is not None and not is_first:
                await Rest(self._context.activity).wait(self._context.clock, timedelta(seconds=plan.delay))
            is_first = False
            visit = _Visit(crawl_id, page, follower)
            yield SitePage(page.url, await self._visit(visit, team), visit.note)
            visit.remember()

    @override
    def forget(self, connection: sqlite3.Connection, crawl_id: str) -> None:
        connection.execute("DELETE FROM site_crawls WHERE id = ?", (crawl_id,))
        connection.execute("DELETE FROM site_crawl_pages WHERE crawl = ?", (crawl_id,))
        connection.execute("DELETE FROM site_crawl_keys WHERE crawl = ?", (crawl_id,))

    async def _visit(self, visit: "_Visit", team: str) -> ScrapedPage | ScrapeFailed:
        """Return what became of a page, and note in the visit what follows from it."""
        forbidden = visit.follower.forbids_visit(visit.page)
        if forbidden is not None:
            return _failure(forbidden)
        try:
            scraped = await self._context.scrape(visit.follower.plan_of(visit.page), team)
        except ScrapeFailed as exc:
            return exc
        visit.outcome = outcome = await visit.follower.judge(visit.page, scraped)
        visit.links = await visit.follower.links_of(visit.page, scraped, outcome)
        return _failure(outcome) if isinstance(outcome, PageFailed) else scraped

    async def _read_sitemaps(
        self, plan: CrawlPlan, rules: SiteRules, follower: LinkFollower, crawl_id: str
    ) -> None:
        """Take up the pages of the site's sitemaps."""
        if plan.sitemap != "skip":
            async with aclosing(rules.sitemap()) as listed:
                async for urls in listed:
                    links = await follower.choose(urls)
                    add = partial(add_links, crawl=crawl_id, links=links.found, depth=0)
                    looked_at = await self._context.state.run(add)
                    follower.remember(links, looked_at)
                    if looked_at < len(links.found):
                        break
        note = "UPDATE site_crawls SET sitemap_read = 1 WHERE id = ?"
        await self._context.state.run(lambda connection: connection.execute(note, (crawl_id,)))


class _Visit:
    """One page of a crawl. Without an outcome it could not be scraped."""

    def __init__(self, crawl_id: str, page: WaitingPage, follower: LinkFollower) -> None:
        self.page = page
        self.follower = follower
        self.outcome: PageOutcome | None = None
        self.links: ChosenLinks = NO_LINKS
        self._crawl_id = crawl_id
        self._looked_at = 0

    def note(self, connection: sqlite3.Connection) -> bool:
        """Note that the page is done, and which links follow; False if it led to a page that the crawl has."""
        if not end_page(connection, self._crawl_id, self.page.number):
            return False
        is_known = False
        if isinstance(self.outcome, PageScraped):
            key = self.outcome.final_key
            is_known = key is not None and not take_key(connection, self._crawl_id, key)
            connection.execute(
                "UPDATE site_crawls SET origin = coalesce(?, origin) WHERE id = ?",
                (self.outcome.origin, self._crawl_id),
            )
        if is_known or not isinstance(self.outcome, PageScraped):  # another page takes its place
            connection.execute("UPDATE site_crawls SET failed = failed + 1 WHERE id = ?", (self._crawl_id,))
        links = self.links.found
        self._looked_at = add_links(connection, self._crawl_id, links, self.page.depth + 1)
        return not is_known

    def remember(self) -> None:
        """Ignore the links of the page from now on: they were taken up, or refused."""
        self.follower.remember(self.links, self._looked_at)


def _failure(failed: PageFailed) -> ScrapeFailed:
    return ScrapeFailed(failed.code or "CRAWL_DENIAL", failed.text)
