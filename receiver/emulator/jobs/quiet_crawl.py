"""A crawl that is no job: a monitor looks at a site, without results to ask for and without events of a crawl."""

import sqlite3
from collections.abc import AsyncGenerator
from contextlib import aclosing
from datetime import timedelta
from functools import partial

from receiver.core.clock import Clock
from receiver.emulator.activity import Activity, Rest
from receiver.emulator.failures import ScrapeFailed
from receiver.emulator.jobs import sites
from receiver.emulator.jobs.following import NO_LINKS, ChosenLinks, LinkFollower
from receiver.emulator.jobs.records import PageFailed, PageOutcome, PageScraped, WaitingPage
from receiver.emulator.jobs.sites import OpenSite, SiteRules
from receiver.emulator.jobs.table import FoundLink
from receiver.emulator.monitors.ports import SitePage
from receiver.emulator.scrapes import ScrapedPage, Scraper
from receiver.emulator.state.database import StateDatabase
from receiver.emulator.wire.plans import CrawlPlan


class QuietCrawler:
    """Crawls sites for monitors: their SiteCrawler. Pages of one site are scraped one after the other."""

    def __init__(
        self, database: StateDatabase, scraper: Scraper, open_site: OpenSite, *, clock: Clock, activity: Activity
    ) -> None:
        self._database = database
        self._scraper = scraper
        self._open_site = open_site
        self._clock = clock
        self._activity = activity

    async def pages(self, plan: CrawlPlan, *, team: str, crawl_id: str) -> AsyncGenerator[SitePage, None]:
        """Yield the pages of a site as they are scraped; the next one when this one is noted.

        At most as many as the plan's limit are scraped; one that fails gives its place back.
        """
        rules = await self._open_site(plan)
        follower = LinkFollower(plan, rules)
        seed = FoundLink(plan.url, follower.seed_key())
        begin = partial(sites.begin_crawl, crawl=crawl_id, seed=seed, limit=plan.limit)
        if (origin := await self._database.patient.run(partial(sites.origin_of, crawl=crawl_id))) is not None:
            await follower.move_to(origin)
        if await self._database.patient.run(begin):
            await self._read_sitemaps(plan, rules, follower, crawl_id)
        is_first = True
        while (page := await self._database.patient.run(partial(sites.next_page, crawl=crawl_id))) is not None:
            if plan.delay is not None and not is_first:
                await Rest(self._activity).wait(self._clock, timedelta(seconds=plan.delay))
            is_first = False
            visit = _Visit(crawl_id, page, follower)
            yield SitePage(page.url, await self._visit(visit, team), visit.note)
            visit.remember()

    def forget(self, connection: sqlite3.Connection, crawl_id: str) -> None:
        """Forget a crawl, as a part of the caller's transaction."""
        sites.delete_crawl(connection, crawl_id)

    async def _visit(self, visit: "_Visit", team: str) -> ScrapedPage | ScrapeFailed:
        """Return what became of a page, and note in the visit what follows from it."""
        forbidden = visit.follower.forbids_visit(visit.page)
        if forbidden is not None:
            return _failure(forbidden)
        try:
            plan = visit.follower.plan_of(visit.page)
            scraped = await self._database.patient.until_written(
                lambda: self._scraper.scrape(plan, history_team=team)
            )
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
                    add = partial(sites.add_links, crawl=crawl_id, links=links.found, depth=0)
                    looked_at = await self._database.patient.run(add)
                    follower.remember(links, looked_at)
                    if looked_at < len(links.found):
                        break
        await self._database.patient.run(partial(sites.note_sitemap, crawl=crawl_id))


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
        if not sites.end_page(connection, self._crawl_id, self.page.number):
            return False
        is_known = False
        if isinstance(self.outcome, PageScraped):
            key = self.outcome.final_key
            is_known = key is not None and not sites.take_key(connection, self._crawl_id, key)
            sites.keep_origin(connection, self._crawl_id, self.outcome.origin)
        if is_known or not isinstance(self.outcome, PageScraped):
            sites.give_place_back(connection, self._crawl_id)
        links = self.links.found
        self._looked_at = sites.add_links(connection, self._crawl_id, links, self.page.depth + 1)
        return not is_known

    def remember(self) -> None:
        """Look at these links no more: they were taken up, or refused."""
        self.follower.remember(self.links, self._looked_at)


def _failure(failed: PageFailed) -> ScrapeFailed:
    return ScrapeFailed(failed.code or "CRAWL_DENIAL", failed.text)
