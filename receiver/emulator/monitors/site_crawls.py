"""Crawls of monitors: stored as jobs are, but without results to ask for and without events of a crawl."""

import sqlite3
from collections.abc import AsyncGenerator
from contextlib import aclosing
from datetime import timedelta
from functools import partial

from typing_extensions import override

from receiver.emulator.activity import Rest
from receiver.emulator.failures import ScrapeFailed
from receiver.emulator.jobs import table
from receiver.emulator.jobs.crawls import CrawlContext
from receiver.emulator.jobs.engine import LIFETIME
from receiver.emulator.jobs.records import (
    EmulatedJobState,
    JobKind,
    JobRecord,
    PageFailed,
    PageOutcome,
    PageScraped,
    WaitingPage,
)
from receiver.emulator.jobs.sites import NO_LINKS, ChosenLinks, LinkFollower, SiteRules
from receiver.emulator.jobs.table import FoundLink
from receiver.emulator.monitors.findings import SiteCrawler, SitePage
from receiver.emulator.scrapes import ScrapedPage
from receiver.emulator.wire.jobs import CrawlPlan


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
        crawl = await self._begin(plan, team, crawl_id, FoundLink(plan.url, follower.seed_key()))
        if crawl.origin is not None:
            await follower.move_to(crawl.origin)
        if not crawl.prepared:
            await self._read_sitemaps(crawl, plan, rules, follower)
        last = 0
        while found := await self._context.state.run(
            partial(table.waiting_pages, seq=crawl.seq, after=last, limit=1)
        ):
            if plan.delay is not None and last:
                await Rest(self._context.activity).wait(self._context.clock, timedelta(seconds=plan.delay))
            (page,) = found
            last = page.number
            visit = _Visit(crawl.seq, page, follower)
            yield SitePage(page.url, await self._visit(visit, team), visit.note)
            visit.remember()

    @override
    def forget(self, connection: sqlite3.Connection, crawl_id: str) -> None:
        table.delete_job(connection, crawl_id)

    async def _begin(self, plan: CrawlPlan, team: str, crawl_id: str, seed: FoundLink) -> JobRecord:
        """Return a crawl, which begins now with its first page, or was begun before."""
        now = self._context.clock.now()
        crawl = JobRecord(
            id=crawl_id,
            kind=JobKind.SITE,
            team=team,
            plan=plan,
            state=EmulatedJobState.SCRAPING,
            created_at=now,
            expires_at=now + LIFETIME,
        )

        def work(connection: sqlite3.Connection) -> JobRecord:
            known = table.rows_of_jobs(connection, "id = ?", crawl_id)
            if known:
                return table.job_of(known[0])
            seq = table.insert_job(connection, crawl, page_limit=plan.limit)
            table.add_links(connection, seq, [seed], 0)
            return table.job_by_seq(connection, seq)

        return await self._context.state.run(work)

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
        self, crawl: JobRecord, plan: CrawlPlan, rules: SiteRules, follower: LinkFollower
    ) -> None:
        """Take up the pages of the site's sitemaps."""
        if plan.sitemap != "skip":
            async with aclosing(rules.sitemap()) as listed:
                async for urls in listed:
                    links = await follower.choose(urls)
                    add = partial(table.add_links, seq=crawl.seq, links=links.found, depth=0)
                    looked_at = await self._context.state.run(add)
                    follower.remember(links, looked_at)
                    if looked_at < len(links.found):
                        break
        await self._context.state.run(partial(table.note_prepared, seq=crawl.seq))


class _Visit:
    """One page of a crawl. Without an outcome it could not be scraped."""

    def __init__(self, crawl: int, page: WaitingPage, follower: LinkFollower) -> None:
        self.page = page
        self.follower = follower
        self.outcome: PageOutcome | None = None
        self.links: ChosenLinks = NO_LINKS
        self._crawl = crawl
        self._looked_at = 0

    def note(self, connection: sqlite3.Connection) -> bool:
        """Note that the page is done, and which links follow; False if it led to a page that the crawl has."""
        crawl, number = self._crawl, self.page.number
        if not table.end_page(connection, crawl, number):
            return False
        is_known = False
        if isinstance(self.outcome, PageScraped):
            key = self.outcome.final_key
            is_known = key is not None and not table.take_key(connection, crawl, key)
            table.move_to(connection, crawl, self.outcome.origin)
        if is_known or not isinstance(self.outcome, PageScraped):  # another page takes its place
            table.count_failed(connection, crawl, number, None)
        self._looked_at = table.add_links(connection, crawl, self.links.found, self.page.depth + 1)
        return not is_known

    def remember(self) -> None:
        """Ignore the links of the page from now on: they were taken up, or refused."""
        self.follower.remember(self.links, self._looked_at)


def _failure(failed: PageFailed) -> ScrapeFailed:
    return ScrapeFailed(failed.code or "CRAWL_DENIAL", failed.text)
